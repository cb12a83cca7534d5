"""Loads a candidate's Python source as a module."""

import io
import linecache
import tokenize
import types

FILE = "kernel.py"


def load(source: str) -> types.ModuleType:
    """Run a source as a module called `kernel`, under a file name that reveals nothing about this machine.

    It is read as an exported file will be: a line ends at no other character, and a line in it can name an encoding.
    Triton reads the text of its functions through `linecache`, by the numbers that Python gives its lines.
    """
    data = source.encode()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    lines = io.TextIOWrapper(io.BytesIO(data), encoding).readlines()
    linecache.cache[FILE] = (len(source), None, lines, FILE)
    module = types.ModuleType("kernel")
    module.__file__ = FILE
    exec(compile(data, FILE, "exec"), module.__dict__)
    return module
