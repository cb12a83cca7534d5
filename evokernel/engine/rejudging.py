"""What an earlier version of the evaluator judged, or one under an earlier text of the task, is judged again.

Numbers of two versions do not compare. Before a search goes on, the kernels it would build on are judged anew: those
that lead, the seed and what is pinned. Other kernels of then stay known, and are neither parents nor reported.
"""

import asyncio
from collections.abc import Callable, Iterable

from archive.identity import JUDGED_BY
from archive.queries import judged_by_another
from archive.store import Store
from evokernel.engine.snapshot import image_of, restore
from evokernel.engine.state import SearchState
from evokernel.engine.verdict_filter import VerdictFilter, verdict_filter_of
from evokernel.errors import HarnessError
from evokernel.protocols import Evaluator
from evokernel.records.evaluation import EvaluationRequest, EvaluatorIdentity, Fidelity
from evokernel.records.events import Notice
from evokernel.records.fitness import Elite

LEADERS = 32
"""Fittest kernels that are judged again beside the elites of the islands: so many that operators have partners."""


async def rejudge_leaders(
    store: Store,
    state: SearchState,
    evaluator: Evaluator,
    identity: EvaluatorIdentity,
    *,
    tell: Callable[[Notice], None],
    at_once: int,
) -> None:
    """Judge again what this search would build on, where another version judged it; nothing where none did.

    Args:
        store: of the run; what is judged is written there at once, so that a killed session loses none of it.
        state: fresh; it is fresh again at the end.
        evaluator: started already.
        identity: what it said of itself.
        tell: hears how many there are.
        at_once: kernels judged at the same time.
    """
    now, written = verdict_filter_of(store, identity), f"{identity.evaluator_version} {identity.task_hash}"
    if store.meta(JUDGED_BY) == written:
        return  # once: what leads now was judged by this evaluator, or beaten by what was
    if judged_by_another(store.database, task_hash=now.task_hash, device=now.device, version=now.version):
        kernels = [each for name, each in _leading(store, state, now).items() if name not in now.again]
        tell(
            Notice(
                f"the evaluator or the text of the task has changed: {len(kernels)} leading kernels are judged again"
            )
        )
        room = asyncio.Semaphore(at_once)

        async def judge(kernel: Elite) -> None:
            async with room:
                try:
                    request = EvaluationRequest(kernel.candidate, kernel.program_hash, Fidelity.PRECISE)
                    store.add_evaluation(await evaluator.evaluate(request))
                except HarnessError as error:
                    tell(Notice(f"our evaluator failed on {kernel.candidate.id}: {error}", warning=True))

        await asyncio.gather(*map(judge, kernels))
    store.set_meta(JUDGED_BY, written)


def _leading(store: Store, state: SearchState, now: VerdictFilter) -> dict[str, Elite]:
    """Return the kernels that lead by the verdicts of then, by program."""
    blank = image_of(state)
    state.verdict_filter = VerdictFilter(now.task_hash, now.device)
    state.replay(store.facts())
    found = {each.program_hash: each for each in leading(state)}
    restore(state, blank, {})
    state.verdict_filter = now
    return found


def leading(state: SearchState) -> Iterable[Elite]:
    """Yield the kernels that a search builds on or reports; one may come twice."""
    memory = state.archipelago.memory
    for island in state.archipelago.islands.values():
        yield from island.archive.elites()
    yield from sorted(memory.elites.values(), key=lambda elite: (-elite.fitness.value, elite.seq))[:LEADERS]
    yield from (memory.elites[name] for name in memory.pinned if name in memory.elites)
    if state.standing.seed is not None:
        yield state.standing.seed
