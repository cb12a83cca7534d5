"""Figures of the code: layout, names, and the calls of one step.

`python benchmarks/house.py` prints them as JSON. `--walk` adds a toy search in which one step of a rule and one of a
model are followed (`sys.setprofile`): how many files are entered, and how often a call goes from file to file.
"""

import argparse
import ast
import asyncio
import collections
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).parents[1]
PACKAGES = ("evokernel", "islands", "operators", "archive")
RELATIVE = ("What", "Whether", "Who", "Whoever", "Whatever")


def main() -> None:
    """Print the figures of the checkout that this script lies in."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--walk", action="store_true", help="follow one step of a rule and one of a model")
    given = parser.parse_args()
    found: dict[str, Any] = layout(sources())
    if given.walk:
        sys.path.insert(0, str(HERE))
        found |= {f"walk of a step by {name}": walk(name) for name in ("tune", "mutate")}
    print(json.dumps(found, indent=2))


def sources() -> dict[str, Path]:
    """Return our modules by dotted name, without kernels that lie among them."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=HERE, capture_output=True, text=True, check=True).stdout
    paths = [Path(line) for line in listed.split()]
    ours = [path for path in paths if path.parts[0] in PACKAGES and not {"seeds", "cheats"} & set(path.parts)]
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): HERE / path for path in ours}


def layout(modules: dict[str, Path]) -> dict[str, Any]:
    """Return counts over the text of the modules."""
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules.items()}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    lengths = sorted(len(path.read_text(encoding="utf-8").splitlines()) for path in modules.values())
    edges = {edge for name in trees for edge in imports(name, trees[name], modules)}
    mutual = sorted({tuple(sorted(edge)) for edge in edges if edge[::-1] in edges})
    classes = collections.Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    return {
        "lines": sum(lengths),
        "statements without docstrings": sum(isinstance(node, ast.stmt) and not is_text(node) for node in nodes),
        "files": len(modules),
        "longest file": lengths[-1],
        "median file": lengths[len(lengths) // 2],
        "modules in the root": sum(path.parent == HERE / "evokernel" for path in modules.values()),
        "mutual packages": len(mutual),
        "which": [" <-> ".join(pair) for pair in mutual],
        "class names used twice": sum(n > 1 for name, n in classes.items() if not name.startswith("_")),
        "docstrings that define by a relative clause": sum(relative(node) for node in nodes),
        "asserts that something is not None": sum(
            isinstance(node, ast.Assert) and "is not None" in ast.unparse(node) for node in nodes
        ),
        "uses of hasattr": sum(isinstance(node, ast.Name) and node.id == "hasattr" for node in nodes),
    }


def package_of(name: str, path: Path) -> str:
    """Return the package of a module; a module in the root of `evokernel` counts as a package."""
    if path.name == "__init__.py" or path.parent == HERE / "evokernel":
        return name
    return name.rpartition(".")[0]


def imports(name: str, tree: ast.Module, modules: dict[str, Path]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of packages that a module's imports connect."""
    here = package_of(name, modules[name])
    package = name if modules[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            names = [full if (full := f"{base}.{alias.name}") in modules else base for alias in node.names]
        for there in names:
            if there in modules and package_of(there, modules[there]) != here:
                yield here, package_of(there, modules[there])


def relative(node: ast.AST) -> bool:
    """Say whether a docstring begins with a relative pronoun."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return (ast.get_docstring(node) or "").split(" ")[0] in RELATIVE


def is_text(node: ast.stmt) -> bool:
    """Say whether a statement is a docstring, also one under a field."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


class Walk:
    """Listener that follows the calls between two committed results of a search."""

    def __init__(self, *, after: int) -> None:
        self.files: set[str] = set()
        self.moves = 0
        self._after = after
        self._results = 0

    def hear(self, event: object) -> None:
        """Begin at one result, and end at the next."""
        if hasattr(event, "evaluation"):
            self._results += 1
            sys.setprofile(self._follow if self._results == self._after else None)

    def _follow(self, frame: FrameType, kind: str, _: object) -> None:
        if kind != "call" or (file := ours(frame)) is None:
            return
        self.files.add(file)
        before = frame.f_back
        while before is not None and ours(before) is None:
            before = before.f_back
        self.moves += before is not None and ours(before) != file


def ours(frame: FrameType) -> str | None:
    """Return the file of a frame where it is one of the source, else None."""
    path = frame.f_code.co_filename
    return path if path.startswith(tuple(f"{HERE / package}/" for package in PACKAGES)) else None


def walk(operator: str) -> dict[str, int]:
    """Return the number of files that one step enters, and of calls from one file to another."""
    from tests.support.walk import search_with

    followed = Walk(after=2)
    with tempfile.TemporaryDirectory(prefix="evokernel-walk-") as folder:
        asyncio.run(search_with(operator, Path(folder, "walk.db"), followed))
    return {"files": len(followed.files), "moves": followed.moves}


if __name__ == "__main__":
    main()
