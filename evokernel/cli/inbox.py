"""Entries of the inbox from the command line: their author, and which engine takes them in."""

import getpass
from pathlib import Path
from typing import Any

from archive.store import Store
from evokernel.cli.locate import open_store
from evokernel.errors import StoreError
from evokernel.report.best import candidate_id, verdicts_of
from evokernel.report.status import RunState, run_state


def author() -> str:
    """Return the name of the user, or an empty text where the system knows none."""
    try:
        return getpass.getuser()
    except (KeyError, ImportError, OSError):  # a user id without a name, as in containers
        return ""


def hand_in(path: Path, kind: str, payload: dict[str, Any]) -> str:
    """Put an entry into the inbox of a run; return, as a clause, which engine takes it in."""
    Store.inbox_put(path, kind, payload, author=author())
    with open_store(path) as store:
        running = run_state(store) is RunState.RUNNING
    return "the running search takes it in now" if running else "the next `evokernel evolve` takes it in"


def correct_kernel(path: Path, name: str) -> str:
    """Return the id of a correct kernel of a run, given by id, beginning of one, `best` or `seed`.

    Raises `StoreError` if there is none with that name, or it is not correct.
    """
    with open_store(path) as store:
        wanted = candidate_id(store, name)
        if verdicts_of(store, store.candidate(wanted).program_hash).fitness is None:
            raise StoreError(f"{wanted} is no correct kernel of this run, and only such ones are parents")
    return wanted
