"""Writes a plan as plain C++: one loop nest after the other, scalar accumulators, every subscript spelled out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from evokernel.scaffold.expression_text import ATOM, ExpressionText, combine, wrapped
from evokernel.scaffold.index_arithmetic import Index, loop_index, resolve, subscript, value_of, variables_in
from evokernel.scaffold.loop_nests import LoopNests, Nest, NestValue, Use
from evokernel.scaffold.operation_graph import Node

_LOOPS = ("i", "j", "k", "l", "m", "n", "p", "q", "u", "v")
_STARTS = {"sum": "0.0f", "matmul": "0.0f", "prod": "1.0f", "amax": "-INFINITY", "amin": "INFINITY"}
_LOCAL_NAMES = {"sum": "sum", "matmul": "acc", "prod": "product", "amax": "top", "amin": "low", "rsqrt": "scale"}


@dataclass
class LoopScope:
    """Lines inside one loop (or the function), with the values already named there."""

    header: str = ""
    variable: str = ""
    items: list["str | LoopScope"] = field(default_factory=list)
    named: dict[Use, str] = field(default_factory=dict)

    def render(self, depth: int) -> list[str]:
        """Return the lines, indented."""
        pad = "    " * depth
        lines: list[str] = [pad + self.header] if self.header else []
        for item in self.items:
            lines += [f"{pad}    {item}"] if isinstance(item, str) else item.render(depth + 1)
        return [*lines, pad + "}"] if self.header else lines


class CppWriter:
    """Writes the body of `run`.

    Args:
        plan: the nests.
        arguments: the names of the inputs, in the order of the trace.
        taken: every other name that is used in the function.
    """

    def __init__(self, plan: LoopNests, *, arguments: Sequence[str], taken: Sequence[str]) -> None:
        self._plan = plan
        self._inputs = {f"input {place}": name for place, name in enumerate(arguments)}
        used = {*arguments, *taken}
        self._loops = [name for name in (*_LOOPS, *(f"i{n}" for n in range(9))) if name not in used]
        self._used = {*used, *self._loops}
        self._scopes: list[LoopScope] = [LoopScope()]
        self._counts: dict[Use, int] = {}

    def body(self) -> list[str]:
        """Return the lines of the body."""
        top = self._scopes[0]
        for name, shape in self._plan.temporaries:
            fresh = self._fresh("t")
            for stage in self._plan.stages.values():
                stage.buffer = fresh if stage.buffer == name else stage.buffer
            top.items.append(f"std::vector<float> {fresh}({self._plan.sizes.product(shape)});")
        for nest in self._plan.nests:
            self._nest(nest)
        return top.render(0)

    def _nest(self, nest: Nest) -> None:
        stages = [stage for stage in nest.stages if not stage.skipped]
        for level in range(nest.depth):
            self._open(self._loops[level], nest.stages[0].outer[level])
        for stage in stages:
            self._stage(stage, nest.depth)
        for _ in range(nest.depth):
            self._close()

    def _open(self, variable: str, extent: int) -> None:
        bound = self._plan.sizes.text(extent)
        self._scopes.append(LoopScope(f"for (int64_t {variable} = 0; {variable} < {bound}; ++{variable}) {{", variable))

    def _close(self) -> None:
        block = self._scopes.pop()
        self._scopes[-1].items.append(block)

    def _stage(self, stage: NestValue, depth: int) -> None:
        outer, inner = stage.outer, stage.inner
        variables = tuple(self._loops[: len(outer) + len(inner)])
        for level in range(depth, len(outer)):
            self._open(variables[level], outer[level])
        index = loop_index(stage.node.shape, variables[: len(outer)])
        place = f"{stage.buffer}[{subscript(stage.node.shape, index, self._plan.sizes)}]" if stage.buffer else ""
        if stage.reduces:
            self._reduction(stage, variables, index, place)
        else:
            self._map(stage, variables, index, place)
        for _ in range(depth, len(outer)):
            self._close()

    def _map(self, stage: NestValue, variables: tuple[str, ...], index: Index, place: str) -> None:
        uses = stage.uses(variables)
        self._count(uses)
        texts = [self._text(*use) for use in uses]
        value = texts[0].text if stage.output else combine(stage.node, texts).text
        if place:
            self._scopes[-1].items.append(f"{place} = {value};")
        else:
            self._name(stage.node, index, value, len(self._scopes) - 1)

    def _reduction(self, stage: NestValue, variables: tuple[str, ...], index: Index, place: str) -> None:
        node, home = stage.node, self._scopes[-1]
        total = self._fresh(_LOCAL_NAMES[node.op])
        for variable, extent in zip(variables[len(stage.outer) :], stage.inner, strict=True):
            self._open(variable, extent)
        uses = stage.uses(variables)
        self._count(uses)
        texts = [self._text(*use) for use in uses]
        self._scopes[-1].items.append(_accumulate(node.op, total, texts))
        for place_in in range(len(stage.inner), 0, -1):
            if place_in == 1:  # whatever was named on the way stands before the accumulator
                home.items.append(f"float {total} = {_STARTS[node.op]};")
            self._close()
        home.named[(node, index)] = total
        if place:
            home.items.append(f"{place} = {total};")

    def _count(self, uses: list[Use]) -> None:
        """Count how often each value is used in one step, so that those used twice get a name."""
        self._counts = {}
        todo = list(uses)
        while todo:
            node, index = resolve(*todo.pop(), self._plan.sizes)
            self._counts[(node, index)] = self._counts.get((node, index), 0) + 1
            if self._counts[(node, index)] == 1 and node not in self._plan.stages:
                todo += [(arg, index if arg.shape else ()) for arg in node.args]

    def _text(self, node: Node, index: Index, *, inside: int | None = None) -> ExpressionText:
        """Return a value as C++, naming on the way what is used twice or does not change in the innermost loop.

        `inside` is the scope in which the expression around it is written; the innermost one by default.
        """
        around = len(self._scopes) - 1 if inside is None else inside
        node, index = resolve(node, index, self._plan.sizes)
        for scope in reversed(self._scopes):
            if (node, index) in scope.named:
                return ExpressionText(scope.named[(node, index)], ATOM)
        sizes = self._plan.sizes
        stage = self._plan.stages.get(node)
        if stage is not None:
            return ExpressionText(f"{stage.buffer}[{subscript(node.shape, index, sizes)}]", ATOM)
        if node.op == "input":
            return ExpressionText(f"{self._inputs[str(node.attrs[0])]}[{subscript(node.shape, index, sizes)}]", ATOM)
        if node.op == "number":
            return self._number(node, around)
        if node.op == "iota":
            return _iota(node, value_of(index[0], sizes))
        level = self._level(index)
        named = self._counts.get((node, index), 0) > 1 or level < around
        home = level if named else around
        made = combine(node, [self._text(arg, index if arg.shape else (), inside=home) for arg in node.args])
        return ExpressionText(self._name(node, index, made.text, level), ATOM) if named else made

    def _number(self, node: Node, around: int) -> ExpressionText:
        text = str(node.attrs[0])
        if "sqrt" in text and around > 0:
            return ExpressionText(self._name(node, (), text, 0), ATOM)
        return ExpressionText(text, 8 if text.startswith("-") else 6 if " / " in text else ATOM)

    def _level(self, index: Index) -> int:
        """Return the outermost scope in which all variables of an index are known."""
        words = set(re.findall(r"\w+", variables_in(index)))
        levels = [level for level, scope in enumerate(self._scopes) if scope.variable and scope.variable in words]
        return max(levels, default=0)

    def _name(self, node: Node, index: Index, value: str, level: int) -> str:
        name = self._fresh(_local_name(node))
        scope = self._scopes[level]
        scope.items.append(f"const {node.kind} {name} = {value};")
        scope.named[(node, index)] = name
        return name

    def _fresh(self, base: str) -> str:
        names = (base, *(f"{base}{number}" for number in range(2, 10_000)))
        name = next(name for name in names if name not in self._used)
        self._used.add(name)
        return name


def _local_name(node: Node) -> str:
    if node.op == "div" and node.args[0].op in ("sum", "broadcast") and node.args[1].op == "number":
        source = node.args[0]
        while source.op == "broadcast":
            source = source.args[0]
        if source.op == "sum":
            return "variance" if _is_square(source.args[0]) else "mean"
    return _LOCAL_NAMES.get(node.op, "value" if node.kind == "float" else "flag" if node.kind == "bool" else "number")


def _is_square(node: Node) -> bool:
    return node.op == "mul" and node.args[0] is node.args[1]


def _accumulate(op: str, total: str, texts: list[ExpressionText]) -> str:
    if op in ("amax", "amin"):
        return f"{total} = std::{'fmax' if op == 'amax' else 'fmin'}({total}, {texts[0].text});"
    if op == "prod":
        return f"{total} *= {texts[0].text};"
    if op == "matmul":
        return f"{total} += {wrapped(texts[0], 6)} * {wrapped(texts[1], 7)};"
    return f"{total} += {texts[0].text};"


def _iota(node: Node, value: str) -> ExpressionText:
    start, step = node.attrs
    text = value if step == 1 else f"{value} * {step}" if value.isalnum() else f"({value}) * {step}"
    return ExpressionText(text, ATOM if text.isalnum() else 5) if start == 0 else ExpressionText(f"{text} + {start}", 5)
