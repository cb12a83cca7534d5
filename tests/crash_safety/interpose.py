"""The library that stands between a process and the disk or the clock, compiled once a session."""

import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("interpose.cpp")


def compile_interposer(folder: Path) -> Path:
    """Return the library that a process preloads."""
    library = folder / "interpose.so"
    command = ["g++", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", str(SOURCE), "-o", str(library), "-ldl"]
    subprocess.run(command, check=True)
    return library
