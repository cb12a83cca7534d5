"""The museum's cheats before other judges: `python benchmarks/catch_table.py --kernelbench PATH --out catch.json`.

Cheats for a GPU of the classes that fit every judge's contract, and the honest kernels of their tasks, are judged by
evokernel and by each judge that is named: `--kernelbench`, `--sol-execbench` and `--robust-kbench` take a checkout,
`--flashinfer-bench` a checkout or `installed`. With `--dry` nothing is judged: what the others would be handed is made.

The file takes each verdict as it comes, and a second call goes on after the last one, with other judges too. `--page`
writes docs/catch_table.md from the file alone.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.other_judges import JUDGES, TIMEOUT_S, Outcome, Submission, as_model, as_problem
from evokernel.config.run import EvaluationConfig
from evokernel.evaluate import EVALUATOR_VERSION
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.device.device_class import this_machine
from evokernel.protocols import Evaluator
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import EvaluationRequest, Fidelity
from evokernel.records.timing import combined_speedup
from tests.museum.exhibits import CHEATS, CLASSES, GAIN, HONEST, Exhibit, read_exhibits

OURS = "evokernel"
_CLASSES = ("checking", "caching", "stealing", "clock", "not the task")
"""The others attack what only evokernel has: recording, its builds, its texts."""
_TRIED = 8
"""A judge that accepts none of so many honest kernels does not work on this machine."""
_PAGE = Path(__file__).parents[1] / "docs" / "catch_table.md"


def exhibits() -> tuple[list[Exhibit], list[Exhibit]]:
    """Return the cheats and the honest kernels of their tasks."""
    wings = [read_exhibits(wing / language) for wing in (CHEATS, HONEST) for language in ("triton", "cuda")]
    cheats = [each for each in wings[0] + wings[1] if each.head["class"] in _CLASSES]
    known = {(each.language, each.head["task"]) for each in cheats}
    return cheats, [each for each in wings[2] + wings[3] if (each.language, each.head["task"]) in known]


def submission(exhibit: Exhibit) -> Submission:
    """Return an exhibit as others take it."""
    return Submission(exhibit.label, exhibit.language, exhibit.source, exhibit.task)


# --------------------------------------------------------------------------------------------------------- judging


def _in_a_process(judge: str, option: Any, given: Submission) -> Outcome:
    context = multiprocessing.get_context("forkserver")
    mine, its = context.Pipe()
    process = context.Process(target=_answer, args=(its, judge, option, given))
    process.start()
    its.close()
    try:
        if not mine.poll(TIMEOUT_S):
            return Outcome(False, f"no verdict in {TIMEOUT_S} s")
        found = mine.recv()
    except EOFError:
        process.join()
        return Outcome(False, f"its process ended with {process.exitcode}")
    finally:
        process.kill()
        assert process.pid
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what a judge has started, too: it may hold the GPU
        process.join()
    assert isinstance(found, Outcome)
    return found


def _answer(pipe: Connection, judge: str, option: Any, given: Submission) -> None:
    os.setsid()
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    try:
        pipe.send(JUDGES[judge](given, option))
    except Exception as error:  # noqa: BLE001 (theirs ends so, too)
        pipe.send(Outcome(False, f"raises {error!r}"[:200]))


async def _judge_room(members: Sequence[Exhibit], settings: EvaluationConfig) -> list[Outcome]:
    name = members[0].language
    language = local_language(name, settings, device=this_machine().limits("cuda"))

    async def judge(evaluator: Evaluator, exhibit: Exhibit) -> Outcome:
        candidate, program = Candidate(exhibit.source, name), language.program_hash(exhibit.source)
        found = await evaluator.evaluate(EvaluationRequest(candidate, program, Fidelity.PRECISE))
        speedup = combined_speedup(found.timings).value if found.ok else None
        return Outcome(found.ok, f"{found.status.value} at {found.stage.value}", speedup)

    async with open_evaluator(members[0].task, language, settings=settings) as evaluator:
        return await asyncio.gather(*(judge(evaluator, exhibit) for exhibit in members))


def judge_ours(wanted: Iterable[Exhibit]) -> Iterable[tuple[str, Outcome]]:
    """Yield our verdicts, task by task."""
    settings = EvaluationConfig(quick_ms=20, precise_ms=60, timeout_s=5, compile_timeout_s=20, gpus=1).on("cuda")
    rooms: dict[tuple[str, str], list[Exhibit]] = {}
    for exhibit in wanted:
        rooms.setdefault((exhibit.language, exhibit.task), []).append(exhibit)
    for members in rooms.values():
        found = asyncio.run(_judge_room(members, settings))
        yield from zip((exhibit.label for exhibit in members), found, strict=True)


# -------------------------------------------------------------------------------------------------------- printing


def cell(result: Mapping[str, Any], judge: str, exhibit: Exhibit) -> str:
    """Return what became of an exhibit before a judge: refused, accepted, or accepted with no gain."""
    found = result["verdicts"].get(judge, {}).get(exhibit.label)
    if found is None:
        return "-"
    if not found["accepted"]:
        return "refused"
    number = f" {found['speedup']:.2f}x" if found["speedup"] else ""
    if "gains" in exhibit.head:
        model = result["verdicts"][judge].get(f"{exhibit.language}/{exhibit.model}")
        if model and model["accepted"] and (found["speedup"] or 0) < GAIN * (model["speedup"] or 0):
            return f"no gain{number}"
    return f"**accepted**{number}"


def page(result: Mapping[str, Any]) -> str:
    """Return the result as a page of the docs."""
    judged = set().union(*(labels for labels in result["verdicts"].values()))
    cheats, honest = ([each for each in wing if each.label in judged] for wing in exhibits())
    judges = [OURS, *(name for name in JUDGES if name in result["verdicts"])]

    def row(*cells: object) -> str:
        return f"| {' | '.join(map(str, cells))} |"

    def table(head: str) -> list[str]:
        return [row(head, *judges), row(*["---"] * (len(judges) + 1))]

    def counted(members: Sequence[Exhibit], judge: str, word: str) -> str:
        cells = [cell(result, judge, each) for each in members]
        return f"{sum(word in each for each in cells)} of {sum(each != '-' for each in cells)}"

    lines = [_HEAD, *table("judge"), row("version", *(result["versions"].get(name, "") for name in judges)), ""]
    lines += [f"Hardware: {result['hardware']}.", "", "## Cheats accepted", "", *table("class")]
    for name in _CLASSES:
        members = [each for each in cheats if each.head["class"] == name]
        lines.append(row(f"{name}: {CLASSES[name]}", *(counted(members, judge, "accepted") for judge in judges)))
    lines.append(row("all", *(counted(cheats, judge, "accepted") for judge in judges)))
    lines += ["", "## Honest kernels refused", "", *table("task")]
    for stem in sorted({each.head["task"] for each in honest}):
        members = [each for each in honest if each.head["task"] == stem]
        lines.append(row(f"`{stem}`", *(counted(members, judge, "refused") for judge in judges)))
    for name in _CLASSES:
        lines += ["", f"## Every cheat: {name}", "", *table("cheat")]
        for each in (cheat for cheat in cheats if cheat.head["class"] == name):
            lines.append(row(f"`{each.label}` {each.head['title']}", *(cell(result, judge, each) for judge in judges)))
    return "\n".join(lines) + "\n"


_HEAD = """# The same cheats before other judges

<!-- Made by benchmarks/catch_table.py. -->

Exhibits of [the museum](museum.md) for a GPU go through evokernel and through the evaluators of other projects.
Each judge has its own contract, inputs, tolerances and numbers of calls, with the defaults of its scripts.
A cheat is *accepted* where a judge calls it correct and gives it a time.
*No gain* means that the trick does nothing before this judge.
Its answers are right, and it looks less than 5 % faster than the honest kernel from which it is made.
Numbers are speed-ups over the reference, in the words of each judge; they do not compare across columns.

* Most cheats were written against evokernel, or after reports of other projects.
  The table shows what each judge sees, not how often such kernels occur.
* Exhibits that no judge was asked about are left out; `-` is one that this judge was not asked about.
* The other judges permit calls of torch, so some cheats of the class *not the task* break no rule of theirs.
* Other judges know one size, the first search workload; evokernel has all of the task's.
* robust-kbench compiles CUDA C++ files; here its check and its timer call the exhibit's own `run`.
* KernelBench imports clients of language models; empty modules stand in their place.
"""


# ------------------------------------------------------------------------------------------------------------ main


def _version(option: str) -> str:
    if option == "installed":
        try:
            return version("flashinfer-bench")
        except PackageNotFoundError:
            return "not installed"
    named = Path(option, "COMMIT")  # of an archive, which has no repository of its own
    if named.is_file():
        return named.read_text(encoding="utf-8").strip()[:12]
    command = ["git", "-C", option, "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip() or "unknown commit"


def _rehearse(wanted: Iterable[Exhibit]) -> None:
    for exhibit in wanted:
        given = submission(exhibit)
        for text in as_model(given):
            compile(text, exhibit.label, "exec")
        json.dumps(as_problem(given))
        print(f"{exhibit.label}: fits", flush=True)


class Verdicts:
    """The result file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.result: dict[str, Any] = {"hardware": "", "versions": {}, "verdicts": {}}
        if path.exists():
            self.result = json.loads(path.read_text(encoding="utf-8"))

    def lacking(self, judge: str, wanted: Iterable[Exhibit]) -> list[Exhibit]:
        """Return the exhibits without a verdict of a judge."""
        return [each for each in wanted if each.label not in self.result["verdicts"].get(judge, {})]

    def keep(self, judge: str, label: str, found: Outcome) -> None:
        """Write a verdict."""
        self.result["verdicts"].setdefault(judge, {})[label] = asdict(found)
        self._path.write_text(json.dumps(self.result, indent=1), encoding="utf-8")
        print(f"{judge}: {label}: {'accepted' if found.accepted else 'refused'} ({found.words})", flush=True)


def judge_theirs(kept: Verdicts, options: Mapping[str, str], wanted: Sequence[Exhibit], *, jobs: int) -> None:
    """Have other judges judge what they have not yet. Raises `SystemExit` where one accepts no honest kernel."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(["torch", "triton", "evokernel.tasks"])
    for judge, option in options.items():
        kept.result["versions"][judge] = _version(option)
        path = None if option == "installed" else Path(option).resolve()
        members = kept.lacking(judge, wanted)
        tried: list[Outcome] = []
        with ThreadPoolExecutor(jobs) as pool:
            judged = pool.map(partial(_in_a_process, judge, path), map(submission, members))
            for exhibit, found in zip(members, judged, strict=True):
                tried += [found] if "class" not in exhibit.head else []
                if len(tried) == _TRIED and not any(each.accepted for each in tried):
                    pool.shutdown(cancel_futures=True)
                    raise SystemExit(f"{judge} accepts no honest kernel, so it does not work here: {found.words}")
                kept.keep(judge, exhibit.label, found)


def main() -> int:
    """Judge what the file lacks, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in JUDGES:
        parser.add_argument(f"--{name.lower()}", dest=name, metavar="PATH", help=f"checkout of {name}")
    parser.add_argument("--out", type=Path, required=True, help="verdicts, read and written")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of the names of exhibits or tasks")
    parser.add_argument("--jobs", type=int, default=4, help="processes of other judges at a time")
    parser.add_argument("--ours", action=argparse.BooleanOptionalAction, default=True, help="judge by evokernel, too")
    parser.add_argument("--dry", action="store_true", help="make what the others are handed, and judge nothing")
    parser.add_argument(
        "--page", action="store_true", help="write docs/catch_table.md from the file, and judge nothing"
    )
    given = parser.parse_args()
    kept, (cheats, honest) = Verdicts(given.out), exhibits()
    wanted = [
        each for each in honest + cheats if any(part in f"{each.label} {each.head['task']}" for part in given.only)
    ]
    if given.dry:
        _rehearse(wanted)
        return 0
    if given.page:
        if not kept.result["verdicts"]:
            parser.error(f"{given.out} has no verdicts: judge first, then write the page")
        _PAGE.write_text(page(kept.result), encoding="utf-8")
        return 0
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    kept.result["hardware"] = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    options = {name: option for name in JUDGES if (option := getattr(given, name))}
    judge_theirs(kept, options, wanted, jobs=given.jobs)
    if given.ours:
        kept.result["versions"][OURS] = f"{version('evokernel-search')}, evaluator {EVALUATOR_VERSION}"
        for label, found in judge_ours(kept.lacking(OURS, wanted)):
            kept.keep(OURS, label, found)
    print(page(kept.result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
