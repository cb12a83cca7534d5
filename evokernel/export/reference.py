"""Reference of a task as files that need neither evokernel nor the task file."""

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from evokernel.scaffold.user_file import is_source

REFERENCE = "reference.py"
OWN_NAMES = frozenset({"kernel", "op", "reference", "test_kernel"})
"""Names of modules in every export."""
_IMPORTS = (ast.Import, ast.ImportFrom)
_HEAD = '"""What is to be computed: the reference that the kernels were judged by."""\n'


def reference_files(function: Callable[..., Any]) -> dict[str, str]:
    """Return reference.py, which defines `reference` and the names it uses, and the user files it imports.

    Such files are those that a task of `evokernel init` was made from. The result is empty where the function cannot
    be written: a lambda, a function inside another, or one that imports evokernel.
    """
    try:
        source = "".join(inspect.findsource(function)[0])
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    defined = {name: node for node in tree.body for name in _names(node)}
    own, values = function.__name__, function.__globals__
    if not isinstance(defined.get(own), ast.FunctionDef) or function.__code__.co_freevars:
        return {}
    needed, waiting = set[str](), [own]
    sources = dict[str, Path]()
    while waiting:
        name = waiting.pop()
        if name in needed or name in sources or name not in defined:
            continue
        if is_source(values.get(name)):
            sources[name] = Path(str(values[name].__file__))
            continue
        needed.add(name)
        waiting += [node.id for node in ast.walk(defined[name]) if isinstance(node, ast.Name)]
    if any(_is_ours(defined[name]) for name in needed) or OWN_NAMES & {path.stem for path in sources.values()}:
        return {}
    imports = [text for node in tree.body for text in _imports(node, needed)]
    imports += [f"import {path.stem} as {name}" for name, path in sorted(sources.items())]
    parts = [f"{_HEAD}\n" + "\n".join(imports)]
    for node in tree.body:
        if not isinstance(node, _IMPORTS) and needed & {*_names(node)}:
            parts.append(_text(source, node))
    text = "\n\n\n".join(parts) + "\n" + ("" if own == "reference" else f"\n\nreference = {own}\n")
    return {REFERENCE: text, **{path.name: path.read_text(encoding="utf-8") for path in sources.values()}}


def _names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a file defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
        case ast.Assign(targets=targets):
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _imports(node: ast.stmt, needed: set[str]) -> Iterator[str]:
    """Yield the needed imports of a statement, each as a line of its own."""
    if isinstance(node, _IMPORTS):
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        for alias, name in zip(node.names, _names(node), strict=True):
            if future or name in needed:
                kept = (
                    ast.ImportFrom(node.module, [alias], 0) if isinstance(node, ast.ImportFrom) else ast.Import([alias])
                )
                yield ast.unparse(kept)


def _is_ours(node: ast.stmt) -> bool:
    """Say whether a statement imports from evokernel, or from the folder of the task."""
    match node:
        case ast.ImportFrom(module=module, level=level):
            return level > 0 or str(module).partition(".")[0] == "evokernel"
        case ast.Import(names=aliases):
            return any(alias.name.partition(".")[0] == "evokernel" for alias in aliases)
    return False


def _text(source: str, node: ast.stmt) -> str:
    """Return the text of a statement with its decorators."""
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])
