"""Programs of equal tokens that do different things: each is judged by itself, whatever was said of the other."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from archive.store import Store
from evokernel.engine.verdicts import Verdicts
from evokernel.languages.cpp.language import CppLanguage
from evokernel.languages.cpp.tokens import tokens
from evokernel.languages.gpu.cuda import CudaLanguage
from evokernel.languages.gpu.triton import TritonLanguage
from evokernel.protocols import Language
from evokernel.records.candidate import Candidate, Proposal
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity, Status
from tests.museum.exhibits import CHEATS, Exhibit, read_exhibits
from tests.museum.on_processor import judge_sources
from tests.support.fakes import InstantEvaluator, ToyLanguage

LANGUAGES: Mapping[str, type] = {"cpp": CppLanguage, "triton": TritonLanguage, "cuda": CudaLanguage}
CHANGES = {
    "cpp/line_decides": ("#include <cstdint>\n", "#include <cstdint>\n\n"),
    "cpp/spelling_decides": ("TEXT(a + b)", "TEXT(a+b)"),
    "cpp/header_decides": ("share = 2;", "share = 1;"),
    "triton/docstring_decides": ("Add up half.", "Add up all."),
    "cuda/line_decides": ("\n\ndef run", "\n\n\ndef run"),
}
"""Of each cheat what makes its honest twin of it."""
FOUND = {each.label: each for language in LANGUAGES for each in read_exhibits(CHEATS / language)}


def twin_of(cheat: Exhibit) -> str:
    """Return the honest twin of a cheat."""
    old, new = CHANGES[cheat.label]
    assert cheat.source.count(old) == 1
    return cheat.source.replace(old, new)


@pytest.mark.parametrize("hashed_by", ["its language", "a language of a user's own"])
@pytest.mark.parametrize("label", CHANGES)
def test_the_verdict_on_one_is_not_that_on_the_other(label: str, hashed_by: str, tmp_path: Path) -> None:
    cheat, evaluator = FOUND[label], InstantEvaluator(holds=lambda source: source == Candidate(honest, "").source)
    honest = twin_of(cheat)
    made = {name: Candidate(text, cheat.language) for name, text in (("honest", honest), ("cheat", cheat.source))}
    if hashed_by == "its language":
        language: Language = object.__new__(LANGUAGES[cheat.language])  # its hash needs no tool
        programs = {name: language.program_hash(each.source) for name, each in made.items()}
        assert len(set(programs.values())) == 2
    else:
        programs = dict.fromkeys(made, ToyLanguage().program_hash(""))
    with Store.open(tmp_path / "twins.db", write=True) as store:
        verdicts = Verdicts(store, evaluator, evaluator.identity)
        found = {}
        for step, (name, each) in enumerate(made.items(), start=1):
            store.propose(Proposal(each, step, "*", "seed", 0), program_hash=programs[name], skeleton="s")
            request = EvaluationRequest(each, programs[name], Fidelity.FINAL)
            found[name], reused_from = asyncio.run(verdicts.verdict(request))
            assert reused_from is None
            verdicts.keep(found[name])
    assert {name: each.status for name, each in found.items()} == {
        "honest": Status.OK,
        "cheat": Status.HOLDOUT_FAILED,
    }
    assert {each.candidate_id for each in found.values()} == {each.id for each in made.values()}


@pytest.mark.parametrize("label", ["cpp/line_decides", "cpp/spelling_decides"])
def test_tokens_cannot_tell_them_apart(label: str) -> None:
    assert tokens(FOUND[label].source) == tokens(twin_of(FOUND[label]))


IN_CPP = [label for label in CHANGES if label.startswith("cpp/")]
MENDED = twin_of(FOUND["cpp/line_decides"])
BROKEN = MENDED.replace("double sum", "double\u00a0sum")


@pytest.fixture(scope="module")
def judged() -> Mapping[str, Evaluation]:
    """Verdicts of one judge by source."""
    (task,) = {FOUND[label].task for label in IN_CPP}
    sources = [BROKEN, *(text for label in IN_CPP for text in (twin_of(FOUND[label]), FOUND[label].source))]
    return dict(zip(sources, judge_sources(task, sources), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("label", IN_CPP)
def test_the_judge_tells_them_apart(judged: Mapping[str, Evaluation], label: str) -> None:
    cheat = FOUND[label]
    honest, other = judged[twin_of(cheat)], judged[cheat.source]
    assert honest.status is Status.OK, honest.feedback
    assert cheat.foresees(other.status, other.stage), other.feedback


@pytest.mark.slow
def test_a_broken_text_says_nothing_of_its_mended_one(judged: Mapping[str, Evaluation]) -> None:
    """A no-break space looks like a blank, and is none to a compiler."""
    first, second = judged[BROKEN], judged[MENDED]
    assert (first.status, second.status) == (Status.COMPILE_ERROR, Status.OK), (first.feedback, second.feedback)
    assert first.key.program_hash != second.key.program_hash
