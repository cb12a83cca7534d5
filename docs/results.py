"""Generator of docs/results/DEVICE.md from the stores of runs: python docs/results.py runs/*.db

There is a page for each device that the runs were on; pages of other devices stay as they are, and say which version of
the evaluator made them. Every figure comes from a store, and every run says how to repeat it. A store is refused whose
best kernel is not right on held-out inputs and measured anew by the evaluator of this version: what was judged by rules
that have changed since is shown only with `--older`, under the version that judged it. Pages are whole or not written.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from evokernel import open_store
from evokernel.cli.display.tables import effort
from evokernel.errors import EvokernelError, StoreError
from evokernel.evaluate import EVALUATOR_VERSION
from evokernel.languages import syntax_of
from evokernel.records.candidate import Candidate
from evokernel.records.timing import Speedup, Timing
from evokernel.report.best import BestKernel
from evokernel.report.lineage import LineageStep
from evokernel.report.status import RunStatus
from evokernel.report.verdicts import Holdout, MeasurementKind
from operators.quoting import fence

PAGES = Path(__file__).with_name("results")
RATIONALE_CHARACTERS = 300
HEAD = """# Results

Made by `python docs/results.py STORE...` from the stores of the runs; nothing on this page is written by hand. A
speed-up is baseline time / kernel time, measured in alternation on the same buffers, with its 95 % interval. All of
them are of the winner's last measurement, in fresh processes with new secrets, after it was right on held-out inputs;
they did not select it. They hold for the device and the versions named with them.
"""


@dataclass(frozen=True, slots=True)
class Result:
    """A finished run."""

    status: RunStatus
    best: BestKernel
    """The winner."""
    story: tuple[LineageStep, ...]
    """Candidates from the seed to the winner."""

    @property
    def place(self) -> tuple[str, str, str]:
        """Device, versions, and mode of the candidates."""
        key = self.best.evaluation.key
        judged_by = f"{key.mode} mode, version {key.evaluator_version} of the evaluator"
        return self.status.run.device, self.status.run.environment, judged_by


def read_result(path: Path, *, older: bool = False) -> Result:
    """Read a run, also one of an older evaluator. Raises `StoreError` where it has no winner that can be shown."""
    with open_store(path) as run:
        result = Result(run.status(), run.best(), tuple(run.story()))
    best, judged_by = result.best, result.best.evaluation.key.evaluator_version
    if judged_by != EVALUATOR_VERSION and not older:
        raise StoreError(
            f"{path}: its best kernel was judged by version {judged_by} of the evaluator, and this is "
            f"{EVALUATOR_VERSION}: `evokernel fork` it and run `evokernel evolve` on the fork, or show it with --older"
        )
    if (best.holdout, best.kind) != (Holdout.PASSED, MeasurementKind.FINAL):
        raise StoreError(f"{path}: its best kernel was not measured anew; run `evokernel evolve` on it to the end")
    return result


def page(results: Iterable[Result]) -> Iterator[str]:
    """Yield the parts of the page."""
    yield HEAD
    ordered = sorted(
        results,
        key=lambda result: (
            *result.place[:2],
            _version(result),
            result.place,
            result.status.run.task,
            str(result.status.run.path),
        ),
    )
    for (device, environment, judged_by), group in groupby(ordered, key=lambda result: result.place):
        found = [*group]
        yield f"## {_plain(device)}\n\n{_plain(environment)}; {_plain(judged_by)}.\n"
        yield _overview(found)
        for result in found:
            yield _run(result)


def _version(result: Result) -> int:
    return int(result.best.evaluation.key.evaluator_version)


def _overview(found: Iterable[Result]) -> str:
    heads = (
        "task",
        "language",
        "over the fastest baseline",
        "over each",
        "over the seed",
        "share of the limit",
        "effort",
        "operators",
    )
    return _table(heads, (_overview_row(result) for result in found)) + "\n"


def _overview_row(result: Result) -> Iterator[str]:
    best = result.best
    yield _plain(result.status.run.task)
    yield best.candidate.language
    yield f"**{_span(best.speedup)}**"
    yield ", ".join(f"{_plain(name)} {_span(each)}" for name, each in sorted(best.baselines.items()))
    yield "is the seed" if best.is_seed else _span(best.over_seed.speedup) if best.over_seed else "-"
    yield f"{best.floor_share:.0%}" if best.floor_share else "-"
    yield _effort(result.status)
    yield ", ".join(_plain(row.name) for row in result.status.operators if row.results and row.name != "seed")


def _effort(status: RunStatus) -> str:
    spent = status.spent
    parts = [f"{spent.evaluations} evaluations", f"{spent.seconds / 60:.0f} min"]
    if spent.calls:
        parts.append(effort(spent.calls, spent.tokens, spent.cost_usd, priced=status.priced))
    return ", ".join(parts)


def _run(result: Result) -> str:
    run, best = result.status.run, result.best
    used = [row for row in result.status.operators if row.results]
    operators = ", ".join(f"{row.name} ({row.correct} of {row.results} right)" for row in used)
    parts = [
        f"### {_plain(run.task)}, run {run.run_id[:8]}",
        f"Best kernel `{best.candidate.id}` in {best.candidate.language}; seed {run.seed} of chance; {operators}.",
        _table(
            ("workload", "kernel", "baseline", "speed-up", "share of the limit"), map(_timing, best.evaluation.timings)
        ),
        "The way from the seed:\n\n" + "\n".join(_step(step) for step in result.story),
        f"<details><summary>The kernel</summary>\n\n{_source(best.candidate)}\n\n</details>",
        "<details><summary>The config: save it as run.yaml and `evokernel evolve run.yaml`</summary>\n\n"
        f"~~~yaml\n{_config(run.config)}\n~~~\n\n</details>",
    ]
    return "\n\n".join(parts) + "\n"


def _timing(timing: Timing) -> tuple[str, ...]:
    share = f"{timing.floor_share:.0%}" if timing.floor_share else "-"
    theirs = f"{timing.baseline_us:.4g} us of {_plain(timing.baseline)}"
    return _plain(timing.workload), f"{timing.candidate_us:.4g} us", theirs, _span(timing.speedup), share


def _config(text: str) -> str:
    """Return a config without the path of its store, which holds only on that machine."""
    return "\n".join(line for line in text.strip().split("\n") if not line.startswith("store:"))


def _source(candidate: Candidate) -> str:
    shown = "".join(char if char.isprintable() or char in "\n\t" else "?" for char in candidate.source)
    return fence(shown, syntax_of(candidate.language))


def _step(step: LineageStep) -> str:
    gain = f": {step.gain:.3g}x over its parent" if step.gain else ""
    return f"1. {_plain(step.operator)}: {_plain(step.rationale[:RATIONALE_CHARACTERS])}{gain}"


def _span(speedup: Speedup) -> str:
    return f"{speedup.value:.4g}x ({speedup.low:.4g} to {speedup.high:.4g})"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = [*heads]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows))


def _plain(text: str) -> str:
    """Return untrusted text as one line without Markdown."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    for char in "\\`*_[]<>|&~#":
        line = line.replace(char, "\\" + char)
    return line


def pages(results: Iterable[Result]) -> dict[str, str]:
    """Return the page of each device by the name of its file."""
    ordered = sorted(results, key=lambda result: result.status.run.device)
    return {
        re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") + ".md": "\n".join(page(group))
        for device, group in groupby(ordered, key=lambda result: result.status.run.device)
    }


def main(arguments: list[str], folder: Path = PAGES) -> int:
    """Write the pages to a folder; 2 where a store cannot be shown, and then nothing is written."""
    older, stores = "--older" in arguments, [each for each in arguments if each != "--older"]
    if not stores or stores[0].startswith("-"):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    try:
        results = [read_result(Path(path), older=older) for path in stores]
    except EvokernelError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    made = {folder / name: text for name, text in pages(results).items()}
    for path, text in made.items():
        path.with_suffix(".part").write_text(text, encoding="utf-8")
    for path in made:
        path.with_suffix(".part").replace(path)
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
