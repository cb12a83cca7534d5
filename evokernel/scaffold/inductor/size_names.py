"""Names for numbers that follow from sizes and stand several times in a function: deep networks nest them."""

import ast
from collections import Counter
from collections.abc import Callable

_LIBRARIES = frozenset({"libdevice", "math", "tl", "div_floor_integer"})


def name_sizes(function: ast.FunctionDef, is_size: Callable[[str], object]) -> None:
    """Compute each call that has only sizes in it, and stands there more than once, at the beginning of a function.

    Args:
        function: is changed.
        is_size: tells, by something true, whether a name is that of a size.
    """
    namer = _Namer(function, is_size)
    function.body = [namer.visit(statement) for statement in function.body]
    function.body[:0] = namer.made


class _Namer(ast.NodeTransformer):
    def __init__(self, function: ast.FunctionDef, is_size: Callable[[str], object]) -> None:
        self._is_size = is_size
        self._taken = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        self._taken |= {argument.arg for argument in function.args.args}
        calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
        self._counts = Counter(ast.unparse(node) for node in calls if self._of_sizes(node))
        self._names: dict[str, str] = {}
        self.made: list[ast.stmt] = []

    def _of_sizes(self, node: ast.AST) -> bool:
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - _LIBRARIES
        return bool(names) and all(map(self._is_size, names))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Return the name of a number that is computed already, else the call."""
        text = ast.unparse(node)
        if self._counts[text] < 2:
            return self.generic_visit(node)
        if text not in self._names:
            value = self.generic_visit(node)
            assert isinstance(value, ast.expr)
            name = next(f"size_{n}" for n in range(len(self._taken) + 1) if f"size_{n}" not in self._taken)
            self._taken.add(name)
            self._names[text] = name
            self.made.append(ast.Assign([ast.Name(name, ast.Store())], value, lineno=0))
        return ast.Name(self._names[text], ast.Load())
