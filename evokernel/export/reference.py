"""Reference of a task as files that need neither evokernel nor the task file."""

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evokernel.scaffold.operation.user_file import is_source

REFERENCE = "reference.py"
OWN_NAMES = frozenset({"kernel", "op", "reference", "test_kernel"})
"""Names of modules in every export."""
_IMPORTS = (ast.Import, ast.ImportFrom)
_HEAD = '"""What is to be computed: the reference that the kernels were judged by."""\n'


def reference_files(function: Callable[..., Any]) -> dict[str, str]:
    """Return reference.py, which defines `reference` and the names it uses, and the user files it imports.

    Such files are those that a task of `evokernel init` was made from; they lose their imports of evokernel. The
    result is empty where the function cannot be written: a lambda, a function inside another, or one that needs
    evokernel.
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
    sources = {name: Path(str(values[name].__file__)) for name in defined if is_source(values.get(name))}
    needed = _needed([own], {name: node for name, node in defined.items() if name not in sources})
    used = {node.id for name in needed for node in ast.walk(defined[name]) if isinstance(node, ast.Name)}
    sources = {name: path for name, path in sources.items() if name in used}
    if any(_is_ours(defined[name]) for name in needed) or OWN_NAMES & {path.stem for path in sources.values()}:
        return {}
    texts = {}
    for name, path in sources.items():
        of_source = {
            node.attr
            for each in needed
            for node in ast.walk(defined[each])
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
        }
        if (kept := _without_ours(path.read_text(encoding="utf-8"), of_source)) is None:
            return {}
        texts[path.name] = kept
    imports = [text for node in tree.body for text in _imports(node, needed)]
    beside = [f"import {path.stem} as {name}" for name, path in sorted(sources.items())]
    if beside:
        packaged = [f"    from . {each}" for each in beside]
        imports += ["if __package__:", *packaged, "else:", *(f"    {each}" for each in beside)]
    parts = [f"{_HEAD}\n" + "\n".join(imports)]
    for node in tree.body:
        if not isinstance(node, _IMPORTS) and needed & {*_names(node)}:
            parts.append(_text(source, node))
    text = "\n\n\n".join(parts) + "\n" + ("" if own == "reference" else f"\n\nreference = {own}\n")
    return {REFERENCE: text, **texts}


def _needed(names: Iterable[str], defined: Mapping[str, ast.stmt]) -> set[str]:
    """Return those of the defined names that the given ones need, with these."""
    needed, waiting = set[str](), [*names]
    while waiting:
        name = waiting.pop()
        if name in needed or name not in defined:
            continue
        needed.add(name)
        waiting += [node.id for node in ast.walk(defined[name]) if isinstance(node, ast.Name)]
    return needed


def _without_ours(text: str, used: Iterable[str]) -> str | None:
    """Return a user's file without its imports of evokernel; None where one of the used names needs them."""
    tree = ast.parse(text)
    defined = {name: node for node in tree.body for name in _names(node)}
    if any(_is_ours(defined[name]) for name in _needed(used, defined)):
        return None
    lines = text.encode().splitlines(keepends=True)  # columns count bytes
    for node in reversed([each for each in tree.body if _is_ours(each)]):
        end = node.end_lineno or node.lineno
        kept = [alias for alias in node.names if not _is_our_name(alias.name)] if isinstance(node, ast.Import) else []
        first, last = lines[node.lineno - 1][: node.col_offset], lines[end - 1][node.end_col_offset :]
        instead = ast.unparse(ast.Import(kept)) if kept else "pass"
        lines[node.lineno - 1 : end] = [first, instead.encode(), last]
    return b"".join(lines).decode()


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
            return level > 0 or _is_our_name(str(module))
        case ast.Import(names=aliases):
            return any(_is_our_name(alias.name) for alias in aliases)
    return False


def _is_our_name(module: str) -> bool:
    return module.partition(".")[0] == "evokernel"


def _text(source: str, node: ast.stmt) -> str:
    """Return the text of a statement with its decorators."""
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])
