"""Loads a candidate's Python source as a module."""

import linecache
import types

FILE = "kernel.py"


def load(source: str) -> types.ModuleType:
    """Run a source as a module called `kernel`, under a file name that reveals nothing about this machine.

    Triton reads the text of its functions through `linecache`.
    """
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    module = types.ModuleType("kernel")
    module.__file__ = FILE
    exec(compile(source, FILE, "exec"), module.__dict__)
    return module
