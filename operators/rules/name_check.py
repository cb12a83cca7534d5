"""Name check of a source: undeclared names, duplicate declarations, wrong calls.

A graft is compared with both of its sources: a fault that neither of them has comes from the seam. A fault that the
check overlooks is found by the compiler, so it never gives a wrong verdict.
"""

import ast
import re
import symtable
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from evokernel.languages import syntax_of
from operators.rules.cpp_names import read_cpp

Fault = tuple[str, ...]
"""One of `unknown NAME`, `twice NAME` and `called NAME COUNT`."""

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(<[^>\n]+>)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NameCheck:
    """Result of a name check."""

    faults: frozenset[Fault]
    """The faults of the source."""
    headers: frozenset[str]
    """The headers that it includes."""
    breaks: int
    """The number of places that could not be parsed."""

    @property
    def unknown(self) -> frozenset[str]:
        """Names that the source uses and does not declare: of a library, or mistakes."""
        return frozenset(fault[1] for fault in self.faults if fault[0] == "unknown")


@lru_cache(maxsize=512)
def check_names(source: str, language: str) -> NameCheck:
    """Return the name check of a source."""
    headers = frozenset(_INCLUDE.findall(source))
    faults, breaks = read_cpp(source) if syntax_of(language) == "cpp" else _read_python(source)
    return NameCheck(frozenset(faults), headers, breaks)


def _read_python(source: str) -> tuple[set[Fault], int]:
    try:
        tree = ast.parse(source)
        table = symtable.symtable(source, "candidate", "exec")
    except (SyntaxError, ValueError, RecursionError):
        return set(), 1
    known = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    known |= {child.get_name() for child in table.get_children()}
    faults: set[Fault] = {("unknown", name) for name in _referenced(table) - known}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    counts = Counter(node.name for node in functions)
    faults |= {("twice", name) for name, count in counts.items() if count > 1}
    faults |= _wrong_calls(tree, {node.name: node.args for node in functions})
    breaks = 0
    for code, given in _cuda_strings(tree):
        found, broken = read_cpp(code, given=given)
        faults, breaks = faults | found, breaks + broken
    return faults, breaks


def _referenced(table: symtable.SymbolTable) -> set[str]:
    """Return the names that a module, or anything in it, looks up at its top level."""
    names = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module")
    }
    return names.union(*(_referenced(child) for child in table.get_children()))


def _wrong_calls(tree: ast.Module, functions: dict[str, ast.arguments]) -> set[Fault]:
    """Return the calls, launches `kernel[grid](...)` among them, with a wrong number of arguments."""
    faults: set[Fault] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        if not isinstance(called, ast.Name) or called.id not in functions:
            continue
        taken, launch = functions[called.id], isinstance(node.func, ast.Subscript)
        plain = [argument.arg for argument in (*taken.posonlyargs, *taken.args)]
        names = {*plain, *(argument.arg for argument in taken.kwonlyargs)}
        if taken.vararg or taken.kwarg or any(isinstance(argument, ast.Starred) for argument in node.args):
            continue
        given = {keyword.arg for keyword in node.keywords if keyword.arg in names}
        unknown_names = {keyword.arg for keyword in node.keywords} - names if not launch else set()
        missing = set(plain[len(node.args) : len(plain) - len(taken.defaults)]) - given
        if missing or unknown_names or len(node.args) > len(plain):
            faults.add(("called", called.id, str(len(node.args)), *sorted(map(str, given | unknown_names))))
    return faults


def _cuda_strings(tree: ast.Module) -> list[tuple[str, frozenset[str]]]:
    """Return the CUDA C++ texts that are passed to `Module`, each with its macros."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Module" and node.args:
            code = node.args[0]
            if isinstance(code, ast.Constant) and isinstance(code.value, str):
                found.append((code.value, frozenset(word.arg for word in node.keywords if word.arg)))
    return found
