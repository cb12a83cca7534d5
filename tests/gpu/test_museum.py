"""The museum on a GPU: every exhibit in Triton and CUDA C++ judged by the real evaluator, cheats in both modes.

`pytest -m gpu tests/gpu/test_museum.py`. What is due of a cheat stands in its head; a known hole must be there.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack

import pytest

from evokernel.config.run import EvaluationConfig
from evokernel.errors import HarnessError, TaskError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.instruments.tools import SANITIZER, find_tool
from evokernel.protocols import Evaluator
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity, Mode, Stage, Status
from evokernel.records.timing import combined_speedup
from tests.museum.exhibits import CHEATS, GAIN, HONEST, Exhibit, due_without_gpu, read_exhibits
from tests.museum.pipeline import in_a_worker

SETTINGS = EvaluationConfig(quick_ms=20, precise_ms=60, timeout_s=5, compile_timeout_s=20, gpus=1).on("cuda")
CHEATING = read_exhibits(CHEATS / "triton") + read_exhibits(CHEATS / "cuda")
HONEST_ONES = read_exhibits(HONEST / "triton") + read_exhibits(HONEST / "cuda")
JUDGED = [(cheat, mode) for cheat in CHEATING for mode in cheat.modes]

Key = tuple[str, Mode]
"""A label and a mode."""
Sources = Mapping[Key, str]
Found = dict[Key, Evaluation | BaseException]
"""Verdicts, and what was raised in their place: a fault of ours over one exhibit is told of that one."""


def room_of(exhibit: Exhibit) -> tuple[str, str]:
    """What one evaluator judges: a language and a task."""
    return exhibit.language, exhibit.head["task"]


VISITED = [kernel for kernel in HONEST_ONES if room_of(kernel) in set(map(room_of, CHEATING))]
"""Honest kernels that are judged once more when cheats have been where they are judged."""


def model_of(cheat: Exhibit) -> Exhibit:
    """The honest kernel of the same loops."""
    return next(each for each in HONEST_ONES if each.language == cheat.language and each.name == cheat.model)


def sources_of(honest: Iterable[Exhibit], cheats: Iterable[Exhibit]) -> Sources:
    """What is judged; of a cheat that must gain nothing in a worker its model is run in one, too."""
    found = {(kernel.label, Mode.ARTIFACT): kernel.source for kernel in honest}
    for cheat in cheats:
        found |= {(cheat.label, mode): cheat.source for mode in cheat.modes}
        if "gains" in cheat.head and Mode.WORKER in cheat.modes:
            found[model_of(cheat).label, Mode.WORKER] = model_of(cheat).source
    return {
        (label, mode): text if mode is Mode.ARTIFACT else in_a_worker(text) for (label, mode), text in found.items()
    }


class Gallery:
    """Judges all exhibits of a task in one language at the first question about one of them.

    A room is its honest kernels, the cheats, and once more the honest kernels, as programs of their own: what the
    cheats may have left behind must not harm them.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Found] = {}
        self._again: dict[tuple[str, str], Found] = {}

    def judged(self, exhibit: Exhibit, mode: Mode) -> Evaluation:
        self._open(exhibit)
        return verdict(self._found[room_of(exhibit)][exhibit.label, mode])

    def judged_again(self, kernel: Exhibit) -> Evaluation:
        self._open(kernel)
        return verdict(self._again[room_of(kernel)][kernel.label, Mode.ARTIFACT])

    def _open(self, exhibit: Exhibit) -> None:
        room = room_of(exhibit)
        if room in self._found:
            return
        honest, cheats = ([each for each in wing if room_of(each) == room] for wing in (HONEST_ONES, CHEATING))
        kernels = sources_of(honest, ())
        again = {key: f"{text}\n\nAGAIN = 1\n" for key, text in kernels.items()} if cheats else {}
        rounds = [kernels, sources_of((), cheats), again]
        first, second, self._again[room] = asyncio.run(_judge(exhibit.task, exhibit.language, rounds))
        self._found[room] = first | second


def verdict(found: Evaluation | BaseException) -> Evaluation:
    """Return a verdict, or raise what came in its place."""
    if isinstance(found, BaseException):
        raise found
    return found


@pytest.fixture(scope="module")
def gallery() -> Gallery:
    return Gallery()


async def _judge(task: str, name: str, rounds: Sequence[Sources]) -> list[Found]:
    """Judge one round after the other; within one, sources are built while others are judged."""
    language = local_language(name, SETTINGS)

    async def judge(evaluator: Evaluator, source: str) -> Evaluation:
        request = EvaluationRequest(Candidate(source, name), language.program_hash(source), Fidelity.PRECISE)
        return await evaluator.evaluate(request)

    async with AsyncExitStack() as stack:
        try:
            evaluator = await stack.enter_async_context(open_evaluator(task, language, settings=SETTINGS))
        except (HarnessError, TaskError) as error:  # told of each exhibit, instead of tried again for each
            return [dict.fromkeys(sources, error) for sources in rounds]
        found = []
        for sources in rounds:
            judging = (judge(evaluator, source) for source in sources.values())
            found.append(dict(zip(sources, await asyncio.gather(*judging, return_exceptions=True), strict=True)))
        return found


@pytest.mark.parametrize(("cheat", "mode"), JUDGED, ids=[f"{cheat.label}-{mode.value}" for cheat, mode in JUDGED])
def test_no_cheat_pays(gallery: Gallery, cheat: Exhibit, mode: Mode) -> None:
    found = gallery.judged(cheat, mode)
    assert cheat.foresees(found.status, found.stage, mode), found.feedback
    if not due_without_gpu(cheat, mode):
        assert found.key.mode is mode
    if "gains" in cheat.head and found.ok and not cheat.hole_in(mode):
        honest = gallery.judged(model_of(cheat), mode)
        assert honest.ok, honest.feedback
        assert combined_speedup(found.timings).low < GAIN * combined_speedup(honest.timings).high


@pytest.mark.parametrize("kernel", HONEST_ONES, ids=lambda kernel: kernel.label)
def test_no_honest_kernel_is_rejected(gallery: Gallery, kernel: Exhibit) -> None:
    found = gallery.judged(kernel, Mode.ARTIFACT)
    if kernel.nondeterministic and find_tool(SANITIZER) is None:
        assert found.status is Status.NONDETERMINISTIC
        assert SANITIZER in found.feedback
        return
    assert found.ok, found.feedback
    assert found.stage is Stage.PRECISE
    assert found.nondeterministic == kernel.nondeterministic
    assert found.key.mode is Mode.ARTIFACT


@pytest.mark.parametrize("kernel", VISITED, ids=lambda kernel: kernel.label)
def test_cheats_leave_nothing_that_harms_honest_kernels(gallery: Gallery, kernel: Exhibit) -> None:
    found = gallery.judged_again(kernel)
    assert found.ok or (kernel.nondeterministic and find_tool(SANITIZER) is None), found.feedback
