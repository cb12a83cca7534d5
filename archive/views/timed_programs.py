"""Tables of the measurement that counts for each program in the search."""

from archive.store import Store
from evokernel.records.evaluation import Fidelity, Status


def timed_programs(store: Store) -> tuple[str, tuple[object, ...]]:
    """Return two tables for the WITH of a query, and their values.

    `timed` has program_hash, candidate, timings, speedup and speedup_low, as in the search: the longer measurement
    counts, then the newer one. `refuted` has the programs that any evaluation found wrong, with the newest such status.
    """
    identity = store.identity()
    here: str = ""
    values: tuple[str, ...] = ()
    if identity is not None:  # copies of a fork from another task or device do not count in this run
        here, values = "task_hash = ? AND device = ? AND ", (identity.task_hash, identity.device)
        if identity.evaluator_version:
            here, values = f"{here}evaluator_version = ? AND ", (*values, identity.evaluator_version)
    # A column beside a maximum, and in no aggregate, is that of the row with the maximum: so SQLite promises.
    sql = (
        "timed AS (SELECT program_hash, candidate, timings, speedup, speedup_low, "
        "max((budget = ?) * 1000000000 + seq) FROM evaluations "
        f"WHERE {here} status = ? AND budget <> ? GROUP BY 1), "
        "refuted AS (SELECT program_hash, status, max(seq) FROM evaluations "
        f"WHERE {here} status NOT IN (?, ?) GROUP BY 1)"
    )
    timed = (Fidelity.PRECISE.value, *values, Status.OK.value, Fidelity.FINAL.value)
    return sql, (*timed, *values, Status.OK.value, Status.HARNESS_ERROR.value)
