"""Sections of prompts: a context in words, cut into the parts that templates place."""

import math
from collections.abc import Iterator, Mapping, Sequence

from evokernel.records.evaluation import Evaluation
from evokernel.records.fitness import Elite
from evokernel.records.llm import InsightKind, KnownInsight
from evokernel.records.prompt_settings import FeedbackLevel, HistoryKind
from evokernel.records.step import Attempt, Context, ContextNeed, Failure
from evokernel.records.timing import combined_speedup
from evokernel.source.protected import END, START, protected_text
from evokernel.task import Task, Tensor, Workload
from operators.llm.check_text import check_choices
from operators.llm.kernel_text import broken_portrait, fix_portrait, foreign_portrait, portrait, speed_of, tuned
from operators.llm.prompt import PromptSection, SectionGroup
from operators.llm.reference_text import reference_source
from operators.quoting import fence, middle_cut, one_line, quantities

GROUPS: Mapping[str, SectionGroup] = {
    "task": SectionGroup("", "part"),
    "device": SectionGroup("## The device, as measured", "detail"),
    "guide": SectionGroup("", "part"),
    "constraints": SectionGroup("## Every kernel must keep to", "rule"),
    "parents": SectionGroup("## Kernels to work on", "kernel"),
    "broken": SectionGroup("## What is to be mended", "kernel"),
    "fixes": SectionGroup("## How errors of this kind were mended in this run", "mended error"),
    "foreign": SectionGroup("## Kernels for this task in other languages", "kernel"),
    "tried": SectionGroup("## Already tried, so do something else", "other change", listed=True),
    "checks": SectionGroup("## What a check may be", "part"),
    "strategies": SectionGroup("## Strategies", "strategy"),
    "hypotheses": SectionGroup("## Bottlenecks named so far, and what was tried on each", "bottleneck", listed=True),
    "insights": SectionGroup("## What earlier analysis says", "note"),
    "inspirations": SectionGroup("## Other good kernels, for ideas to borrow", "kernel"),
    "failures": SectionGroup("## What has failed of late, so avoid it", "older failure", listed=True),
    "best": SectionGroup("", "line"),
    "hints": SectionGroup("## What the people who run this search say", "hint"),
    "agent_hints": SectionGroup("## What agents noted at earlier steps, which nobody has checked", "note", listed=True),
}
SHORT: Mapping[str, str] = {"float32": "fp32", "float64": "fp64", "float16": "fp16", "bfloat16": "bf16"}

# Worth of sections: a cap drops the lowest number first.
INSPIRATION, FOREIGN, AGENT_HINT, FAILURE, TRIED, FIX, LESSON, DETAIL = 0, 50, 75, 100, 200, 250, 300, 400
PROTECTED = (
    f"Only lines between {START} and {END} of the kernel to change may differ; keep all other lines as they are, the "
    "marks among them."
)
TRIED_LINES = 24
HYPOTHESES, CHANGES, TITLE = 8, 4, 120
"""Bottlenecks that a prompt tells, changes of each, and characters of a title."""
NOTE_CHARACTERS = 12000
_VALUES: Mapping[str, str] = {
    "normal": "normally distributed",
    "offset": "far from 0",
    "wide": "spread over many orders of magnitude",
    "integers01": "0 or 1",
    "needles": "0 but for a few large ones",
}
_CHEAP = ("tune:", "blend:")
_HEADLINES = ("dram_read_gb_s", "dram_copy_gb_s", "multiprocessors", "shared_bytes", "capability", "l2_bytes")


def in_order(context: Context, needs: frozenset[ContextNeed]) -> tuple[Elite, ...]:
    """Return the parents with the one to change first: of a ladder that is the last, the fastest."""
    return context.parents[::-1] if ContextNeed.LADDER in needs else context.parents


def sections_of(
    context: Context,
    needs: frozenset[ContextNeed],
    *,
    feedback: FeedbackLevel = FeedbackLevel.PROFILE,
    history: HistoryKind = HistoryKind.ALL,
) -> list[PromptSection]:
    """Return every section with content."""
    told, timed = feedback.holds(FeedbackLevel.CORRECTNESS), feedback.holds(FeedbackLevel.TIMES)
    made = [
        PromptSection("task", task_section(context.task)),
        *_device(context),
        PromptSection("guide", guide_section(context.language, context.guide)) if context.guide.strip() else None,
        *_rules(context, needs),
        *_parents(context, feedback, ladder=ContextNeed.LADDER in needs),
        *_broken(context, feedback),
        *(PromptSection("fixes", fix_portrait(fix), worth=FIX) for fix in context.fixes if told),
        *_foreign(context),
        *_tried(context, history, feedback),
        *(PromptSection("checks", check_choices(context)) for _ in needs & {ContextNeed.CHECKS}),
        *_hypotheses(context, timed=timed),
        *_insights(context, timed=timed),
        *_inspirations(context, feedback),
        *(_failures(context) if told else ()),
        *(_best(context) if timed else ()),
        *(PromptSection("hints", _bullets(context.hints)) for _ in context.hints[:1]),
        # the newest first: a cap drops the oldest first
        *(PromptSection("agent_hints", f"- {one_line(t)}", worth=AGENT_HINT) for t in reversed(context.agent_hints)),
    ]
    return [section for section in made if section is not None]


def task_section(task: Task) -> str:
    """Return what a prompt says of a task: its reference, the sizes that are timed, and what is right."""
    parts = [
        f"## The task: {task.name}",
        task.description,
        "`run` must compute what this PyTorch function computes:",
        fence(reference_source(task), "python"),
        "Speed is measured on these inputs; what counts is the weighted geometric mean of the speed-ups:",
        "\n".join(_workload(task, workload) for each in task.workloads.values() for workload in each.search),
        "Winners are measured again on sizes that are not shown here, so do not write code for these sizes alone.",
        _precision(task),
    ]
    return "\n\n".join(part for part in parts if part)


def guide_section(language: str, guide: str) -> str:
    """Return what a prompt says of how a kernel is written."""
    return f"## How a kernel is written in {language}\n\n{guide.strip()}"


def _workload(task: Task, workload: Workload) -> str:
    dims = " ".join(f"{name}={value}" for name, value in workload.dims.items())
    flops, moved = task.flops_at(workload), task.bytes_at(workload)
    intensity = f", {flops / moved:.4g} FLOP per byte" if moved else ""
    return (
        f"- {workload.name} (weight {workload.weight:g}): {dims}; {workload.distribution} values; "
        f"{flops / 1e9:.4g} GFLOP, at least {moved / 1e6:.4g} MB moved{intensity}"
    )


def _precision(task: Task) -> str:
    policy = task.precision
    lines = [
        f"Right means: the error against fp64 stays within about {policy.slack:g} times that of PyTorch's own kernel, "
        f"on values that are {'; '.join(_VALUES[name] for name in task.distributions)}; and on odd and tiny sizes."
    ]
    if policy.exact_on_integers:
        lines.append("On inputs of 0 and 1 the results must be exactly equal.")
    if any(tensor.dtype == "float32" for tensor in task.signature.tensors):
        lines.append(f"TF32 is {'allowed' if policy.allow_tf32 else 'not allowed'}.")
    return " ".join(lines)


def _device(context: Context) -> Iterator[PromptSection]:
    sheet, kinds = context.device_sheet, _kinds(context.task)
    peaks = [f"peak_{kind}_gflop_s" for kind in kinds if f"peak_{kind}_gflop_s" in sheet]
    first = {name: sheet[name] for name in (*peaks, *_HEADLINES) if name in sheet}
    lines = [f"{one_line(context.device) or 'The device'}: {quantities(first)}." if first else one_line(context.device)]
    bandwidth = max(sheet.get("dram_read_gb_s", 0.0), sheet.get("dram_copy_gb_s", 0.0))
    if peaks and bandwidth:
        ridge = sheet[peaks[0]] / bandwidth
        lines.append(
            f"Below {ridge:.0f} FLOP per byte the main memory is the limit, above it the arithmetic ({kinds[0]})."
        )
    if first:
        lines.append(
            "A kernel's limit, below, is a bound with a margin: the fastest arithmetic, or the data once through the "
            "fastest memory they fit in."
        )
    if context.environment:
        lines.append(f"Compiled with {one_line(context.environment)}.")
    if lines[0]:
        yield PromptSection("device", " ".join(lines))
    rest = {name: value for name, value in sheet.items() if name not in first and value}
    if rest:
        yield PromptSection("device", f"Also: {quantities(rest)}.", worth=DETAIL)


def _rules(context: Context, needs: frozenset[ContextNeed]) -> Iterator[PromptSection]:
    """Yield the limits that every kernel must keep, protected text of the kernel to change among them."""
    broken = context.broken if needs & {ContextNeed.BROKEN, ContextNeed.STATE} else None
    bases = [broken.candidate] if broken else [elite.candidate for elite in in_order(context, needs)]
    protected = [PROTECTED] if bases and protected_text(bases[0].source) else []
    if rules := [*context.constraints, *protected]:
        yield PromptSection("constraints", _bullets(rules))


def _kinds(task: Task) -> tuple[str, ...]:
    tensors: Sequence[Tensor] = task.signature.tensors
    found = dict.fromkeys(SHORT[tensor.dtype] for tensor in tensors if tensor.dtype in SHORT)
    return (*found, "tf32") if task.precision.allow_tf32 else tuple(found)


def _parents(context: Context, feedback: FeedbackLevel, *, ladder: bool) -> Iterator[PromptSection]:
    """Number the parents as given; of a ladder the last one is to change, else the first."""
    last = len(context.parents) - 1
    for index, elite in enumerate(context.parents):
        to_change = index == (last if ladder else 0)
        title = f"Kernel {index + 1}" + (", the one to change" if to_change and last else "")
        note = tuned(elite, context.siblings) if index == 0 else ""
        text = portrait(title, elite, _verdict(context, elite), note=note, feedback=feedback)
        yield PromptSection("parents", text)


def _verdict(context: Context, elite: Elite) -> Evaluation | None:
    return context.verdicts.get(elite.candidate.id)


def _broken(context: Context, feedback: FeedbackLevel) -> Iterator[PromptSection]:
    broken = context.broken
    if broken is not None:
        verdict = context.verdicts.get(broken.candidate.id, broken.evaluation)
        yield PromptSection("broken", broken_portrait(broken, verdict, feedback=feedback))


def _foreign(context: Context) -> Iterator[PromptSection]:
    for index, candidate in enumerate(context.foreign):
        words = context.foreign_words.get(candidate.id)
        text = foreign_portrait(candidate, words or "")
        yield PromptSection("foreign", text, worth=FOREIGN if index else None)
        if words is not None:  # handed in as an idea for all
            yield PromptSection("inspirations", text, worth=FOREIGN)


def _tried(context: Context, history: HistoryKind, feedback: FeedbackLevel) -> Iterator[PromptSection]:
    """Yield changes that were tried and their outcomes: all those on the first parent, newest first, then others."""
    first = context.parents[0].candidate.id if context.parents else ""
    failed = {failure.rationale for failure in context.failures}  # a later section has these with their feedback
    newest = [
        attempt
        for attempt in reversed(context.attempts)
        if not attempt.rationale.startswith(_CHEAP) and not (attempt.gain is None and attempt.rationale in failed)
    ]
    own, others = ([a for a in newest if (a.parent == first) is here] for here in (True, False))
    if history is not HistoryKind.ALL:
        for index, attempt in enumerate(_chosen([*own, *others], history)):
            where = "on kernel 1" if attempt.parent == first else "elsewhere"
            text = f"- {where}: {one_line(attempt.rationale)}{_outcome(attempt, feedback)}"
            yield PromptSection("tried", text, worth=TRIED + index)
        return
    measured = {attempt.rationale for attempt in own}
    waiting = sorted(text for text in context.tried - measured if not text.startswith(_CHEAP))
    lines = [f"on kernel 1: {one_line(a.rationale)}{_outcome(a, feedback)}" for a in own]
    lines += [f"on kernel 1: {one_line(text)} -> not known yet" for text in waiting]
    lines += [f"elsewhere: {one_line(a.rationale)}{_outcome(a, feedback)}" for a in others]
    for text in lines[:TRIED_LINES]:
        yield PromptSection("tried", f"- {text}", worth=TRIED)


def _chosen(attempts: Sequence[Attempt], history: HistoryKind) -> Sequence[Attempt]:
    """Return the attempts that a prompt tells; `attempts` has the newest first, those on the first parent before."""
    if history is HistoryKind.LAST:
        return attempts[:1]
    right = sorted((a for a in attempts if a.log_speedup is not None), key=lambda a: a.log_speedup or 0.0)
    return right[-1:] if history is HistoryKind.BEST else right[-TRIED_LINES:]


def _outcome(attempt: Attempt, feedback: FeedbackLevel) -> str:
    if not feedback.holds(FeedbackLevel.CORRECTNESS):
        return ""
    if not feedback.holds(FeedbackLevel.TIMES):
        return f" -> wrong ({attempt.status})" if attempt.gain is None else " -> right"
    return f" -> {_measured(attempt)}"


def _measured(attempt: Attempt) -> str:
    if attempt.gain is None:
        return f"wrong ({attempt.status})"
    over_all = "" if attempt.log_speedup is None else f", {math.exp(attempt.log_speedup):.3f}x over the baseline"
    return f"{math.exp(attempt.gain):.2f}x of its parent{over_all}"


def _insights(context: Context, *, timed: bool) -> Iterator[PromptSection]:
    for known in context.insights:
        strategy = known.insight.kind is InsightKind.STRATEGY
        worth = LESSON if known.insight.kind is InsightKind.LESSON else None
        name = "strategies" if strategy else "insights"
        yield PromptSection(name, _insight(known, context, timed=timed), worth=worth, reference=known.seq)


def _hypotheses(context: Context, *, timed: bool) -> Iterator[PromptSection]:
    """Yield the newest bottlenecks, each with its newest changes."""
    for hypothesis in reversed((context.hypotheses or ())[-HYPOTHESES:] if timed else ()):
        lines = [f"{one_line(hypothesis.bottleneck, TITLE)}: {hypothesis.outcome}"]
        for known in hypothesis.changes[-CHANGES:]:
            expected = known.insight.predicted_speedup
            said = f" (expected {expected:.2f}x)" if expected else ""
            gains = f": {_gains(known)}" if known.gains else ""
            lines.append(f"- {one_line(known.insight.title, TITLE)}{said} -> {known.outcome}{gains}")
        yield PromptSection("hypotheses", "\n".join(lines), worth=LESSON)


def _gains(known: KnownInsight) -> str:
    return ", ".join("failed" if gain is None else f"{math.exp(gain):.2f}x" for gain in known.gains[-6:])


def _insight(known: KnownInsight, context: Context, *, timed: bool) -> str:
    insight = known.insight
    about = f" of `{insight.candidate}`{_where(insight.candidate, context, timed=timed)}" if insight.candidate else ""
    facts = [f"expected {insight.predicted_speedup:.2f}x"] if insight.predicted_speedup else []
    if known.gains and timed:
        facts.append(f"kernels made with it came to {_gains(known)} of their parents")
    elif not known.gains:
        facts.append("not used yet")
    head = f"### {insight.kind.value.capitalize()}{about}" + (f" ({'; '.join(facts)})" if facts else "")
    return f"{head}\n\n" + fence(f"{one_line(insight.title)}\n\n{middle_cut(insight.text.strip(), NOTE_CHARACTERS)}")


def _where(name: str, context: Context, *, timed: bool) -> str:
    """Say which of the shown kernels a note is about, or how fast its kernel was: its author calls that kernel 1."""
    for index, elite in enumerate(context.parents):
        if elite.candidate.id == name:
            return f", kernel {index + 1} here"
    verdict = context.verdicts.get(name)
    if verdict is None or not verdict.ok or not timed:
        return ", not shown here"
    return f", its kernel 1, not shown here, {combined_speedup(verdict.timings).value:.3f}x over the baseline"


def _inspirations(context: Context, feedback: FeedbackLevel) -> Iterator[PromptSection]:
    shown = {elite.candidate.id for elite in context.parents}
    others = [elite for elite in context.inspirations if elite.candidate.id not in shown]
    for index, elite in enumerate(others):
        text = portrait(f"Inspiration {index + 1}", elite, _verdict(context, elite), feedback=feedback)
        yield PromptSection("inspirations", text, worth=INSPIRATION, reference=elite.candidate.id)


def _failures(context: Context) -> Iterator[PromptSection]:
    """Yield the failures, those of these parents last: there a model heeds them most, and a cap drops them last."""
    parents = {elite.candidate.id for elite in context.parents}
    others = [f for f in context.failures if context.broken is None or f.candidate.id != context.broken.candidate.id]
    ranked = sorted(others, key=lambda failure: bool(parents & set(failure.parents)))
    for index, failure in enumerate(ranked):
        yield PromptSection("failures", f"- {_failure(failure)}", worth=FAILURE + min(index, TRIED - FAILURE - 1))


def _failure(failure: Failure) -> str:
    rationale = failure.rationale
    operator = "" if rationale.startswith(f"{failure.operator}:") else f"{failure.operator}: "
    return f"{operator}{one_line(rationale)} -> {failure.evaluation.status}: {one_line(failure.evaluation.feedback)}"


def _best(context: Context) -> Iterator[PromptSection]:
    best = context.best
    if best is not None and best.candidate.id not in {elite.candidate.id for elite in context.parents}:
        yield PromptSection("best", f"The fastest kernel of the run so far: {speed_of(best, _verdict(context, best))}.")


def _bullets(texts: Sequence[str]) -> str:
    indented = (text.strip().replace("\n", "\n  ") for text in texts)  # a hint may hold a snippet
    return "\n".join(f"- {text}" for text in indented)
