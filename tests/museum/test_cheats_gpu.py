"""Cheats for a GPU as far as they can be judged without one: those that are due by then are stopped, no others are."""

import importlib.util
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from evokernel.evaluate.inside.untrusted import load_module
from evokernel.evaluate.inside.untrusted.stand_in_tensors import LaunchesOnly
from evokernel.evaluate.memory.device_arena import device_spacing
from evokernel.evaluate.memory.segments import Buffer, SegmentLayout
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.languages.gpu import cuda_static_check, triton_static_check
from evokernel.protocols import Language
from evokernel.records.evaluation import Mode, Stage, Status
from evokernel.task import Role
from evokernel.tasks import load_task
from tests.museum.emulated import emulated, interpreted
from tests.museum.exhibits import (
    CHEATS,
    CLASSES,
    HONEST,
    Exhibit,
    due_without_gpu,
    read_exhibits,
    refuse_incomplete,
    wrong_on_processor,
)
from tests.museum.pipeline import IMPATIENT, Passed, hidden_shapes, in_a_worker, language_for, pass_doors
from tests.support.due_outputs import finding
from tests.support.nvrtc import needs_nvrtc

CHEATING = read_exhibits(CHEATS / "triton") + read_exhibits(CHEATS / "cuda")


def as_in_an_artifact(cheat: Exhibit, mode: Mode) -> bool:
    """Tell whether a cheat is only built in this mode, as it is in artifact mode, and has the same verdict there."""
    return not due_without_gpu(cheat, mode) and cheat.verdicts(mode) == cheat.verdicts(Mode.ARTIFACT)


JUDGED = [
    (cheat, mode)
    for cheat in CHEATING
    for mode in cheat.modes
    if mode is Mode.ARTIFACT or not as_in_an_artifact(cheat, mode)
]
STATIC_CHECKS: Mapping[str, Callable[[str], str | None]] = {
    "triton": triton_static_check.static_check,
    "cuda": cuda_static_check.static_check,
}
SECRET = "nobody but the judge knows this"
ENDLESS = "triton, for what never ends"
LONGEST = 40 * 201
"""What a digest of a failure may have: 40 lines of 200 characters."""
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")


@pytest.fixture(scope="module")
def languages() -> Iterator[Mapping[str, Language]]:
    """Languages of an engine that has a secret in its environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUSEUM_KEY", SECRET)
        patient = {name: language_for(name) for name in STATIC_CHECKS}
        yield patient | {ENDLESS: language_for("triton", IMPATIENT)}


def form_for(cheat: Exhibit, mode: Mode) -> str:
    return cheat.source if mode is Mode.ARTIFACT else in_a_worker(cheat.source)


def judged(languages: Mapping[str, Language], cheat: Exhibit, mode: Mode) -> PhaseVerdict | Passed:
    task = load_task(cheat.task).on("cuda")
    endless = mode in cheat.modes and cheat.verdicts(mode) == ((Status.COMPILE_TIMEOUT, Stage.COMPILE),)
    language = languages[ENDLESS if endless else cheat.language]
    return pass_doors(language, form_for(cheat, mode), task, hidden=hidden_shapes(task))


def test_every_cheat_says_what_it_is() -> None:
    assert len(CHEATING) >= 150
    assert len({cheat.label for cheat in CHEATING}) == len(CHEATING)
    honest = {kernel.label: kernel for folder in ("triton", "cuda") for kernel in read_exhibits(HONEST / folder)}
    rooms = {(kernel.language, kernel.head["task"]) for kernel in honest.values()}
    for cheat in CHEATING:
        assert cheat.language == cheat.path.parent.name
        assert (cheat.language, cheat.head["task"]) in rooms, f"{cheat.label}: no honest kernel has its task"
        refuse_incomplete(cheat)
        assert Mode.ARTIFACT in cheat.modes, cheat.label
        if "gains" in cheat.head:
            assert honest[f"{cheat.language}/{cheat.model}"].task == cheat.task, cheat.label
    for language in STATIC_CHECKS:
        assert {cheat.head["class"] for cheat in CHEATING if cheat.language == language} == set(CLASSES)


@pytest.mark.parametrize("cheat", CHEATING, ids=lambda cheat: cheat.label)
def test_the_text_alone_is_refused_where_that_is_due_and_nowhere_else(cheat: Exhibit) -> None:
    for mode in cheat.modes:
        refused = STATIC_CHECKS[cheat.language](form_for(cheat, mode))
        assert (refused is not None) == (cheat.verdicts(mode) == ((Status.STATIC_REJECT, Stage.STATIC),)), refused


@pytest.mark.parametrize("name", ["computes_ahead", "fetches_ahead", "neighbours_output"])
def test_cheats_that_reach_for_other_copies_know_where_they_lie(name: str) -> None:
    cheat = next(each for each in CHEATING if each.label == f"cuda/{name}")
    namespace: dict[str, Any] = {}
    exec(cheat.source, namespace)
    for extents in ((1,), (37,), (1000, 3000), (4096, 1024)):
        buffer = Buffer("x", extents, "float32", Role.INPUT)
        layout = SegmentLayout.of([buffer], sets=1, spacing=device_spacing(2 << 20))
        assert 4 * namespace["stride"](buffer.size_bytes) == layout.stride


@pytest.mark.slow
@needs_nvrtc
@needs_triton
@pytest.mark.parametrize(("cheat", "mode"), JUDGED, ids=[f"{cheat.label}-{mode.value}" for cheat, mode in JUDGED])
def test_it_is_stopped_before_the_gpu_where_that_is_due(
    languages: Mapping[str, Language], cheat: Exhibit, mode: Mode
) -> None:
    found = judged(languages, cheat, mode)
    if due_without_gpu(cheat, mode):
        assert isinstance(found, PhaseVerdict), "it passed all doors"
        assert found.status is not None
        assert cheat.foresees(found.status, found.stage, mode), found.feedback
        assert len(found.feedback) <= LONGEST
        assert SECRET not in found.feedback
    else:
        assert isinstance(found, Passed), found
        assert found.recorded == (mode is Mode.ARTIFACT)


@pytest.mark.slow
@needs_nvrtc
@needs_triton
@pytest.mark.parametrize("label", ["triton/tells_hidden_shapes", "cuda/tells_shapes"])
def test_what_fails_on_hidden_shapes_does_not_tell_them(languages: Mapping[str, Language], label: str) -> None:
    cheat = next(each for each in CHEATING if each.label == label)
    found = judged(languages, cheat, Mode.ARTIFACT)
    assert isinstance(found, PhaseVerdict)
    assert found.feedback.startswith("on a hidden shape, ")
    shapes = [workload.sizes for workload in hidden_shapes(load_task(cheat.task).on("cuda"))]
    told = {extent for shape in shapes for extent in shape.values() if extent > 1 and str(extent) in found.feedback}
    assert told == set()


@pytest.mark.slow
@needs_triton
def test_wrong_answers_in_triton_are_seen_without_a_gpu() -> None:
    cheats = [cheat for cheat in CHEATING if cheat.language == "triton" and wrong_on_processor(cheat)]
    assert len(cheats) >= 8
    answers = interpreted({cheat.name: (cheat.source, load_task(cheat.task).on("cuda")) for cheat in cheats})
    unseen = []
    for cheat in cheats:
        findings = [finding(question, left) for question, left in answers[cheat.name] if not isinstance(left, str)]
        statuses = {found.status for found in findings if found is not None}
        if not statuses & {status for status, _ in cheat.verdicts(Mode.ARTIFACT)}:
            unseen.append((cheat.name, statuses, answers[cheat.name]))
    assert unseen == []


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize(
    "cheat",
    [cheat for cheat in CHEATING if cheat.language == "cuda" and wrong_on_processor(cheat)],
    ids=lambda cheat: cheat.name,
)
def test_wrong_answers_in_cuda_are_seen_without_a_gpu(
    languages: Mapping[str, Language], cheat: Exhibit, tmp_path: Path
) -> None:
    task = load_task(cheat.task).on("cuda")
    findings = [
        finding(question, left) for question, left in emulated(languages["cuda"], cheat.source, task, folder=tmp_path)
    ]
    statuses = {found.status for found in findings if found is not None}
    assert statuses & {status for status, _ in cheat.verdicts(Mode.ARTIFACT)}, findings


@pytest.mark.slow
@needs_triton
def test_programs_that_differ_in_a_docstring_may_do_different_things() -> None:
    cheat = next(each for each in CHEATING if each.name == "docstring_decides")
    honest = cheat.source.replace("Add up half.", "Add up all.")
    task = load_task(cheat.task).on("cuda")
    answers = interpreted({"honest": (honest, task), "cheat": (cheat.source, task)})
    right = {name: all(finding(*each) is None for each in found) for name, found in answers.items()}
    assert right == {"honest": True, "cheat": False}


@pytest.mark.slow
@needs_nvrtc
def test_a_source_that_takes_over_its_build_has_other_machine_code_than_it_shows(
    languages: Mapping[str, Language],
) -> None:
    """A known hole: the plans are those of an honest kernel, the text is another."""
    cheat = next(each for each in CHEATING if each.name == "other_machine_code")
    honest = next(each for each in read_exhibits(HONEST / "cuda") if each.name == cheat.model)
    task = load_task(cheat.task).on("cuda")
    shapes = len(task.workloads["cuda"].search)
    found = [judged(languages, each, Mode.ARTIFACT) for each in (cheat, honest)]
    assert all(isinstance(each, Passed) for each in found), found
    assert len({each.checked.digest(shapes) for each in found if isinstance(each, Passed)}) == 1


def called_live(name: str) -> torch.Tensor:
    """Call a cheat's `run` on real tensors under the guard that a worker has; returns its output."""
    cheat = next(each for each in CHEATING if each.label == f"triton/{name}")
    x, y = torch.ones(3, 5), torch.zeros(3)
    with LaunchesOnly():
        load_module.load(cheat.source).run(x, 3, 5, y)
    return y


@needs_triton
def test_the_guard_of_a_worker_refuses_torch_unless_it_is_switched_off() -> None:
    """A known hole of worker mode, and the cheat that it stops."""
    with pytest.raises(RuntimeError, match="run\\(\\) calls torch for 'sum'"):
        called_live("torch_when_live")
    assert called_live("guard_switched_off").tolist() == [5.0, 5.0, 5.0]
