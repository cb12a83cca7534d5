"""`evokernel init` on functions it has not seen: accepted, seeds by kind, right on odd sizes, seconds, reasons why not.

Needs no GPU: GPU seeds are compiled for sm_90, and their results compared in Triton's interpreter.

    python benchmarks/init_table.py                                # the functions of own_functions.py
    python benchmarks/init_table.py --names attention,sort_rows
    python benchmarks/init_table.py --kernelbench FOLDER --first 5 # a checkout: 5 problems of each of the levels 1 to 3
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OWN = Path(__file__).with_name("own_functions.py")
_LEVELS = (1, 2, 3)
_NUMBER = re.compile(r"\d+")


def functions(names: str) -> Iterator[tuple[str, list[str]]]:
    """Yield label and `--one` arguments of each function of `own_functions.py`, or of those named."""
    for name, inputs in re.findall(r'^def (\w+)\(.*\n    """(.*)"""', OWN.read_text(), re.MULTILINE):
        if not names or name in names.split(","):
            yield name, [str(OWN), name, inputs]


def problems(checkout: Path, first: int) -> Iterator[tuple[str, list[str]]]:
    """Yield label and `--one` arguments of the first problems of each level."""
    for level in _LEVELS:
        folder = checkout / "KernelBench" / f"level{level}"
        found = {int(number[0]): path for path in folder.glob("*.py") if (number := _NUMBER.match(path.name))}
        for place in sorted(found)[:first]:
            yield f"{level}/{found[place].stem}", [str(found[place]), "", ""]


def one(file: str, name: str, inputs: str) -> dict[str, Any]:
    """Run `init` on one function; return what a row of the table says."""
    from evokernel.errors import EvokernelError
    from evokernel.scaffold.inductor.trace_sizes import check_workloads
    from evokernel.scaffold.project import init_project
    from evokernel.scaffold.seed import check_seed

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as out:
        try:
            project = init_project(Path(file), name=name, inputs=inputs, out=Path(out))
        except EvokernelError as error:
            return {"accepted": "no", "why": str(error)}
        row: dict[str, Any] = {"accepted": "unfit" if project.unfit else "yes", "why": project.unfit}
        for seed in project.seeds:
            text = seed.file.read_text()
            kind = "inductor" if seed.language == "triton" else "loops"
            row[seed.language] = "-" if seed.why else kind
            row["why"] += f" {seed.language}: {seed.why}." if seed.why else ""
            if seed.why or seed.remark:
                row[f"{seed.language} odd"] = seed.remark and "not compared"
                continue
            row[f"{seed.language} odd"] = "right"  # as `init` found on the least sizes, odd ones and even ones
            if seed.language == "cpp":
                task = project.task.on("cpu")
                try:
                    check_seed(task, text, list(check_workloads(task)))
                except EvokernelError as error:
                    row["cpp odd"] = f"wrong: {error}"
        return row


def main() -> None:
    """Print one row for each function, then the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default="", help="functions of own_functions.py, separated by commas")
    parser.add_argument("--kernelbench", type=Path, help="checkout of KernelBench")
    parser.add_argument("--first", type=int, default=3, help="problems of each level")
    parser.add_argument("--limit-s", type=float, default=300.0, help="longest time of one `init`")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(*arguments.one)))
        return
    chosen = problems(arguments.kernelbench, arguments.first) if arguments.kernelbench else functions(arguments.names)
    columns = ("accepted", "cpp", "cpp odd", "triton", "triton odd")
    print("| function | " + " | ".join(columns) + " | s | why not |\n|" + "--|" * (len(columns) + 3))
    rows = []
    for label, each in chosen:
        begin = time.monotonic()
        argv = [sys.executable, __file__, "--one", *each]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=arguments.limit_s, check=False)
            row = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {"why": done.stderr[-200:]}
        except subprocess.TimeoutExpired:
            row = {"why": "took too long"}
        rows.append(row)
        why = " ".join(str(row.get("why", "")).split()).replace("|", "/")[:200]
        cells = [str(row.get(column) or "-")[:60] for column in columns]
        print(f"| {label} | {' | '.join(cells)} | {time.monotonic() - begin:.0f} | {why} |", flush=True)
    counts = {column: sum(row.get(column, "-") not in ("-", "", "no") for row in rows) for column in columns}
    right = {column: sum(row.get(column) == "right" for row in rows) for column in columns if column.endswith("odd")}
    print(f"{len(rows)} functions; accepted or with a seed: {counts}; right on odd sizes: {right}")


if __name__ == "__main__":
    main()
