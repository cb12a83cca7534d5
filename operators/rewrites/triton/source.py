"""Triton sources in the form that rewrites read: kernels, launches and constants, with their places in the text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from operators.rewrites.library import unused_name

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_WORD = re.compile(r"\w+")
ROW_UNIT = "ROW_UNIT_"
"""Beginning of the names of constexprs that divide what a launch passes for a number that its kernel restates."""
_ATOMS = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript)


class UnreadableTriton(ValueError):
    """Error of a text that is not a Triton module with one `run` function that launches kernels."""


@dataclass(frozen=True, slots=True)
class LaunchSite:
    """One launch `kernel[grid](...)`."""

    call: ast.Call
    """The call."""
    kernel: str
    """The name of the kernel."""
    grid: ast.expr
    """The grid; behind a name its expression, where only this launch uses the name."""
    function: ast.FunctionDef
    """The host function around it."""


@dataclass(frozen=True, slots=True)
class TritonKernel:
    """One launched `@triton.jit` function that no other device code calls."""

    node: ast.FunctionDef
    """Its definition."""
    name: str
    """Its name."""
    params: tuple[str, ...]
    """Names of its parameters, in order."""
    constexprs: frozenset[str]
    """Names of those that are constexpr."""


@dataclass(frozen=True, slots=True)
class TritonModule:
    """A parsed source."""

    text: str
    """The source as it was written."""
    tree: ast.Module
    """Its syntax tree."""
    kernels: Mapping[str, TritonKernel]
    """Kernels by name."""
    launches: tuple[LaunchSite, ...]
    """All launches, in source order."""
    run: ast.FunctionDef
    """The entry point."""
    constants: Mapping[str, int]
    """Whole numbers that are bound once at module level, by name."""
    parents: Mapping[ast.AST, ast.AST]
    """The parent of each node."""
    starts: tuple[int, ...]
    """Offset in `text` of the first character of each line."""

    @classmethod
    def parse(cls, text: str) -> TritonModule:
        """Read a source. Raises `UnreadableTriton` if it is no such module, or two statements share a line."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise UnreadableTriton(f"not a Python module: {error}") from error
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        if "run" not in functions:
            raise UnreadableTriton("no function `run`")
        if not _imports_tl(tree):
            raise UnreadableTriton("triton.language is not imported as tl")
        _refuse_shared_lines(tree)
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        jitted = {name: node for name, node in functions.items() if _is_jit(node)}
        launches = tuple(_launches(functions, jitted))
        called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        launched = {launch.kernel for launch in launches} - called
        kernels = {name: _kernel(node) for name, node in jitted.items() if name in launched}
        starts = [0]
        for line in text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        return cls(text, tree, kernels, launches, functions["run"], _constants(tree), parents, tuple(starts))

    def offset(self, line: int, column: int) -> int:
        """Return the offset in the text of a line (from 1) and a column in UTF-8 bytes, as `ast` counts them."""
        start = self.starts[line - 1]
        return start + len(self.text[start : self.starts[line] - 1].encode()[:column].decode())

    def span(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> tuple[int, int]:
        """Return the start and end of a node in the text."""
        return self.offset(node.lineno, node.col_offset), self.offset(*end_of(node))

    def segment(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> str:
        """Return the text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def grouped(self, node: ast.expr) -> str:
        """Return the text of an expression as an operand: in parentheses unless it needs none."""
        text = self.segment(node)
        return text if isinstance(node, _ATOMS) and "\n" not in text else f"({text})"

    def indent(self, stmt: ast.stmt) -> str:
        """Return the white space in front of a statement."""
        return self.text[self.starts[stmt.lineno - 1] : self.offset(stmt.lineno, stmt.col_offset)]

    def launches_of(self, kernel: TritonKernel) -> tuple[LaunchSite, ...]:
        """Return every launch of a kernel, in source order."""
        return tuple(launch for launch in self.launches if launch.kernel == kernel.name)

    def argument_of(self, launch: LaunchSite, param: str) -> ast.expr | None:
        """Return the expression passed for a kernel parameter, by position or keyword; None where it is not known."""
        for keyword in launch.call.keywords:
            if keyword.arg == param:
                return keyword.value
        params = self.kernels[launch.kernel].params
        if param not in params or any(isinstance(arg, ast.Starred) for arg in launch.call.args):
            return None
        position = params.index(param)
        return launch.call.args[position] if position < len(launch.call.args) else None

    def passed(self, launch: LaunchSite, param: str) -> ast.expr:
        """Return the expression passed for a kernel parameter. Raises `UnreadableTriton` where it is not known."""
        argument = self.argument_of(launch, param)
        if argument is None:
            raise UnreadableTriton(f"it cannot be told what {launch.kernel!r} is passed for {param!r}")
        return argument

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """Return the innermost statement around a node, or the node itself if it is one."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def enclosing(self, node: ast.AST) -> Iterator[ast.stmt]:
        """Yield the compound statements around a node, innermost first, its function last."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, ast.stmt):
                yield node
            if isinstance(node, FUNCTION):
                return

    def body_around(self, stmt: ast.stmt) -> list[ast.stmt]:
        """Return the list of statements that contains a statement."""
        parent = self.parents[stmt]
        for field in ("body", "orelse", "finalbody"):
            block = getattr(parent, field, [])
            if isinstance(block, list) and stmt in block:
                return block
        raise UnreadableTriton(f"a statement outside a block at line {stmt.lineno}")

    def words(self) -> frozenset[str]:
        """Return every identifier the text holds, comments included."""
        return frozenset(_WORD.findall(self.text))


def end_of(node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> tuple[int, int]:
    """Return the line (from 1) and the column where a node ends. Raises `UnreadableTriton` for a node without text."""
    if node.end_lineno is None or node.end_col_offset is None:
        raise UnreadableTriton(f"a node without an end at line {node.lineno}")
    return node.end_lineno, node.end_col_offset


def fresh(module: TritonModule, name: str, *taken: str) -> str:
    """Return the name, with a number behind it if the source uses it already."""
    return unused_name(name, module.words() | set(taken))


def called(node: ast.AST | None, *names: str) -> bool:
    """Say whether a node is a call of one of these dotted names, such as `tl.load`."""
    return isinstance(node, ast.Call) and dotted(node.func) in names


def dotted(node: ast.AST) -> str:
    """Return `a.b.c` for a chain of attributes, empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def keyword_of(call: ast.Call, name: str) -> ast.expr | None:
    """Return the value of a keyword argument, None where it is not passed."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def names_in(node: ast.AST) -> frozenset[str]:
    """Return every name read or bound inside a node."""
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))


def same(left: ast.AST | None, right: ast.AST | None) -> bool:
    """Say whether two expressions differ in layout at most."""
    return left is not None and right is not None and ast.dump(left) == ast.dump(right)


def restated(node: ast.AST) -> str | None:
    """Return the name N where a statement is `N = N // ROW_UNIT_N * ROW_UNIT_N`, which `row_alignment` writes."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.BinOp(
                left=ast.BinOp(left=ast.Name(id=again), op=ast.FloorDiv(), right=ast.Name(id=unit)),
                op=ast.Mult(),
                right=ast.Name(id=other),
            ),
        ) if name == again and unit == other and unit.startswith(ROW_UNIT):
            return name
    return None


def walk_new(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes inside it, like `ast.walk`, but without statements that only restate a value."""
    if restated(node) is None:
        yield node
        for child in ast.iter_child_nodes(node):
            yield from walk_new(child)


def _is_jit(node: ast.FunctionDef) -> bool:
    if len(node.decorator_list) != 1:
        return False
    decorator = node.decorator_list[0]
    return dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) in ("triton.jit", "jit")


def _imports_tl(tree: ast.Module) -> bool:
    for node in tree.body:
        if isinstance(node, ast.Import) and any(a.name == "triton.language" and a.asname == "tl" for a in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "triton" and any(map(_is_tl, node.names)):
            return True
    return False


def _is_tl(alias: ast.alias) -> bool:
    return alias.name == "language" and alias.asname == "tl"


def _kernel(node: ast.FunctionDef) -> TritonKernel:
    args = [*node.args.posonlyargs, *node.args.args]
    if node.args.vararg or node.args.kwarg or node.args.kwonlyargs:
        raise UnreadableTriton(f"kernel {node.name!r} has more than plain parameters")
    constexprs = frozenset(a.arg for a in args if a.annotation and dotted(a.annotation).endswith("constexpr"))
    return TritonKernel(node, node.name, tuple(a.arg for a in args), constexprs)


def _launches(functions: Mapping[str, ast.FunctionDef], jitted: Mapping[str, ast.FunctionDef]) -> Iterator[LaunchSite]:
    for function in functions.values():
        if function.name in jitted:
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
                name = dotted(node.func.value)
                if name in jitted:
                    yield LaunchSite(node, name, _expression_of(node.func.slice, function), function)


def _expression_of(grid: ast.expr, function: ast.FunctionDef) -> ast.expr:
    """Return the expression of a name that is assigned once and read once."""
    if not isinstance(grid, ast.Name):
        return grid
    uses = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == grid.id]
    values = [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and dotted(node.targets[0]) == grid.id
    ]
    return values[0] if len(values) == 1 and len(uses) == 2 else grid


def _constants(tree: ast.Module) -> dict[str, int]:
    found: dict[str, list[int]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Constant):
            name, value = dotted(node.targets[0]), node.value.value
            if name and type(value) is int:
                found.setdefault(name, []).append(value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _refuse_shared_lines(tree: ast.Module) -> None:
    """Refuse two statements on a line: rewrites add and replace whole lines."""
    for block in _blocks(tree):
        last = 0
        for stmt in block:
            if stmt.lineno <= last:
                raise UnreadableTriton(f"two statements on line {stmt.lineno}")
            last = stmt.end_lineno or stmt.lineno


def _blocks(tree: ast.Module) -> Iterator[Sequence[ast.stmt]]:
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block:
                header = node.lineno if isinstance(node, ast.stmt) and field == "body" else 0
                if block[0].lineno == header:
                    raise UnreadableTriton(f"two statements on line {header}")
                yield block
