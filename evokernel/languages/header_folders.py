"""Folders of headers that CUDA C++ may include, beside CUDA's own."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evokernel.errors import LanguageError

_MOST_FILES = 50_000
_MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class HeaderFolders:
    """Folders that the compiler searches, and their contents."""

    paths: tuple[str, ...] = ()
    """Absolute, in the order in which they are searched."""
    digest: str = ""
    """Hash of the names and contents of all files; empty without folders."""

    def names(self) -> list[str]:
        """Return the entries of each folder, as `#include` would begin with them."""
        found = {path.name for folder in self.paths for path in Path(folder).iterdir() if path.name[0] != "."}
        return sorted(found)


def header_folders(places: Sequence[str]) -> HeaderFolders:
    """Read the folders.

    Raises `LanguageError` if one is no folder, cannot be read, or holds more than headers would.
    """
    paths = tuple(str(Path(place).expanduser().resolve()) for place in places)
    if not paths:
        return HeaderFolders()
    whole, files, size = hashlib.sha256(), 0, 0
    for place, path in zip(places, paths, strict=True):
        if os.pathsep in path or not Path(path).is_dir():
            raise LanguageError(f"cuda_include: expected a folder of headers, and {place} is none")
        try:
            for name in _files(Path(path)):
                text = Path(path, name).read_bytes()
                files, size = files + 1, size + len(text)
                if files > _MOST_FILES or size > _MOST_BYTES:
                    raise LanguageError(
                        f"cuda_include: {place} holds more than {_MOST_FILES} files or {_MOST_BYTES >> 30} GiB; name "
                        "the folder that `#include` starts from"
                    )
                whole.update(f"{name}\0{hashlib.sha256(text).hexdigest()}\n".encode())
        except OSError as error:
            raise LanguageError(f"cuda_include: {place} cannot be read: {error}") from None
        whole.update(b"\n")
    return HeaderFolders(paths, whole.hexdigest()[:16])


def _files(folder: Path) -> Iterator[str]:
    """Yield the paths of all files below a folder, in order; hidden ones and pipes are left out."""
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        for name in sorted(names):
            if name[0] != "." and Path(path, name).is_file():
                yield os.path.relpath(Path(path, name), folder)
