"""Portraits of kernels in a prompt: name, speed, compiler facts, and the source in a fence."""

import math
from collections.abc import Sequence
from difflib import unified_diff
from itertools import islice

from evokernel.languages import syntax_of
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation
from evokernel.records.fitness import Elite
from evokernel.records.prompt_settings import FeedbackLevel
from evokernel.records.step import ErrorFix, Failure, Sibling
from evokernel.records.timing import Limit, Timing, combined_speedup, floor_share
from evokernel.source.tunables import read_tunables
from operators.llm.compiler_text import compiled
from operators.quoting import fence, middle_cut, one_line, time_us

FEEDBACK_CHARACTERS = 4000
FIX_CHARACTERS, FIX_LINES = 3000, 2000


def portrait(
    title: str,
    elite: Elite,
    evaluation: Evaluation | None,
    *,
    note: str = "",
    feedback: FeedbackLevel = FeedbackLevel.PROFILE,
) -> str:
    """Return a correct kernel with its verdict, as far as `feedback` goes, and its source.

    `note` is a line below the numbers, on times.
    """
    head = f"### {title} (`{elite.candidate.id}`)"
    if not feedback.holds(FeedbackLevel.TIMES):
        right = ": right" if feedback.holds(FeedbackLevel.CORRECTNESS) else ""
        return f"{head}{right}\n\n{quoted(elite.candidate)}"
    parts = [f"{head}: {speed_of(elite, evaluation)}"]
    if evaluation is not None and evaluation.ok:
        parts.append("\n".join(map(_timing, evaluation.timings)))
    if evaluation is not None and evaluation.ok and feedback.holds(FeedbackLevel.PROFILE):
        parts.append(compiled(evaluation.metrics, evaluation.descriptor))
        if evaluation.remarks:
            remarks = middle_cut(evaluation.remarks, FEEDBACK_CHARACTERS)
            parts.append("The evaluator remarks:\n\n" + fence(remarks))
    parts += [note, quoted(elite.candidate)]
    return "\n\n".join(part for part in parts if part)


def speed_of(elite: Elite, evaluation: Evaluation | None) -> str:
    """Return the speed-up of a kernel over its baselines, and its share of the device's limit where it is known."""
    if evaluation is None or not evaluation.ok:
        return f"{math.exp(elite.fitness.log_speedup):.3f}x over the baseline"
    names = sorted({timing.baseline for timing in evaluation.timings})
    speedup = combined_speedup(evaluation.timings)
    text = f"{speedup.value:.3f}x over {', '.join(names)} (95 %: {speedup.low:.3f} to {speedup.high:.3f})"
    share = floor_share(evaluation.timings)
    return text + (f", {share:.0%} of the device's limit" if share else "")


def broken_portrait(
    failure: Failure, evaluation: Evaluation, *, feedback: FeedbackLevel = FeedbackLevel.PROFILE
) -> str:
    """Return a failed kernel: its rationale, the stage it reached, the feedback, its source."""
    parts = [
        f"### The broken kernel (`{failure.candidate.id}`), made by {failure.operator}",
        "What its author meant:\n\n" + fence(one_line(failure.rationale)),
    ]
    if feedback.holds(FeedbackLevel.CORRECTNESS):
        parts += [
            f"Verdict: **{evaluation.status}**, at the stage {evaluation.stage!s}. The evaluator says:",
            fence(middle_cut(evaluation.feedback.strip() or "(nothing more)", FEEDBACK_CHARACTERS)),
        ]
    return "\n\n".join([*parts, quoted(failure.candidate)])


def fix_portrait(fix: ErrorFix) -> str:
    """Return a fix: the error, and the difference that mended it."""
    before, after = (text.splitlines()[:FIX_LINES] for text in (fix.broken, fix.mended))
    difference = unified_diff(before, after, n=2, lineterm="")
    text = "\n".join(islice(difference, 2, None))
    return f"{fence(one_line(fix.feedback))}\n\nwas mended by\n\n{fence(middle_cut(text, FIX_CHARACTERS), 'diff')}"


def foreign_portrait(candidate: Candidate, words: str = "") -> str:
    """Return a kernel in another language, with words on it where it was handed in."""
    said = f"Handed in to this run, which cannot judge it:\n\n{fence(one_line(words))}\n\n" if words else ""
    return f"### In {candidate.language} (`{candidate.id}`)\n\n{said}{quoted(candidate)}"


def quoted(candidate: Candidate) -> str:
    """Return the source in a fence that it cannot close."""
    return fence(candidate.source, syntax_of(candidate.language))


def tuned(elite: Elite, siblings: Sequence[Sibling]) -> str:
    """Return the findings of the search over a kernel's tunables, or nothing."""
    measured = [sibling for sibling in siblings if sibling.fitness is not None]
    if len(siblings) < 2 or not measured:
        return ""
    best = max(measured, key=lambda sibling: (sibling.fitness or 0.0, sorted(sibling.values.items())))
    said = f"Tunables: {len(siblings)} settings of this structure were tried, {len(siblings) - len(measured)} failed; "
    if dict(best.values) == read_tunables(elite.candidate.source).values:
        return said + "none measured faster than the one shown."
    values = ", ".join(f"{name} = {value}" for name, value in sorted(best.values.items()))
    return f"{said}the fastest reached {math.exp(best.fitness or 0.0):.3f}x: {values}."


def _timing(timing: Timing) -> str:
    floor = f"; {timing.limit.bound}" if timing.limit else ""
    if timing.floor_us and timing.floor_share:
        less = ", less than a launch costs" if timing.limit is Limit.LAUNCH else ""
        floor += f"; the device's limit is {time_us(timing.floor_us)}{less}: {timing.floor_share:.0%} of it"
    return (
        f"- {timing.workload}: {time_us(timing.candidate_us)}, {timing.baseline} {time_us(timing.baseline_us)}: "
        f"{timing.speedup.value:.3f}x, {timing.verdict}{floor}"
    )
