"""Helpers of the structural rewrites: statements as lines, bound names, helper functions of a module."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from operators.rewrites.library import unused_name
from operators.rewrites.triton.analysis import base_pointer, pointer
from operators.rewrites.triton.source import (
    LaunchSite,
    TritonKernel,
    TritonModule,
    called,
    dotted,
    end_of,
    fresh,
    names_in,
    walk_new,
)
from operators.rewrites.triton.span_edits import SpanEdits

GRID_READS = ("tl.program_id", "tl.num_programs")
_EFFECTS = ("store", "load", "atomic", "gather", "scatter", "debug_barrier", "device_print", "device_assert", "inline")


def lines_of(module: TritonModule, first: ast.stmt, last: ast.stmt) -> list[str]:
    """Return the text from one statement to another of its block, comments included, without indentation."""
    indent = module.indent(first)
    lines = module.text.split("\n")[first.lineno - 1 : end_of(last)[0]]
    return [line.removeprefix(indent) if line.startswith(indent) else line.lstrip() for line in lines]


def indented(lines: Iterable[str]) -> list[str]:
    """Return the lines, one level further in."""
    return [f"    {line}" if line else line for line in lines]


def bound_names(*nodes: ast.AST) -> Counter[str]:
    """Return the number of bindings of each name inside the nodes."""
    return Counter(
        n.id for node in nodes for n in walk_new(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    )


def read_names(*nodes: ast.AST) -> frozenset[str]:
    """Return every name whose value the nodes read; `x += 1` reads `x`."""
    read = {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    for node in nodes:
        read |= {dotted(n.target) for n in ast.walk(node) if isinstance(n, ast.AugAssign)}
    return frozenset(read)


def single(stmt: ast.stmt) -> tuple[str, ast.expr] | None:
    """Return the name and value of a plain `name = value`."""
    if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 and isinstance(stmt.targets[0], ast.Name):
        return stmt.targets[0].id, stmt.value
    return None


def updated(stmt: ast.stmt) -> tuple[str, ast.expr] | None:
    """Return the name and summand of `name += summand`, `name = name + summand` or `name = tl.dot(x, y, name)`."""
    if isinstance(stmt, ast.AugAssign) and isinstance(stmt.op, ast.Add) and isinstance(stmt.target, ast.Name):
        return stmt.target.id, stmt.value
    plain = single(stmt)
    if plain is None:
        return None
    name, value = plain
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        for one, other in ((value.left, value.right), (value.right, value.left)):
            if dotted(one) == name:
                return name, other
    return _dotted_onto(name, value)


def _dotted_onto(name: str, value: ast.expr) -> tuple[str, ast.expr] | None:
    """Return the product that `tl.dot(x, y, name)` or `tl.dot(x, y, acc=name)` adds to a name."""
    if not isinstance(value, ast.Call) or not called(value, "tl.dot"):
        return None
    chained = [*value.args[2:3], *(keyword.value for keyword in value.keywords if keyword.arg == "acc")]
    if [dotted(argument) for argument in chained] != [name]:
        return None
    others = [keyword for keyword in value.keywords if keyword.arg != "acc"]
    return name, ast.Call(value.func, [*value.args[:2], *value.args[3:]], others)


def calls(node: ast.AST) -> Iterator[ast.Call]:
    """Return every call inside a node."""
    return (n for n in ast.walk(node) if isinstance(n, ast.Call))


def has_effect(node: ast.AST, *, loads: bool = True) -> bool:
    """Say whether a node writes memory or has another effect, so that it must neither move nor repeat.

    With `loads`, reading memory counts too.
    """
    for call in calls(node):
        verb = call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func)
        if any(verb.startswith(effect) for effect in _EFFECTS) and (loads or verb != "load"):
            return True
    return False


def carried(loop: ast.For) -> set[str]:
    """Return the names that a round of a loop may read from the round before."""
    bound, late, ready = bound_names(loop).keys(), set[str](), {dotted(loop.target)}
    for stmt in loop.body:
        late |= (read_names(stmt) & bound) - ready
        ready |= bound_names(stmt).keys()
    return late


def code_of(kernel: TritonKernel) -> list[ast.stmt]:
    """Return the statements of a kernel without its docstring."""
    body = kernel.node.body
    first = body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if documented else body


def blocks_in(node: ast.AST) -> Iterator[Sequence[ast.stmt]]:
    """Yield every list of statements inside a node, outermost first."""
    for inner in ast.walk(node):
        for field in ("body", "orelse"):
            block = getattr(inner, field, None)
            if isinstance(block, list) and block:
                yield block


def only_launch(module: TritonModule, kernel: TritonKernel) -> LaunchSite | None:
    """Return the launch of a kernel that `run` itself launches exactly once."""
    launches = module.launches_of(kernel)
    return launches[0] if len(launches) == 1 and launches[0].function is module.run else None


def launched(module: TritonModule, launch: LaunchSite, expr: ast.expr) -> str | None:
    """Return an expression over a kernel's parameters and constants as `run` would write it at the launch."""
    text = module.segment(expr)
    start = module.span(expr)[0]
    names = sorted((n for n in ast.walk(expr) if isinstance(n, ast.Name)), key=module.span, reverse=True)
    for name in names:
        if name.id in module.kernels[launch.kernel].params:
            argument = module.argument_of(launch, name.id)
            if argument is None:
                return None
            begin, end = (place - start for place in module.span(name))
            inner = module.segment(argument) if len(names) == 1 and text == name.id else module.grouped(argument)
            text = text[:begin] + inner + text[end:]
        elif name.id not in module.constants:
            return None
    return text


def grid_axes(kernel: TritonKernel) -> list[int]:
    """Return the axes of the grid that a kernel reads, one for each place; -1 for one that its text does not tell."""
    return [grid_axis(call) for call in calls(kernel.node) if called(call, *GRID_READS)]


def grid_axis(call: ast.Call) -> int:
    """Return the axis of a program's number, or of the number of programs; -1 where the text does not tell it."""
    match call:
        case ast.Call(args=[ast.Constant(value=int(axis))], keywords=[]):
            return axis
        case ast.Call(args=[], keywords=[ast.keyword(arg="axis", value=ast.Constant(value=int(axis)))]):
            return axis
    return -1


def fresh_in(function: ast.FunctionDef, name: str, *taken: str) -> str:
    """Return the name, with a number behind it if the function uses it already."""
    used = names_in(function) | {a.arg for a in function.args.args}
    return unused_name(name, used | set(taken))


def device_tensor(module: TritonModule, kernel: TritonKernel, launch: LaunchSite) -> str | None:
    """Return an argument of `run` that the kernel uses as a tensor."""
    accesses = [c for c in calls(kernel.node) if called(c, "tl.load", "tl.store", "tl.make_tensor_descriptor")]
    own = {argument.arg for argument in module.run.args.args} - bound_names(module.run).keys()
    bases = {base_pointer(module, access, where) for access in accesses if (where := pointer(access)) is not None}
    for param in kernel.params:
        argument = module.argument_of(launch, param)
        if param in bases and isinstance(argument, ast.Name) and argument.id in own:
            return argument.id
    return None


def add_function(edits: SpanEdits, text: str) -> str:
    """Define a host function in front of `run`, unless the module has the same one; return its name."""
    module = edits.module
    wanted = ast.parse(text).body[0]
    assert isinstance(wanted, ast.FunctionDef)
    if any(ast.dump(stmt) == ast.dump(wanted) for stmt in module.tree.body):
        return wanted.name
    name = fresh(module, wanted.name)
    edits.insert_before(module.run, [*text.replace(wanted.name, name, 1).strip().split("\n"), "", ""])
    return name


def import_torch(edits: SpanEdits) -> None:
    """Import torch unless the module does."""
    for stmt in edits.module.tree.body:
        if isinstance(stmt, ast.Import) and any(alias.name == "torch" and not alias.asname for alias in stmt.names):
            return
    first = next(stmt for stmt in edits.module.tree.body if isinstance(stmt, (ast.Import, ast.ImportFrom)))
    if isinstance(first, ast.ImportFrom) and first.module == "__future__":
        edits.insert_after(first, ["", "import torch"])
    else:
        edits.insert_before(first, ["import torch"])
