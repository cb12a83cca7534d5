"""Stored evaluations that are used again: what was judged once under equal conditions is not judged anew."""

from archive.records import StoredEvaluation
from archive.store import Store
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import EvaluatorIdentity, Fidelity, Status


def stored_verdict(
    store: Store, identity: EvaluatorIdentity, *, program_hash: str, budget: Fidelity
) -> StoredEvaluation | None:
    """Return the verdict that this evaluator gave on a program, in whichever mode it could be run; None without one.

    A source that was refused by its text alone says nothing of another that is the same program: tunables, regions and
    what is forbidden may stand in comments, which the hash leaves out.
    """
    found = map(store.find_evaluation, identity.keys(program_hash, budget))
    usable = (stored for stored in found if stored is not None)
    return next((stored for stored in usable if stored.evaluation.status is not Status.STATIC_REJECT), None)


def only_our_faults(store: Store, candidate: Candidate, program_hash: str) -> bool:
    """Whether our own machinery failed each time a candidate was to be judged, and nobody is to judge it again."""
    if any(proposal.candidate.id == candidate.id for proposal in store.open_leases()):
        return False
    stored = store.evaluations_of(program_hash)
    return bool(stored) and all(each.evaluation.status is Status.HARNESS_ERROR for each in stored)
