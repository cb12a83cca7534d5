"""`evokernel init` on functions it has not seen: accepted, seeds by kind, right on odd sizes, seconds, reasons why not.

Needs no GPU: GPU seeds are compiled for sm_90, and their results compared in Triton's interpreter.

    python benchmarks/init_table.py                                # the functions of own_functions.py
    python benchmarks/init_table.py --names attention,sort_rows
    python benchmarks/init_table.py --kernelbench FOLDER --each 8 --record rows.jsonl

The last takes so many problems of each of the levels 1 to 3 of a checkout, drawn in an order that is always the same,
and goes on where a file of rows ends. Each function is tried in a fork of a process that imports torch once; `--jobs`
of them are tried at a time. With `--program-only` Inductor's program is written, and neither compiled nor compared.
Where there is a GPU the judge judges each program, and the table says how fast it is.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import random
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any

OWN = Path(__file__).with_name("own_functions.py")
_LEVELS = (1, 2, 3)
_NUMBER = re.compile(r"\d+")
_JUDGED = re.compile(r"at ([0-9.e+-]+)x the fastest baseline's speed")


def functions(names: str) -> Iterator[tuple[str, list[str]]]:
    """Yield label and arguments of `one` for each function of `own_functions.py`, or for those named."""
    for name, inputs in re.findall(r'^def (\w+)\(.*\n    """(.*)"""', OWN.read_text(), re.MULTILINE):
        if not names or name in names.split(","):
            yield name, [str(OWN), name, inputs]


def problems(checkout: Path, each: int, count: int) -> Iterator[tuple[str, list[str]]]:
    """Yield label and arguments of `one` for problems in a random order that is always the same."""
    found = []
    for level in _LEVELS:
        folder = checkout / "KernelBench" / f"level{level}"
        numbered = {int(number[0]): path for path in folder.glob("*.py") if (number := _NUMBER.match(path.name))}
        labelled = [(f"{level}/{numbered[place].stem}", [str(numbered[place]), "", ""]) for place in sorted(numbered)]
        random.Random(level).shuffle(labelled)
        found += labelled[:each]
    random.Random(0).shuffle(found)
    yield from found[:count]


def program_only(file: Path) -> str:
    """Return the reason why Inductor writes no program for a task, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        module = "evokernel.scaffold.inductor.program_process"
        subprocess.run([sys.executable, "-m", module, str(file), "cuda", str(answer)], capture_output=True, check=False)
        return str(json.loads(answer.read_text()).get("reason", "")) if answer.is_file() else "its process failed"


def one(file: str, name: str, inputs: str, *, written: bool, devices: tuple[str, ...]) -> dict[str, Any]:
    """Run `init` on one function; return what a row of the table says. `written`: write Inductor's program only."""
    from evokernel.errors import EvokernelError
    from evokernel.scaffold.inductor.trace_sizes import check_workloads
    from evokernel.scaffold.project import ProjectSettings, init_project
    from evokernel.scaffold.project_seeds import check_seed

    settings = ProjectSettings(devices=devices, kernel=(lambda *_: "") if written else None)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as out:
        try:
            project = init_project(Path(file), name=name, inputs=inputs, out=Path(out), settings=settings)
        except EvokernelError as error:
            return {"accepted": "no", "why": str(error)}
        row: dict[str, Any] = {"accepted": "unfit" if project.unfit else "yes", "why": project.unfit}
        for seed in project.seeds:
            if written and seed.language == "triton":
                row["triton"] = "-" if (why := program_only(project.files[0])) else "written"
                row["why"] += f" triton: {why}." if why else ""
                continue
            text = seed.file.read_text()
            kind = "inductor" if seed.language == "triton" else "loops"
            row[seed.language] = "-" if seed.why else kind
            row["why"] += f" {seed.language}: {seed.why or seed.remark}." if seed.why or seed.remark else ""
            if seed.why or seed.remark:
                row[f"{seed.language} odd"] = seed.remark and "not compared"
                continue
            judged = _JUDGED.search(text[:2000])  # else `init` compared on the least sizes, odd ones and even ones
            row[f"{seed.language} odd"] = f"right, {judged[1]}x" if judged else "right"
            if seed.language == "cpp":
                task = project.task.on("cpu")
                try:
                    check_seed(task, text, list(check_workloads(task)))
                except EvokernelError as error:
                    row["cpp odd"] = f"wrong: {error}"
        return row


def in_a_fork(arguments: Sequence[str], *, written: bool, devices: tuple[str, ...], limit_s: float) -> dict[str, Any]:
    """Return the row of `one` from a process of its own, with the seconds that it and its children computed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    forks = multiprocessing.get_context("fork")
    answers, answer = forks.Pipe(duplex=False)

    def answered() -> None:
        os.setsid()
        answer.send(one(*arguments, written=written, devices=devices))

    child = forks.Process(target=answered)
    child.start()
    answer.close()
    try:
        row = answers.recv() if answers.poll(limit_s) else {"why": f"took more than {limit_s:g} s"}
    except EOFError:
        row = {"why": "its process failed"}
    if child.is_alive():
        with suppress(ProcessLookupError):
            os.killpg(child.pid or 0, signal.SIGKILL)
    child.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    computed = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"s": time.monotonic() - begin, "cpu s": computed, **row}


def print_level(level: int, rows: Sequence[dict[str, Any]]) -> None:
    """Print the counts of a level of KernelBench."""
    admitted = sum(row.get("accepted") == "yes" for row in rows)
    kinds = Counter(row.get("triton", "-") for row in rows)
    loops = sum(row.get("cpp") == "loops" for row in rows)
    median = statistics.median(row["cpu s"] for row in rows) if rows else 0.0
    print(
        f"level {level}: {len(rows)} tried, {admitted} admitted, GPU seeds {dict(kinds)}, C++ seeds {loops}, "
        f"median {median:.0f} s of a core"
    )


def main() -> None:
    """Print one row for each function, then the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default="", help="functions of own_functions.py, separated by commas")
    parser.add_argument("--kernelbench", type=Path, help="checkout of KernelBench")
    parser.add_argument("--each", type=int, default=250, help="problems to draw of each level")
    parser.add_argument("--count", type=int, default=750, help="problems to try of those")
    parser.add_argument("--record", type=Path, help="file that rows are appended to; its problems are not tried again")
    parser.add_argument("--program-only", action="store_true", help="write Inductor's program, and do not compile it")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="write seeds for this one only")
    parser.add_argument("--limit-s", type=float, default=300.0, help="longest time of one `init`")
    parser.add_argument("--jobs", type=int, default=1, help="functions tried at a time")
    arguments = parser.parse_args()
    checkout = arguments.kernelbench
    chosen = problems(checkout, arguments.each, arguments.count) if checkout else functions(arguments.names)
    columns = ("accepted", "cpp", "cpp odd", "triton", "triton odd")
    print("| function | " + " | ".join(columns) + " | s | s of a core | why not |\n|" + "--|" * (len(columns) + 4))
    importlib.import_module("evokernel.scaffold.project")  # torch, once for all forks
    there = arguments.record.read_text().splitlines() if arguments.record and arguments.record.exists() else []
    rows = [json.loads(line) for line in there]
    tried = {row["function"] for row in rows}
    devices = (arguments.device,) if arguments.device else ("cpu", "cuda")
    limits = {"written": arguments.program_only, "devices": devices, "limit_s": arguments.limit_s}
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("fork")) as processes:
        asked = {processes.submit(in_a_fork, each, **limits): label for label, each in chosen if label not in tried}
        for answered in as_completed(asked):
            row = answered.result()
            rows.append({"function": asked[answered], **row})
            if arguments.record:
                with arguments.record.open("a") as record:
                    record.write(json.dumps(rows[-1]) + "\n")
            why = " ".join(str(row.get("why", "")).split()).replace("|", "/")[:200]
            cells = [str(row.get(column) or "-")[:60] for column in columns]
            print(
                f"| {asked[answered]} | {' | '.join(cells)} | {row['s']:.0f} | {row['cpu s']:.0f} | {why} |", flush=True
            )
    for level in _LEVELS if arguments.kernelbench else ():
        print_level(level, [row for row in rows if row["function"].startswith(f"{level}/")])
    counts = {column: sum(row.get(column, "-") not in ("-", "", "no") for row in rows) for column in columns}
    odd = [column for column in columns if column.endswith("odd")]
    right = {column: sum(str(row.get(column, "")).startswith("right") for row in rows) for column in odd}
    print(f"{len(rows)} functions; accepted or with a seed: {counts}; right on odd sizes: {right}")


if __name__ == "__main__":
    main()
