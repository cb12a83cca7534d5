"""Writer of plain C++ from a graph: one loop nest for each kept value, every subscript spelled out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from evokernel.scaffold.loops.expression_text import ATOM, ExpressionText, combine, counted_text, number_text, wrapped
from evokernel.scaffold.loops.index_arithmetic import (
    Digits,
    Index,
    digit,
    indexed,
    loop_extents,
    loop_index,
    reduced_shape,
    resolve,
    subscript,
    summands,
    value_of,
    window_place,
)
from evokernel.scaffold.loops.loop_order import LANES, lane_loops, over_lanes, runs_along, takes_lanes
from evokernel.scaffold.loops.operation_graph import (
    PLACES,
    REDUCTIONS,
    SCANS,
    STORES,
    TRIANGULAR,
    Node,
    in_order,
    kept_values,
)
from evokernel.scaffold.loops.recurrence_steps import step_lines
from evokernel.scaffold.loops.selection_text import accumulate, before, order_lines
from evokernel.scaffold.loops.step_loops import Statement, StepBuffer, StepLoopFinder, made_by, tokens_of
from evokernel.scaffold.operation.sizes import SymbolicSizes

_LOOPS = ("i", "j", "k", "l", "m", "n", "p", "q", "u", "v")
_STARTS = {
    **dict.fromkeys(("sum", "matmul", "cumsum"), ("0.0f", "0")),
    **dict.fromkeys(("prod", "cumprod"), ("1.0f", "1")),
    **dict.fromkeys(("amax", "argmax", "cummax", "cumargmax", "logcumsumexp"), ("-INFINITY", "INT64_MIN")),
    **dict.fromkeys(("amin", "argmin", "cummin", "cumargmin"), ("INFINITY", "INT64_MAX")),
}
"""First value of a total: a float, and an integer."""
_TOTALS = {
    **dict.fromkeys(("sum", "cumsum"), "sum"),
    "matmul": "acc",
    **dict.fromkeys(("prod", "cumprod"), "product"),
    **dict.fromkeys(("amax", "argmax", "cummax", "cumargmax"), "top"),
    **dict.fromkeys(("amin", "argmin", "cummin", "cumargmin"), "low"),
    "logcumsumexp": "log_sum",
}
_ORDERING = ("row", "order", "before")
_STEPS = ("step", "step2", "step3")
"""Variables of loops over equal steps, the innermost one first."""
_SELECTING = PLACES | {"cummax", "cummin"}
"""Operations that compare each element with the best one so far."""


class CppWriter:
    """Writer of the body of `run`.

    Args:
        outputs: values to compute, by name of their buffer.
        sizes: meaning of the sizes in the graph.
        arguments: names of the inputs, in the order of the trace.
        taken: all other names in the function.
        wide_sums: add up in double.
    """

    def __init__(
        self,
        outputs: Mapping[str, Node],
        sizes: SymbolicSizes,
        *,
        arguments: Sequence[str],
        taken: Sequence[str],
        wide_sums: bool = False,
    ) -> None:
        self._sizes = sizes
        self._wide_sums = wide_sums
        self._buffers = {f"input {place}": name for place, name in enumerate(arguments)}
        self._used = {*arguments, *taken}
        self._loops = [name for name in (*_LOOPS, *(f"i{n}" for n in range(9))) if name not in self._used]
        self._used.update(self._loops)
        own = [*_TOTALS.values(), "value", "place", "lanes", "lane", *_ORDERING, *_STEPS]
        names = {name: self._fresh(name) for name in dict.fromkeys(own)}
        self._totals = {op: names[name] for op, name in _TOTALS.items()}
        self._value, self._place = names["value"], names["place"]
        self._lanes, self._lane = names["lanes"], names["lane"]
        self._ordering, self._steps = ([names[each] for each in group] for group in (_ORDERING, _STEPS))
        self._outputs = {name: self._as_it_lies(node) for name, node in outputs.items()}
        self._kept: dict[Node, str] = {}
        self._own: dict[str, StepBuffer] = {}
        self._joined: dict[Node, str] = {}
        self._items: list[Statement] = []

    def body(self) -> list[str]:
        """Return the lines of the body; steps that repeat are one loop."""
        order = in_order((*self._outputs.values(),))
        for node in kept_values(self._outputs.values()):
            if node.op == "part":
                for whole in (each for each in order if each.op == "joined" and node in each.args):
                    self._add(self._part(node, whole))
                continue
            name = self._joined.get(node) or self._output_or_own(node)
            if node.op != "joined":
                self._add(self._nest(node, name), made=name)
            self._kept[node] = name
        for name, node in self._outputs.items():
            self._add([] if self._kept.get(node) == name else self._nest(node, name))
        lines, declared = list[str](), set[str]()
        for item in StepLoopFinder(self._own, variables=self._steps).rolled(self._items):
            for name in made_by(item):
                lines += self._own[name].declarations(name) if name not in declared else []
                declared.add(name)
            lines += item.lines()
        return ["    " + line for line in lines]

    def _add(self, lines: Sequence[str], *, made: str = "") -> None:
        made = made if made in self._own else ""
        if lines or made:
            self._items.append(Statement(tokens_of("".join(line + "\n" for line in lines), self._own), made))

    def _output_or_own(self, node: Node) -> str:
        """Return the name of the output that a value is, or of a new buffer for it."""
        name = next((name for name, output in self._outputs.items() if output is node), "")
        return name or self._buffer("t", "char" if node.kind == "bool" else node.kind, node.shape)

    def _buffer(self, base: str, kind: str, shape: Sequence[int]) -> str:
        name = self._fresh(base)
        self._own[name] = StepBuffer(kind, tokens_of(self._sizes.product(shape), ()))
        return name

    def _part(self, node: Node, whole: Node) -> list[str]:
        """Return the loops that write one of the tensors that are joined to where it belongs."""
        if whole not in self._joined:
            self._joined[whole] = self._output_or_own(whole)
            self._add([], made=self._joined[whole])
        extents = loop_extents(node.shape, self._sizes)
        index = loop_index(node.shape, self._loops[: len(extents)], self._sizes)
        _, place = resolve(replace(node, op="slice", args=(whole,)), index, self._sizes)
        target = f"{self._joined[whole]}[{subscript(whole.shape, place, self._sizes)}]"
        step = [f"{target} = {self._text(node.args[0], index).text};"]
        return self._around(self._loops[: len(extents)], extents, step)

    def _as_it_lies(self, node: Node) -> Node:
        """Return the value that an output equals in memory: another shape alone needs no loops."""
        index = loop_index(node.shape, self._loops, self._sizes)
        source, place = resolve(node, index, self._sizes)
        same = subscript(source.shape, place, self._sizes) == subscript(node.shape, index, self._sizes)
        return source if same and prod(source.shape) == prod(node.shape) else node

    def _nest(self, node: Node, buffer: str) -> list[str]:
        """Return the loops over the elements of a value; a kept value or a view is copied."""
        makers = {
            **dict.fromkeys(SCANS, self._scan),
            **dict.fromkeys(STORES, self._stores),
            **dict.fromkeys(TRIANGULAR, self._triangular),
            **dict.fromkeys(REDUCTIONS, self._reduction),
            "order": self._order,
            "recurrence": self._recurrence,
            "table": self._table,
        }
        return (self._copied if node in self._kept else makers.get(node.op, self._copied))(node, buffer)

    def _table(self, node: Node, buffer: str) -> list[str]:
        return [f"{buffer}[{place}] = {self._text(each, ()).text};" for place, each in enumerate(node.args)]

    def _reduction(self, node: Node, buffer: str) -> list[str]:
        """Return the loops that reduce; the innermost one goes through memory element by element where it can."""
        extents = loop_extents(node.shape, self._sizes)
        outer = self._loops[: len(extents)]
        index = loop_index(node.shape, outer, self._sizes)
        place = f"{buffer}[{subscript(node.shape, index, self._sizes)}]"
        reduced = loop_extents(reduced_shape(node), self._sizes)
        inner = self._loops[len(outer) : len(outer) + len(reduced)]
        across = loop_index(reduced_shape(node), inner, self._sizes)
        texts = [self._text(*use) for use in summands(node, index, across)]
        if inner and outer and node.op not in PLACES and runs_along([each.text for each in texts], outer[-1]):
            kind, first = self._start(node)
            total, copied = place, list[str]()
            if {kind, node.kind} != {"float"}:  # the buffer may be too narrow for a total
                row = self._buffer(self._totals[node.op], kind, extents[-1:])
                self._add([], made=row)
                total = f"{row}[{outer[-1]}]"
                copied = self._around(outer[-1:], extents[-1:], [f"{place} = {total};"])
            update = accumulate(node.op, total, texts, whole=kind == "int64_t")
            rows = self._around(outer[-1:], extents[-1:], [f"{total} = {first};"])
            rows += self._around([*inner, outer[-1]], [*reduced, extents[-1]], [update])
            return self._around(outer[:-1], extents[:-1], [*rows, *copied])
        begin, step, found = self._total(node, texts, value_of(across[0], self._sizes) if across else "0")
        if not (inner and takes_lanes(node, texts, inner[-1], reduced[-1])):
            return self._enclosed(outer, extents, [*begin, *self._around(inner, reduced, step), f"{place} = {found};"])
        ahead = loop_index(reduced_shape(node), [*inner[:-1], f"({inner[-1]} + {self._lane})"], self._sizes)
        total = f"{self._lanes}[{self._lane}]"
        update = accumulate(node.op, total, [self._text(*use) for use in summands(node, index, ahead)], whole=False)
        lanes = lane_loops(inner[-1], self._sizes.text(reduced[-1]), lane=self._lane, step=update, rest=step)
        loops = self._around(inner[:-1], reduced[:-1], lanes)
        kind, first = self._start(node)
        begin.append(f"{kind} {self._lanes}[{LANES}]{' = {}' * (first[0] == '0')};")
        begin += over_lanes(self._lane, f"{total} = {first};") if first[0] != "0" else []
        loops += over_lanes(self._lane, accumulate(node.op, found, [ExpressionText(total, ATOM)], whole=False))
        return self._enclosed(outer, extents, [*begin, *loops, f"{place} = {found};"])

    def _scan(self, node: Node, buffer: str) -> list[str]:
        """Return the loops of a running sum or product; those along it are the inner ones."""
        along = node.attrs[0]
        assert isinstance(along, int)
        shape = (*node.shape[:along], *node.shape[along + 1 :], node.shape[along])
        outer, inner = loop_extents(shape[:-1], self._sizes), loop_extents(shape[-1:], self._sizes)
        variables, count = self._loops[: len(outer) + len(inner)], len(outer)
        *others, last = loop_index(shape, variables, self._sizes)
        index = (*others[:along], last, *others[along:])
        begin, step, found = self._total(node, [self._text(node.args[0], index)], value_of(last, self._sizes) or "0")
        step.append(f"{buffer}[{subscript(node.shape, index, self._sizes)}] = {found};")
        return self._enclosed(variables[:count], outer, [*begin, *self._around(variables[count:], inner, step)])

    def _total(self, node: Node, texts: list[ExpressionText], here: str) -> tuple[list[str], list[str], str]:
        """Return the lines before the loops over what is put together, those inside them, and the name of the total.

        `here` is the place of an element along them.
        """
        total, (kind, start) = self._totals[node.op], self._start(node)
        begin, whole = [f"{kind} {total} = {start};"], node.args[0].kind != "float"
        if node.op not in _SELECTING | {"logcumsumexp"}:
            return begin, [accumulate(node.op, total, texts, whole=whole)], total
        step = [f"const {kind} {self._value} = {texts[0].text};"]
        if node.op == "logcumsumexp":
            low, high = (f"std::{name}({total}, {self._value})" for name in ("fmin", "fmax"))
            rest = f"std::log1p(std::exp(-std::fabs({total} - {self._value})))"
            return begin, [*step, f"{total} = {high} + (std::isinf({low}) ? 0.0f : {rest});"], total
        found = self._place if node.op in PLACES else total
        if node.op in PLACES:
            begin.append(f"int64_t {self._place} = 0;")
        best = [f"{total} = {self._value};", *[f"{self._place} = {here};"] * (node.op in PLACES)]
        step += [f"if ({before(node, self._value, total)}) {{", *("    " + line for line in best), "}"]
        return begin, step, found

    def _stores(self, node: Node, buffer: str) -> list[str]:
        """Return the loops that copy what is there before, if it lies elsewhere, and those over what is stored."""
        base, values, *indices = node.args
        extents = loop_extents(values.shape, self._sizes)
        variables = self._loops[: len(extents)]
        index = loop_index(values.shape, variables, self._sizes)
        place = f"{buffer}[{subscript(node.shape, self._named(node, indices, index), self._sizes)}]"
        op, text = node.op.removeprefix("index_"), self._text(values, index)
        step = f"{place} = {text.text};" if op == "put" else accumulate(op, place, [text], whole=node.kind != "float")
        there = base.op == "input" and self._buffers[str(base.attrs[0])] == buffer
        return [*([] if there else self._copied(base, buffer)), *self._around(variables, extents, [step])]

    def _order(self, node: Node, buffer: str) -> list[str]:
        """Return the loops over rows that are put in order; NaN is the largest number."""
        source = node.args[0]
        outer, along = (loop_extents(shape, self._sizes) for shape in (source.shape[:-1], source.shape[-1:]))
        variables, inner = self._loops[: len(outer)], self._loops[len(outer) : len(outer) + len(along)]
        index = loop_index(source.shape, [*variables, *inner], self._sizes)
        count, length = self._sizes.text(node.shape[-1]), self._sizes.text(source.shape[-1])
        declared, sort = order_lines(node, self._ordering, length=length, count=count)
        row, order, _ = self._ordering
        here, place = value_of(index[-1], self._sizes) or "0", subscript(node.shape, (*index[:-1], ()), self._sizes)
        fill = [f"{row}[{here}] = {self._text(source, index).text};", f"{order}[{here}] = {here};"]
        copy = f"std::copy({order}.begin(), {order}.begin() + {count}, &{buffer}[{place}]);"
        lines = [*self._around(inner, along, fill), sort, copy]
        return self._enclosed((), (), [*declared, *self._around(variables, outer, lines)])

    def _recurrence(self, node: Node, buffer: str) -> list[str]:
        """Return the loops over steps, rows and hidden elements of a recurrent layer: its states are the buffer."""
        gates, weight, bias, start = node.args
        shape = (gates.shape[0], *node.shape[2:])
        outer, inner = loop_extents(shape, self._sizes), loop_extents(shape[2:], self._sizes)
        variables, within = self._loops[: len(outer)], self._loops[len(outer) : len(outer) + len(inner)]
        step, row, here = loop_index(shape, variables, self._sizes)
        (other,) = loop_index(shape[2:], within, self._sizes)
        now = value_of(step, self._sizes)

        def state(time: str, number: int, place: Digits) -> str:
            index = (digit(time, node.shape[0]), digit(str(number), node.shape[1]), row, place)
            return f"{buffer}[{subscript(node.shape, index, self._sizes)}]"

        extents = loop_extents(start.shape, self._sizes)
        at_start = loop_index(start.shape, self._loops[: len(extents)], self._sizes)
        place = subscript(node.shape, ((), *at_start), self._sizes)
        copied = self._around(
            self._loops[: len(extents)], extents, [f"{buffer}[{place}] = {self._text(start, at_start).text};"]
        )
        count, kind = gates.shape[2], "double" if self._wide_sums else "float"
        digits = [digit(str(gate), count) for gate in range(count)]
        own = [f"{name}_" if (name := f"gate{gate}") in self._used else name for gate in range(count)]
        given = [self._text(gates, (step, row, digit, here)).text for digit in digits]
        begins = [self._text(bias, (digit, here)).text for digit in digits]
        lines = [f"{kind} {name} = {begin};" for name, begin in zip(own, begins, strict=True)]
        products = [
            f"{name} += {state(now, 0, other)} * {wrapped(self._text(weight, (digit, here, other)), 7)};"
            for name, digit in zip(own, digits, strict=True)
        ]
        lines += self._around(within, inner, products)
        layer, later = str(node.attrs[0]), f"({now} + 1)"
        lines += step_lines(layer, own, given, [state(now, number, here) for number in range(node.shape[1])])
        ends = ("value", "cell") if layer == "lstm" else ("value",)
        lines += [f"{state(later, number, here)} = {end};" for number, end in enumerate(ends)]
        return [*copied, *self._around(variables, outer, lines)]

    def _triangular(self, node: Node, buffer: str) -> list[str]:
        """Return the loops over the elements of a factor or a solution, whose rows need those before them."""
        extents = loop_extents(node.shape, self._sizes)
        variables, inner = self._loops[: len(extents)], self._loops[len(extents)]
        *batch, row, column = loop_index(node.shape, variables, self._sizes)
        here = digit(inner, node.shape[-2])
        at, to = (value_of(each, self._sizes) or "0" for each in (row, column))

        def made(*place: Digits) -> str:
            return f"{buffer}[{subscript(node.shape, (*batch, *place), self._sizes)}]"

        def factor(*place: Digits) -> str:
            return wrapped(self._text(node.args[0], (*batch, *place)), 7)

        total, kind = self._totals["matmul"], "double" if self._wide_sums else "float"
        if node.op == "cholesky":
            end, product = f"({to} <= {at} ? {to} : 0)", f"{made(row, here)} * {made(column, here)}"
            diagonal = f"{at} == {to} ? std::sqrt({total}) : {total} / {made(column, column)}"
            found = f"{to} > {at} ? 0.0f : {diagonal}"
        else:
            end, product = at, f"{factor(row, here)} * {made(here, column)}"
            found = total if node.attrs[0] else f"{total} / {factor(row, row)}"
        lines = [
            f"{kind} {total} = {self._text(node.args[-1], (*batch, row, column)).text};",
            f"for (int64_t {inner} = 0; {inner} < {end}; ++{inner}) {{",
            f"    {total} -= {product};",
            "}",
            f"{made(row, column)} = {found};",
        ]
        return self._around(variables, extents, lines)

    def _copied(self, node: Node, buffer: str) -> list[str]:
        """Return the loops that write each element."""
        extents = loop_extents(node.shape, self._sizes)
        index = loop_index(node.shape, self._loops[: len(extents)], self._sizes)
        place = f"{buffer}[{subscript(node.shape, index, self._sizes)}]"
        return self._around(self._loops[: len(extents)], extents, [f"{place} = {self._text(node, index).text};"])

    def _named(self, node: Node, indices: Sequence[Node], index: Index) -> Index:
        """Return the index into the first argument that the indices name."""
        first = node.attrs[1]
        assert isinstance(first, int)
        here = index[first : first + len(indices[0].shape)]
        return indexed(node, index, [wrapped(self._text(each, here), ATOM) for each in indices], self._sizes)

    def _start(self, node: Node) -> tuple[str, str]:
        """Return the type of a total and its first value."""
        start, whole = _STARTS[node.op]
        if node.args[0].kind != "float":
            return "int64_t", whole
        wide = self._wide_sums and (node.op == "logcumsumexp" or not start.endswith("INFINITY"))
        return ("double", start.removesuffix("f")) if wide else ("float", start)

    def _enclosed(self, variables: Sequence[str], extents: Sequence[int], lines: list[str]) -> list[str]:
        """Return lines inside loops, or braces where there are none."""
        return self._around(variables, extents, lines) if variables else ["{", *("    " + line for line in lines), "}"]

    def _around(self, variables: Sequence[str], extents: Sequence[int], lines: list[str]) -> list[str]:
        """Return lines inside loops."""
        for variable, extent in zip(reversed(variables), reversed(extents), strict=True):
            head = f"for (int64_t {variable} = 0; {variable} < {self._sizes.text(extent)}; ++{variable}) {{"
            lines = [head, *("    " + line for line in lines), "}"]
        return lines

    def _text(self, node: Node, index: Index) -> ExpressionText:
        """Return an element of a value as C++."""
        node, index = resolve(node, index, self._sizes)
        if node in self._kept or node.op == "input":
            buffer = self._kept.get(node) or self._buffers[str(node.attrs[0])]
            return ExpressionText(f"{buffer}[{subscript(node.shape, index, self._sizes)}]", ATOM)
        if node.op == "index":
            return self._text(node.args[0], self._named(node, node.args[1:], index))
        if node.op == "number":
            return number_text(str(node.attrs[0]))
        if node.op == "iota":
            return counted_text(node, value_of(index[0], self._sizes))
        if node.op == "inside":
            return self._inside(node, index)
        return combine(node, [self._text(arg, index if arg.shape else ()) for arg in node.args])

    def _inside(self, node: Node, index: Index) -> ExpressionText:
        """Return the condition that a place of a window lies in the input."""
        *numbers, extent = node.attrs
        assert isinstance(extent, int)
        row, tap = (value_of(each, self._sizes) for each in index)
        place = window_place(numbers, row, tap, self._sizes)
        step = numbers[0] if numbers[3] else 1
        end = self._sizes.text(extent)
        upper = f"({end if end.isalnum() else f'({end})'}) * {step}" if step != 1 else end
        divides = [f"{place} % {step} == 0"] * (step != 1)
        return ExpressionText(" && ".join([f"{place} >= 0", f"{place} < {upper}", *divides]), 2)

    def _fresh(self, base: str) -> str:
        name = next(name for n in range(1, 10_000) if (name := f"{base}{n}" if n > 1 else base) not in self._used)
        self._used.add(name)
        return name
