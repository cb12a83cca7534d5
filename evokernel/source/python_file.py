"""A Python file run as a module of its own."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType


def load_file(path: Path | str, name: str) -> ModuleType:
    """Run a Python file and return it as a module, which no import statement finds. Raises what the file raises."""
    loader = SourceFileLoader(name, str(path))
    spec = ModuleSpec(name, loader, origin=str(path))
    spec.has_location = True
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@contextmanager
def without_bytecode() -> Iterator[None]:
    """Let imports leave no `__pycache__` in folders of the user's."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
