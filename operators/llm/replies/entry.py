"""Check of a source's entry point: it detects a kernel for another task, or no kernel at all."""

import ast
import re
import warnings

from evokernel.languages import syntax_of
from evokernel.languages.cpp.tokens import tokens
from evokernel.source import SIZE_LIMIT_BYTES
from evokernel.task import Signature

_DEF_RUN = re.compile(r"^(?:async\s+)?def\s+run\s*\(", re.MULTILINE)
_ANY_RUN = re.compile(r"\brun\b")
_MOST_ENTRIES, _LONGEST_LIST = 64, 4096


def entry_problem(source: str, language: str, signature: Signature) -> str | None:
    """Return why a source is no kernel for the task, or None. Compile errors are left to the compiler.

    In a syntax that is neither C++ nor Python only the word `run` is required.
    """
    if len(source) > SIZE_LIMIT_BYTES:
        return f"it has {len(source)} characters, and the limit is {SIZE_LIMIT_BYTES}"
    match syntax_of(language):
        case "cpp":
            return _cpp(source, len(signature.arguments))
        case "python":
            return _python(source, len(signature.arguments))
    return None if _ANY_RUN.search(source) else "it does not define `run`"


def parsed(source: str) -> ast.Module | None:
    """Return a Python source as a tree, or None where it is not Python; warnings about escapes are suppressed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _python(source: str, wanted: int) -> str | None:
    tree = parsed(source)
    if tree is None:
        return None if _DEF_RUN.search(source) else "it does not define `run`"
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "run"]
    if not found:
        return "it does not define `run`"
    given = found[-1].args
    positional = len(given.posonlyargs) + len(given.args)
    least = positional - len(given.defaults)
    if given.vararg is not None or least <= wanted <= positional:
        return None
    return f"its `run` takes {positional} arguments, and this task's has {wanted}"


def _cpp(source: str, wanted: int) -> str | None:
    found = tokens(source)
    linkage = next((i for i in range(len(found) - 1) if found[i] == "extern" and found[i + 1] == '"C"'), None)
    starts = [i for i in range(len(found) - 1) if found[i] == "run" and found[i + 1] == "("]
    entries = [start for start in starts if linkage is not None and start > linkage][:_MOST_ENTRIES]
    if not entries:
        return 'it does not define `extern "C" void run(...)`' if not starts else 'its `run` is not `extern "C"`'
    counts = [_parameters(found, start + 2) for start in entries]
    if wanted in counts or None in counts:
        return None
    return f"its `run` takes {counts[0]} arguments, and this task's has {wanted}"


def _parameters(found: tuple[str, ...], start: int) -> int | None:
    """Return how many parameters are listed from a place on; None where a macro may stand for them, or too many."""
    depth = commas = 0
    for length, token in enumerate(found[start : start + _LONGEST_LIST]):
        if depth == 0 and token == ")":
            return None if length == 1 else commas + (length > 0)
        depth += (token in ("(", "[", "{", "<")) - (token in (")", "]", "}", ">"))
        commas += depth == 0 and token == ","
    return None
