"""A recorded call under compute-sanitizer: accesses out of bounds, and races on shared memory.

On a hidden shape nothing is passed on that the candidate could have worded or chosen: no name, line, thread, size.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from evokernel.errors import HarnessError
from evokernel.evaluate.inside.runner.replay import FAULT_EXIT
from evokernel.evaluate.instruments.inspection import Inspection, one_line
from evokernel.evaluate.instruments.tool_run import OUTSIDE, RecordedCall, ToolRunner
from evokernel.evaluate.instruments.tools import SANITIZER, find_tool
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.languages.messages import without_paths
from evokernel.records.evaluation import Stage, Status
from evokernel.records.process_exit import ProcessExit

TIMEOUT_S = 30.0
FOUND_EXIT = 66
_SHOWN = 20  # findings that the tool prints
_TOLD, _PLACES, _CHARACTERS = 3, 4, 160
_MISALIGNED = "misaligned"
_PADDING_BYTES = 4096
_AT_ONCE_BYTES = 4 << 30  # of the buffers of all calls that run at once; tools need several times as much
_SHARED_OPTIONS = (
    *("--error-exitcode", str(FOUND_EXIT), "--print-limit", str(_SHOWN)),
    *("--report-api-errors", "no", "--show-backtrace", "no"),
)
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_BAR = re.compile(r"^=+ ?")
_ACCESS = re.compile(r"^Invalid __(?P<space>\w+)__ (?P<kind>read|write|atomic\w*) of size (?P<size>\d+) bytes?")
_AT = re.compile(r"^at (?P<place>.+)$")
_BY = re.compile(r"^by (?P<thread>thread \(\d+,\d+,\d+\) in block \(\d+,\d+,\d+\))")
_NEAREST = re.compile(
    r"\b(?P<count>\d+) bytes? (?P<side>before|after) the nearest allocation at \S+ of size (?P<size>\d+)"
)
_RACE = re.compile(r"^Error: Race reported between (?P<kind>Read|Write) access at(?P<place>.*)$", re.IGNORECASE)
_AND = re.compile(r"^and (?P<kind>Read|Write) access at(?P<place>.*)$", re.IGNORECASE)
_COUNT = re.compile(r" \[\d+ hazards?\]$")
_SUMMARY = re.compile(r"^(?:ERROR|RACECHECK) SUMMARY: ", re.MULTILINE)
_OFFSET = re.compile(r"^0x[0-9a-f]+ in ")


@dataclass(frozen=True, slots=True)
class SanitizerReport:
    """One finding of a tool."""

    what: str
    """The finding in a few words."""
    where: tuple[str, ...]
    """Lines on its place."""
    doubtful: bool = False
    """Reported as a remark, not as a verdict."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One of compute-sanitizer's tools."""

    name: str
    """Its name on the command line."""
    options: tuple[str, ...]
    """Further options."""
    read: Callable[[str, Mapping[int, str]], Sequence[SanitizerReport]]
    """Reader of its output, given buffer names by size."""
    hidden: str
    """The finding as reported for a hidden shape."""


class Sanitizer:
    """Runs tools on recorded calls; one for each judge."""

    def __init__(
        self, toolbox: ToolRunner, *, find: Callable[[str], Path | None] = find_tool, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._toolbox = toolbox
        self._program = find(SANITIZER)
        self._timeout_s = timeout_s

    def check(self, work: Sequence[tuple[Tool, RecordedCall]]) -> Inspection:
        """Return the first finding, or a line for each check that could not run.

        Checks run at once, as far as their buffers are small together.
        """
        if self._program is None:
            return Inspection(remarks=f"not checked by {SANITIZER}: it is not installed")
        left_out: list[str] = []
        doubts: list[str] = []
        with ThreadPoolExecutor(_at_once(work)) as pool:
            started = [pool.submit(self._run, self._program, tool, call) for tool, call in work]
        for (tool, call), run in zip(work, started, strict=True):
            try:
                done = run.result()
            except (HarnessError, OSError) as error:  # no sandbox or no room: earlier checks stay valid
                left_out.append(f"{_subject(tool, call)}: {one_line(str(error))}")
                continue
            findings = tool.read(done.stdout, _names_by_size(call))
            certain = [finding for finding in findings if not finding.doubtful]
            if certain:
                return Inspection(
                    PhaseVerdict(Status.SANITIZER, Stage.SANITIZER, _feedback(tool, call, certain)), complete=True
                )
            if not findings and not (done.ok and _answers(done)):
                left_out.append(_reason(tool, call, done, timeout_s=self._timeout_s))
            elif findings and not call.hidden:
                doubts.append(_feedback(tool, call, findings))
        remarks = [*dict.fromkeys(left_out), *dict.fromkeys(doubts)]
        if not self._toolbox.sandboxed:
            remarks.append(f"({SANITIZER} was run {OUTSIDE})")
        return Inspection(complete=not left_out, remarks="\n".join(remarks))

    def _run(self, program: Path, tool: Tool, call: RecordedCall) -> ProcessExit:
        options = ("--tool", tool.name, *tool.options, *_SHARED_OPTIONS)
        return self._toolbox.run(program, options, call, answers=_answers, timeout_s=self._timeout_s)


def read_accesses(text: str, names: Mapping[int, str]) -> list[SanitizerReport]:
    """Return the invalid accesses in a report of memcheck. `names` are those of the call's buffers by their size.

    Only reads, writes and atomics count: some versions overestimate the operands of warp-group products, and report
    them as unknown accesses.
    """
    findings = []
    for block in _blocks(text, _ACCESS):
        access = _ACCESS.match(block[0])
        assert access is not None
        joined = " ".join(block)
        how = "misaligned" if _MISALIGNED in joined else "out-of-bounds"
        what = f"{how} {access['kind']} of {access['size']} bytes of {access['space']} memory"
        nearest = _NEAREST.search(joined)
        if nearest is not None and int(nearest["size"]) in names:
            what += f", {nearest['count']} bytes {nearest['side']} {names[int(nearest['size'])]}"
        places = [f"in {_place(match['place'])}" for line in block[1:] if (match := _AT.match(line))]
        threads = [f"by {match['thread']}" for line in block[1:] if (match := _BY.match(line))]
        findings.append(SanitizerReport(what, (*places[:1], *threads[:1])))
    return findings


def read_races(text: str, names: Mapping[int, str]) -> list[SanitizerReport]:
    """Return the races on shared memory in a report of racecheck that it calls errors.

    Several threads that write one place, without a read meanwhile, make a finding doubtful. Triton's block reductions
    do that: all threads of a warp write values that are equal up to rounding.
    """
    findings = []
    for block in _blocks(text, _RACE):
        matches = [match for line in block if (match := _RACE.match(line) or _AND.match(line))]
        kinds = {match["kind"].lower() for match in matches}
        places = [f"{match['kind'].lower()} in {_place(match['place'])}" for match in matches]
        what = "race on shared memory" + ("" if "read" in kinds else ": threads write the same place at once")
        findings.append(SanitizerReport(what, tuple(dict.fromkeys(places))[:_PLACES], doubtful="read" not in kinds))
    return findings


MEMCHECK = Tool(
    "memcheck", ("--padding", str(_PADDING_BYTES)), read_accesses, "an access out of bounds, or a misaligned one"
)
RACECHECK = Tool(
    "racecheck",
    ("--racecheck-report", "analysis", "--racecheck-detect-level", "error"),
    read_races,
    "a race on shared memory",
)


def _blocks(text: str, begins: re.Pattern[str]) -> Iterator[list[str]]:
    """Yield the lines of each finding without the tool's prefix. An empty line ends one."""
    block: list[str] = []
    for line in (_BAR.sub("", line).strip() for line in text.split("\n")):
        if begins.match(line):
            if block:
                yield block
            block = [line]
        elif not line:
            if block:
                yield block
            block = []
        elif block:
            block.append(line)
    if block:
        yield block


def _place(text: str) -> str:
    """Return the place of a finding in the candidate's code, in the tool's words, without our folders."""
    plain = "".join(each if each.isprintable() else " " for each in _OFFSET.sub("", _COUNT.sub("", text).strip()))
    return _ADDRESS.sub("(address)", without_paths(plain))[:_CHARACTERS] or "a kernel"


def _at_once(work: Sequence[tuple[Tool, RecordedCall]]) -> int:
    largest = max((sum(each.size_bytes for each in call.buffers) for _, call in work), default=0)
    return max(1, min(len(work), _AT_ONCE_BYTES // max(1, largest)))


def _names_by_size(call: RecordedCall) -> dict[int, str]:
    sizes = [each.size_bytes for each in call.buffers]
    return {each.size_bytes: each.name for each in call.buffers if sizes.count(each.size_bytes) == 1}


def _answers(done: ProcessExit) -> bool:
    return done.exit_code in (0, FOUND_EXIT) and any(
        _SUMMARY.match(_BAR.sub("", line)) for line in done.stdout.split("\n")
    )


def _feedback(tool: Tool, call: RecordedCall, findings: Sequence[SanitizerReport]) -> str:
    if call.hidden:
        return f"{SANITIZER} ({tool.name}) found {tool.hidden} on {call.label}"
    lines = [f"{SANITIZER} ({tool.name}) on {call.label}:"]
    for finding in findings[:_TOLD]:
        lines += [finding.what, *(f"  {line}" for line in finding.where)]
    if len(findings) > _TOLD:
        lines.append(f"and {'at least ' * (len(findings) == _SHOWN)}{len(findings) - _TOLD} more")
    return "\n".join(lines)


def _subject(tool: Tool, call: RecordedCall) -> str:
    return f"not checked by {SANITIZER} ({tool.name}) on {call.label}"


def _reason(tool: Tool, call: RecordedCall, done: ProcessExit, *, timeout_s: float) -> str:
    what = _subject(tool, call)
    if done.timed_out:
        return f"{what}: it took more than {timeout_s:g} s"
    if done.exit_code == FAULT_EXIT:
        return f"{what}: the recording could not be launched under it"
    return f"{what}: it failed with {done.exit_code if done.signal is None else -done.signal}"
