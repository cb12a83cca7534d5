"""The profile of a recorded call: hardware counters, read by Nsight Compute, and the bottleneck that they show."""

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from evokernel.errors import HarnessError
from evokernel.evaluate.instruments.bottlenecks import Counters, derive, diagnose
from evokernel.evaluate.instruments.counters import METRICS, ProfiledLaunch, hottest, read_counters
from evokernel.evaluate.instruments.inspection import Inspection, one_line
from evokernel.evaluate.instruments.tool_run import OUTSIDE, RecordedCall, ToolRunner
from evokernel.evaluate.instruments.tools import PROFILER, counters_refused, find_tool
from evokernel.records.process_exit import ProcessExit

TIMEOUT_S = 30.0
PREFIX = "profiled_"
"""Begins the names of the counters among an evaluation's metrics."""
_LAUNCHES, _KERNELS = 16, 6
_FAILURES = 3  # failed attempts before the first success, after which none follows
_REFUSED = re.compile(r"^==ERROR== ERR_NVGPUCTRPERM\b", re.MULTILINE)  # anchored, since a kernel may have that name
_ERROR = re.compile(r"^==ERROR== (?P<text>.*)$", re.MULTILINE)
_NOT_ALLOWED = "the driver keeps hardware counters for the administrator (evokernel doctor says how to open them)"
_OPTIONS = (
    *("--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "mangled"),
    *("--clock-control", "none", "--launch-count", str(_LAUNCHES), "--metrics"),
)


class Profiler:
    """Profiles recorded calls on a device; one for each judge.

    An obstacle on this machine is found once, and reported in one line for each candidate.
    """

    def __init__(
        self,
        toolbox: ToolRunner,
        *,
        multiprocessors: int,
        find: Callable[[str], Path | None] = find_tool,
        refused: Callable[[], bool] = counters_refused,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._toolbox = toolbox
        self._multiprocessors = multiprocessors
        self._tool = find(PROFILER)
        self._timeout_s = timeout_s
        self._asked = tuple(METRICS.values())
        self._failures = 0
        self._worked = False
        self._obstacle = ""
        if self._tool is None:
            self._obstacle = f"{PROFILER} of the CUDA toolkit was not found"
        elif refused():
            self._obstacle = _NOT_ALLOWED

    def profile(self, call: RecordedCall) -> Inspection:
        """Return the bottleneck of the kernel that takes most of a call, in a few lines; or why it is not known."""
        if self._tool is None or self._obstacle:
            return Inspection(remarks=f"not profiled: {self._obstacle}")
        began = time.monotonic()
        try:
            done = self._run(self._tool, call)
            if unknown := _unknown(done) & set(self._asked):  # counters that this device or version lacks
                self._asked = tuple(name for name in self._asked if name not in unknown)
                done = self._run(self._tool, call)
        except (HarnessError, OSError) as error:  # a failure leaves the timings valid
            return Inspection(remarks=f"not profiled: {self._failed(one_line(str(error)))}")
        spent = {"profile_s": time.monotonic() - began}
        launches = read_counters(done.stdout)
        found = hottest(launches)
        if found is None:
            refused = _is_refused(done)
            reason = _NOT_ALLOWED if refused else _reason(done, timeout_s=self._timeout_s)
            return Inspection(remarks=f"not profiled: {self._failed(reason, for_good=refused)}", metrics=spent)
        self._worked = True
        launch, share = found
        part = f" of its first {_LAUNCHES} launches" if len(launches) == _LAUNCHES else ""
        known = derive(launch.counters, multiprocessors=self._multiprocessors)
        lines = "\n".join(
            [
                *_profile_lines(call.label, launch, f"{share:.0%} of the time in kernels{part}", known),
                *_each_kernel(launches),
            ]
        )
        counters = {f"{PREFIX}{name}": value for name, value in launch.counters.items()}
        remark = "" if self._toolbox.sandboxed else f"\n({PROFILER} was run {OUTSIDE})"
        return Inspection(complete=True, remarks=lines + remark, metrics={**spent, **counters})

    def _run(self, tool: Path, call: RecordedCall) -> ProcessExit:
        options = (*_OPTIONS, ",".join(self._asked))
        return self._toolbox.run(tool, options, call, answers=_answers, timeout_s=self._timeout_s)

    def _failed(self, reason: str, *, for_good: bool = False) -> str:
        """Return the reason; stop profiling where the machine, not one candidate, seems to cause it."""
        self._failures += 1
        if for_good:
            self._obstacle = reason
        elif self._failures == _FAILURES and not self._worked:
            self._obstacle = f"{PROFILER} failed {_FAILURES} times and never worked, the last time so: {reason}"
        return reason


def _answers(done: ProcessExit) -> bool:
    """Say whether the profiler worked, or gave a reason that holds in every environment."""
    return _is_refused(done) or bool(read_counters(done.stdout) or _unknown(done))


def _is_refused(done: ProcessExit) -> bool:
    return _REFUSED.search(f"{done.stdout}\n{done.stderr}") is not None


def _unknown(done: ProcessExit) -> set[str]:
    """Return the counters named in an error message, where there are no counters."""
    if read_counters(done.stdout):
        return set()
    errors = " ".join(match["text"] for match in _ERROR.finditer(f"{done.stdout}\n{done.stderr}"))
    return {name for name in METRICS.values() if name in errors}


def _reason(done: ProcessExit, *, timeout_s: float) -> str:
    if done.timed_out:
        return f"{PROFILER} took more than {timeout_s:g} s"
    error = _ERROR.search(f"{done.stdout}\n{done.stderr}")
    if error is not None:
        return f"{PROFILER} says: {one_line(error['text'])}"
    return f"{PROFILER} printed no counters and ended with {done.exit_code if done.signal is None else -done.signal}"


def _profile_lines(label: str, launch: ProfiledLaunch, share: str, known: Counters) -> list[str]:
    found = diagnose(known)
    lines = [
        f"profiled with hardware counters on {label}: kernel {launch.kernel}, {share}",
        f"bottleneck: {found.rule or 'none named'}: {found.evidence}",
    ]
    if found.advice:
        lines.append(f"what helps: {found.advice}")
    busy = [_share(words, known, name) for name, words in _BUSY.items()]
    waits = [_share(words, known, name) for name, words in _WAITS.items()]
    others = [text.format_map(known) for name, text in _OTHERS.items() if name in known]
    for title, parts in (("in % of the peak", busy), ("in % of a warp's time", waits), ("further", others)):
        if any(parts):
            lines.append(f"{title}: {', '.join(filter(None, parts))}")
    return lines


def _each_kernel(launches: Sequence[ProfiledLaunch]) -> list[str]:
    """Return a line on the time of each of several kernels: it shows the gain of fusing two."""
    found: dict[str, list[ProfiledLaunch]] = {}
    for launch in launches:
        found.setdefault(launch.kernel, []).append(launch)
    if len(found) == 1:
        return []
    lines = []
    for kernel, own in [*found.items()][:_KERNELS]:
        times = f"{len(own)} times, in all " if len(own) > 1 else ""
        total_us = sum(each.counters.get("time_ns", 0.0) for each in own) / 1e3
        lines.append(
            f"{kernel} {times}{total_us:.4g} us ({own[0].counters.get('registers', 0):.0f} registers a thread)"
        )
    left_out = f" and {len(found) - _KERNELS} more" if len(found) > _KERNELS else ""
    return [f"profiled one by one, from cold caches: {', '.join(lines)}{left_out}"]


def _share(words: str, known: Counters, name: str) -> str:
    return f"{words} {known[name]:.0f}" if name in known else ""


_BUSY = {
    "dram_pct": "device memory",
    "l2_pct": "second-level cache",
    "shared_pct": "shared memory",
    "tensor_pct": "tensor pipe",
    "fma_pct": "fp32 pipe",
    "alu_pct": "integer pipe",
    "special_pct": "special functions",
    "issue_pct": "instruction issue",
    "warps_pct": "warps in flight",
}
_WAITS = {"memory_wait_pct": "waiting for loads", "barrier_wait_pct": "at barriers"}
_OTHERS = {
    "sectors_a_load": "{sectors_a_load:.1f} sectors a load",
    "sectors_a_store": "{sectors_a_store:.1f} sectors a store",
    "conflict_pct": "{conflict_pct:.0f} % of shared memory's work repeated for bank conflicts",
    "spill_pct": "{spill_pct:.0f} % of sectors spilled",
    "waves": "{waves:.2f} waves",
    "registers": "{registers:.0f} registers a thread",
}
