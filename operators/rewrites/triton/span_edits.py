"""Edits of a source by spans: the rest of the text stays as written, comments and tunables included."""

import ast
import re
from collections.abc import Callable, Sequence

from evokernel.source.regions import read_regions
from operators.rewrites.library import TUNING, KernelRewrite, edited, unused_name
from operators.rewrites.triton.source import LaunchSite, TritonKernel, TritonModule, end_of, fresh, names_in

Argument = str | Callable[[LaunchSite], str]
"""The argument of a launch for a parameter: the same text everywhere, or one per launch."""
_COMMENT = re.compile(r"#[^\n]*")
_HEAD = (ast.Import, ast.ImportFrom, ast.Expr)


class SpanEdits:
    """Edits of one module, all given by offsets of its original text."""

    def __init__(self, module: TritonModule) -> None:
        self.module = module
        self._edits: list[tuple[int, int, str]] = []
        self._head: list[str] = []
        self._added: list[str] = []

    def replace(self, node: ast.expr | ast.arg | ast.keyword, text: str) -> None:
        """Replace an expression by a text."""
        self._edits.append((*self.module.span(node), text))

    def insert(self, position: int, text: str) -> None:
        """Insert a text at an offset."""
        self._edits.append((position, position, text))

    def insert_before(self, stmt: ast.stmt, lines: Sequence[str]) -> None:
        """Insert lines in front of a statement, indented like it."""
        self.insert(self.module.starts[stmt.lineno - 1], self._block(stmt, lines))

    def insert_after(self, stmt: ast.stmt, lines: Sequence[str]) -> None:
        """Insert lines behind a statement, indented like it."""
        position = self.module.starts[end_of(stmt)[0]]
        if position > len(self.module.text):  # the last line has no line end
            self.insert(len(self.module.text), "\n" + self._block(stmt, lines))
        else:
            self.insert(position, self._block(stmt, lines))

    def replace_lines(self, first: ast.stmt, last: ast.stmt, lines: Sequence[str]) -> None:
        """Replace a run of statements by lines, indented like the first statement; without lines drop it."""
        start, end = self.module.starts[first.lineno - 1], self.module.starts[end_of(last)[0]]
        self._edits.append((start, min(end, len(self.module.text)), self._block(first, lines)))

    def add_keyword(self, call: ast.Call, name: str, value: str) -> None:
        """Pass one more keyword argument in a call."""
        arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        text = f"{name}={value}"
        if arguments:
            end = max(self.module.span(argument)[1] for argument in arguments)
            limit = self.module.span(call)[1] - 1
            self.insert(_argument_end(self.module.text, end, limit), f", {text}")
        else:
            self.insert(self.module.span(call)[1] - 1, text)

    def add_constant(self, name: str, default: int, choices: Sequence[int]) -> str:
        """Declare a tunable behind the present ones; return its name, which is new in the source."""
        name = fresh(self.module, name, *self._added)
        self._added.append(name)
        self._head.append(f"{name} = {default}  # tune: {' '.join(map(str, choices))}")
        return name

    def add_where(self, rule: str) -> None:
        """Add a constraint between tunables."""
        self._head.append(f"# tune-where: {rule}")

    def add_parameter(self, kernel: TritonKernel, name: str, *, constexpr: bool, argument: Argument) -> str:
        """Add a parameter to a kernel and its launches; return its name, which is new in the kernel."""
        name = unused_name(name, names_in(kernel.node) | set(kernel.params))
        arguments = kernel.node.args
        plain = [*arguments.posonlyargs, *arguments.args]
        default = " = 0" if arguments.defaults else ""  # Python requires one behind another; every launch passes it
        text = f"{name}{': tl.constexpr' if constexpr else ''}{default}"
        if plain:
            end = self.module.span(arguments.defaults[-1] if arguments.defaults else plain[-1])[1]
            self.insert(end, f", {text}")
        else:
            self.insert(self.module.text.index("(", self.module.offset(kernel.node.lineno, 0)) + 1, text)
        for launch in self.module.launches_of(kernel):
            self.add_keyword(launch.call, name, argument if isinstance(argument, str) else argument(launch))
        return name

    def add_tunable(self, kernel: TritonKernel, name: str, default: int, choices: Sequence[int]) -> str:
        """Declare a tunable and pass it to a kernel as a constexpr of the same name; return the name."""
        name = self.add_constant(name, default, choices)
        return self.add_parameter(kernel, name, constexpr=True, argument=name)

    def result(self) -> str:
        """Return the edited text. Raises `ValueError` if two edits overlap."""
        edits = list(self._edits)
        if self._head:
            end = self._head_end()
            edits.append((end, end, "".join(f"{line}\n" for line in self._head)))
        return edited(self.module.text, edits)

    def _block(self, stmt: ast.stmt, lines: Sequence[str]) -> str:
        return "".join(f"{self.module.indent(stmt)}{line}\n" for line in lines)

    def _head_end(self) -> int:
        """Return the offset behind the last line on tuning, else behind the imports; never inside a region."""
        end = self._tuning_end()
        try:
            inside = (region for region in read_regions(self.module.text) if region.start <= end <= region.end)
            region = next(inside, None)
        except ValueError:
            return end
        return end if region is None else self.module.text.index("\n", region.end) + 1

    def _tuning_end(self) -> int:
        lines = self.module.text.split("\n")
        tuned = [number for number, line in enumerate(lines) if TUNING.search(line)]
        if tuned:
            return self.module.starts[tuned[-1] + 1]
        head = [stmt for stmt in self.module.tree.body if isinstance(stmt, _HEAD)]
        return self.module.starts[max(stmt.end_lineno or 0 for stmt in head)]


class TritonRewrite(KernelRewrite):
    """A rewrite of Triton kernels."""

    edits = SpanEdits


def _argument_end(text: str, end: int, limit: int) -> int:
    """Return the end of a call's last argument with the brackets around it, which `ast` leaves out: `f((a), )`."""
    tail = _COMMENT.sub(lambda match: " " * len(match[0]), text[end:limit])
    return end + tail.rfind(")") + 1
