"""Does one thing to a store again and again, and has its process ended, or the disk refuse, at the 1st, 2nd, ... write.

`at_every_write.py MODE ACTION TEMPLATE OUT STRIDE`, preloaded with the library of `interpose.py`. Each time the files
in the folder TEMPLATE are copied to OUT/N and a forked child is let loose on the store there. OUT/N/told holds what it
raised. With a STRIDE of 3 only the 1st, 4th, ... write is looked at. Ends with the first child that comes through.
"""

import ctypes
import os
import shutil
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from archive.fork import fork
from archive.store import Store, set_aside
from evokernel.errors import StoreError
from tests.crash_safety.processes import STORE

MODES = {"kill": 1, "tear": 2, "full": 3, "read-only": 4}


def migrate(path: Path) -> None:
    Store.open(path, write=True).close()


def begin_session(path: Path) -> None:
    with Store.open(path, write=True) as store:
        store.session_start()
        store.take_inbox()
        store.session_end("done")


def fork_best(path: Path) -> None:
    source = path.with_name("source.db")
    with Store.open(source, write=False) as store:
        best = store.best()[0].candidate.candidate.id
    fork(source, path, candidate=best)


def start_over(path: Path) -> None:
    set_aside(path)
    Store.open(path, write=True).close()


ACTIONS: dict[str, Callable[[Path], None]] = {
    "migrate": migrate,
    "begin_session": begin_session,
    "fork_best": fork_best,
    "start_over": start_over,
}


def child(folder: Path, mode: int, number: int, action: Callable[[Path], None]) -> None:
    path = folder / STORE
    ctypes.CDLL(None).interpose(mode, ctypes.c_long(number), os.fsencode(path))
    try:
        action(path)
    except StoreError as error:
        (folder / "told").write_text(f"{type(error).__name__}: {error}")
    os._exit(0)


def main(mode: str, action: str, template: str, out: str, stride: str) -> None:
    for number in count(1, int(stride)):
        folder = Path(out, str(number))
        shutil.copytree(template, folder)
        process = os.fork()
        if process == 0:
            try:
                child(folder, MODES[mode], number, ACTIONS[action])
            finally:
                os._exit(3)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if status > 0:
            sys.exit(f"the child that was to fail at write {number} ended with {status}")
        if status == 0 and not (folder / "told").exists():
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
