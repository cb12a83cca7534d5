"""Stored evaluations that are used again: what was judged once under equal conditions is not judged anew."""

from archive.records import StoredEvaluation
from archive.store import Store
from evokernel.evaluation import Budget
from evokernel.protocols import EvaluatorIdentity


def stored_verdict(
    store: Store, identity: EvaluatorIdentity, *, program_hash: str, budget: Budget
) -> StoredEvaluation | None:
    """Return the verdict that this evaluator gave on a program, in whichever mode it could be run; None without one."""
    found = map(store.find_evaluation, identity.keys(program_hash, budget))
    return next((stored for stored in found if stored is not None), None)
