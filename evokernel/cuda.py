"""CUDA C++ in a string, launched from Python: what kernels in the language `cuda` are written with."""

import re
from pathlib import Path

from evokernel.evaluate.inside.driver.cuda_module import Module

__all__ = ["Module", "read_source"]
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)".*$', re.MULTILINE)
_PRAGMA_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b.*\n?", re.MULTILINE)


def read_source(file: str | Path) -> str:
    """Return a CUDA C++ file for `Module`, with the files beside it that it includes in their places, each once.

    A candidate is one text, so nothing is read when a kernel is compiled. `#include "..."` of a file that is not there
    stays: it may be one of CUDA's.

    Raises:
        OSError: a file cannot be read.
        UnicodeDecodeError: it is not UTF-8.
    """
    path = Path(file)
    return _with_includes(path.read_text(encoding="utf-8"), path.parent, {path.resolve()})


def _with_includes(text: str, folder: Path, seen: set[Path]) -> str:
    def included(match: re.Match[str]) -> str:
        path = (folder / match[1]).resolve()
        if not path.is_file():
            return match[0]
        if path in seen:
            return ""
        seen.add(path)
        return _PRAGMA_ONCE.sub("", _with_includes(path.read_text(encoding="utf-8"), path.parent, seen)).rstrip("\n")

    return _INCLUDE.sub(included, text)
