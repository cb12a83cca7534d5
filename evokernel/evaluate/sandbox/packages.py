"""Where this interpreter finds installed packages: the folders that a sandboxed Python is shown."""

import sys
from collections.abc import Collection
from pathlib import Path


def package_folders(names: Collection[str]) -> tuple[str, ...]:
    """Return the folders on the search path that hold one of the named packages, or any installed one, in order.

    A project's checkout or a home on the path is left out: nobody installed into it, so it may hold anything.
    """
    entries = dict.fromkeys(str(Path(entry).absolute()) for entry in sys.path if entry)
    return tuple(entry for entry in entries if _holds_packages(Path(entry), names))


def _holds_packages(folder: Path, names: Collection[str]) -> bool:
    if not folder.is_dir():  # a zip file, or nothing
        return False
    if any((folder / name / "__init__.py").is_file() for name in names):
        return True
    return next(folder.glob("*.dist-info/RECORD"), None) is not None
