"""Commit of a result, with the fact that it becomes."""

from archive.calls import failed_tries
from archive.journal import ResultEntry
from archive.queries import time_of
from archive.store import Store
from evokernel.records.candidate import Proposal
from evokernel.records.evaluation import Evaluation


def commit_result(
    store: Store,
    proposal: Proposal,
    evaluation: Evaluation,
    *,
    program_hash: str,
    skeleton: str,
    reused_from: int | None = None,
) -> ResultEntry:
    """Store the result of a proposal in flight and return the fact, as reading it from the store would.

    `reused_from` is the seq of a stored evaluation that is used again. May raise `StoreError`.
    """
    seq = store.commit(proposal.step, evaluation, reused_from=reused_from)
    return ResultEntry(
        seq=seq,
        at=time_of(store.database, seq),
        proposal=proposal,
        program_hash=program_hash,
        skeleton=skeleton,
        evaluation=evaluation,
        evaluation_seq=reused_from or seq,
        origin="",
        failed=failed_tries(store.database, "step = ?", (proposal.step,)).get(proposal.step, ()),
    )
