"""Counts the exhibits: what docs/museum.md says below its mark, made from their heads by docs/generate.py."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from evokernel.records.evaluation import Mode, Stage, Status
from tests.museum.exhibits import CHEATS, CLASSES, HONEST, Exhibit, due_without_gpu, read_exhibits

LANGUAGES = {"cpp": "C++", "triton": "Triton", "cuda": "CUDA C++"}
WINGS = (
    ("cpp", Mode.WORKER),
    ("triton", Mode.ARTIFACT),
    ("cuda", Mode.ARTIFACT),
    ("triton", Mode.WORKER),
    ("cuda", Mode.WORKER),
)
PLANS, NOTHING, HOLE = "plans", "gains nothing", "known hole"
ENDS = (
    *(Stage.STATIC.value, Stage.COMPILE.value, PLANS, Stage.SMOKE.value, Stage.CORRECTNESS.value),
    *(Stage.SANITIZER.value, "timing", NOTHING, HOLE),
)
"""Where a cheat may end, in the order of the cascade, and the two ways in which one may be accepted."""

Table = Callable[[Iterable[str], Iterable[Iterable[str]]], str]
"""Returns a Markdown table of heads and rows."""


def pieces(table: Table) -> Iterator[str]:
    """Yield the page's sections."""
    cheats = {language: read_exhibits(CHEATS / language) for language in LANGUAGES}
    honest = {language: read_exhibits(HONEST / language) for language in LANGUAGES}
    yield _overview(cheats, honest, table)
    for language, mode in WINGS:
        yield _ends(cheats[language], mode, f"{LANGUAGES[language]}, {mode.value} mode", table)
    everything = [cheat for wing in cheats.values() for cheat in wing]
    yield _holes(everything, table)
    yield _honest(honest, table)
    for name, meaning in CLASSES.items():
        yield _catalogue([cheat for cheat in everything if cheat.head["class"] == name], name, meaning, table)


def end_of(cheat: Exhibit, mode: Mode) -> str:
    """Return where a cheat ends in a mode, one of `ENDS`; of several verdicts the one that comes last."""
    accepted = HOLE if cheat.hole_in(mode) else NOTHING
    ends = [accepted if status is Status.OK else _end(status, stage) for status, stage in cheat.verdicts(mode)]
    return max(ends, key=ENDS.index)


def _end(status: Status, stage: Stage) -> str:
    if status is Status.LOAD_ERROR:
        return PLANS
    return "timing" if stage in (Stage.QUICK, Stage.PRECISE, Stage.FINAL) else stage.value


def _overview(cheats: dict[str, list[Exhibit]], honest: dict[str, list[Exhibit]], table: Table) -> str:
    rows = []
    for language, mode in WINGS:
        judged = [cheat for cheat in cheats[language] if mode in cheat.modes]
        early = len(judged) if language == "cpp" else sum(due_without_gpu(cheat, mode) for cheat in judged)
        rows.append((f"cheats in {LANGUAGES[language]}", mode.value, len(judged), early, len(judged) - early))
    for language, kernels in honest.items():
        on_gpu = 0 if language == "cpp" else len(kernels)
        mode = Mode.ARTIFACT if on_gpu else Mode.WORKER
        rows.append(
            (f"honest kernels in {LANGUAGES[language]}", mode.value, len(kernels), len(kernels) - on_gpu, on_gpu)
        )
    heads = ("wing", "mode", "exhibits", "verdict due without a GPU", "verdict due on a GPU")
    counted = table(heads, [tuple(map(str, row)) for row in rows])
    total = [sum(len(kernels) for kernels in wing.values()) for wing in (cheats, honest)]
    return f"## What there is\n\n{total[0]} cheats and {total[1]} honest kernels.\n\n{counted}"


def _ends(cheats: list[Exhibit], mode: Mode, title: str, table: Table) -> str:
    found = Counter((cheat.head["class"], end_of(cheat, mode)) for cheat in cheats if mode in cheat.modes)
    ends = [end for end in ENDS if any(found[name, end] for name in CLASSES)]
    rows = [
        (name, *(str(found[name, end] or "") for end in ends), str(sum(found[name, end] for end in ends)))
        for name in CLASSES
        if any(found[name, end] for end in ends)
    ]
    sums = [str(sum(found[name, end] for name in CLASSES)) for end in ends]
    rows.append(("all", *sums, str(sum(found.values()))))
    return f"## {title}\n\n{table(('class', *ends, 'all'), rows)}"


def _holes(cheats: list[Exhibit], table: Table) -> str:
    rows = [
        (f"`{cheat.name}`", LANGUAGES[cheat.language], mode.value, cheat.hole_in(mode))
        for cheat in cheats
        for mode in cheat.modes
        if cheat.hole_in(mode)
    ]
    return f"## Known holes among the exhibits\n\n{table(('cheat', 'language', 'mode', 'why it is accepted'), rows)}"


def _honest(honest: dict[str, list[Exhibit]], table: Table) -> str:
    found = Counter((kernel.head["task"], kernel.language) for wing in honest.values() for kernel in wing)
    tasks = sorted({task for task, _ in found})
    rows = [(f"`{task}`", *(str(found[task, language] or "") for language in LANGUAGES)) for task in tasks]
    sums = tuple(str(len(honest[language])) for language in LANGUAGES)
    return f"## Honest kernels\n\n{table(('task', *LANGUAGES.values()), [*rows, ('all', *sums)])}"


def _catalogue(cheats: list[Exhibit], name: str, meaning: str, table: Table) -> str:
    rows = [
        (
            *(f"`{cheat.name}`", LANGUAGES[cheat.language], cheat.head["title"], cheat.head["seen"]),
            *(_verdict(cheat, mode) for mode in (Mode.ARTIFACT, Mode.WORKER)),
        )
        for cheat in sorted(cheats, key=lambda cheat: cheat.name)
    ]
    heads = ("cheat", "language", "what it does", "seen by", "artifact mode", "worker mode")
    return f"## Every cheat: {name}\n\n{meaning[0].upper()}{meaning[1:]}.\n\n{table(heads, rows)}"


def _verdict(cheat: Exhibit, mode: Mode) -> str:
    if mode not in cheat.modes:
        return ""
    accepted = f" ({end_of(cheat, mode)})" if cheat.accepted_in(mode) else ""
    return " or ".join(f"`{status.value}` at {stage.value}" for status, stage in cheat.verdicts(mode)) + accepted
