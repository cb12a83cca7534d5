"""Rejudging of leaders after a change of the evaluator's version or the task's text.

Numbers of two versions do not compare. Before a search goes on, the kernels that it builds on are judged anew: those
that lead, the seed and the pinned ones. Other kernels stay known, and are neither parents nor reported.
"""

import asyncio
from collections.abc import Callable

from archive.identity import JUDGED_BY
from archive.queries import judged_by_another
from archive.store import Store
from archive.verdict_filter import VerdictFilter, verdict_filter_of
from evokernel.engine.state_fold import StateFold
from evokernel.errors import HarnessError
from evokernel.protocols import Evaluator
from evokernel.records.evaluation import EvaluationRequest, EvaluatorIdentity, Fidelity
from evokernel.records.events import Notice
from evokernel.records.fitness import Elite

LEADERS = 32
"""Fittest kernels that are judged again beside the elites of the islands, so that operators have partners."""


async def rejudge_leaders(
    store: Store,
    fold: StateFold,
    evaluator: Evaluator,
    identity: EvaluatorIdentity,
    *,
    notify: Callable[[Notice], None],
    at_once: int,
) -> None:
    """Judge the leading kernels again where another version judged them.

    Args:
        store: of the run; each verdict is written at once, so that a killed session loses none.
        fold: with a fresh state, which stays as it is.
        evaluator: started already.
        notify: takes a note on their number.
        at_once: kernels judged at the same time.
    """
    now, written = verdict_filter_of(store.database, identity), f"{identity.evaluator_version} {identity.task_hash}"
    if store.meta(JUDGED_BY) == written:
        return  # once: this evaluator judged the leaders, or a kernel that beat them
    if judged_by_another(store.database, task_hash=now.task_hash, device=now.device, version=now.version):
        then = fold.anew(VerdictFilter(now.task_hash, now.device))
        then.replay(store.facts())
        kernels = [each for name, each in leading_kernels(store, then).items() if name not in now.again]
        checks = then.history.checks
        notify(
            Notice(
                f"the evaluator or the text of the task has changed: {len(kernels)} leading kernels are judged again"
            )
        )
        room = asyncio.Semaphore(at_once)

        async def judge(kernel: Elite) -> None:
            async with room:
                try:
                    request = EvaluationRequest(
                        kernel.candidate, kernel.program_hash, Fidelity.PRECISE, checks=tuple(checks)
                    )
                    store.add_evaluation(await evaluator.evaluate(request))
                except HarnessError as error:
                    notify(Notice(f"our evaluator failed on {kernel.candidate.id}: {error}", warning=True))

        await asyncio.gather(*map(judge, kernels))
    store.set_meta(JUDGED_BY, written)


def leading_kernels(store: Store, fold: StateFold) -> dict[str, Elite]:
    """Return the kernels that a search builds on or reports, by program hash."""
    history, seed = fold.history, fold.state.account.seed
    fittest = sorted(history.elites.values(), key=lambda elite: (-elite.fitness.value, elite.seq))[:LEADERS]
    found = [elite for each in fold.state.archipelago.populations.values() for elite in each.held]
    found += fittest
    found += [history.elites[name] for name in history.pinned if name in history.elites]
    found += [] if seed is None else [store.results([seed.seq])[seed.seq].elite()]
    return {each.program_hash: each for each in found}
