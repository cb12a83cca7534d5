"""Checks of a source in the language `cuda` without running it: early feedback, not security."""

import ast
from typing import TypeGuard

from evokernel.languages.gpu import triton_static_check
from evokernel.languages.gpu.triton_static_check import Dialect

HELPER_IMPORT = "from evokernel.cuda import Module"
"""The one line that imports the helper; an export replaces it by the helper."""
_HELPER = "evokernel.cuda"
_DIALECT = Dialect(modules=frozenset({_HELPER, "torch", "math"}))


def static_check(source: str) -> str | None:
    """Return why a source cannot be tried, or None."""
    problem = triton_static_check.static_check(source, dialect=_DIALECT)
    if problem is not None:
        return problem
    imports = [node for node in ast.walk(ast.parse(source)) if _imports_helper(node)]
    for node in imports:
        if ast.unparse(node) != HELPER_IMPORT or node.col_offset:
            return f"line {node.lineno}: write it as `{HELPER_IMPORT}`, at the top level"
    if len(imports) != 1:
        return f"the source must say `{HELPER_IMPORT}` once: kernels are CUDA C++ in a string that Module compiles"
    return None


def _imports_helper(node: ast.AST) -> TypeGuard[ast.Import | ast.ImportFrom]:
    if isinstance(node, ast.Import):
        return any(alias.name == _HELPER for alias in node.names)
    return isinstance(node, ast.ImportFrom) and node.module == _HELPER
