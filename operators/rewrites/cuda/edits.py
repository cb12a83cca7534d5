"""Edits of a CUDA C++ source by spans: the rest of the text stays as written, comments and tunables included."""

import ast
from collections.abc import Iterable, Sequence

from operators.rewrites.cuda.loops import CudaLoop
from operators.rewrites.cuda.source import CudaModule, offset_of
from operators.rewrites.library import TUNING, KernelRewrite, edited, unused_name

_HEAD = {"preproc_def", "preproc_function_def", "preproc_include", "preproc_call", "type_definition", "comment"}


class CudaEdits:
    """Edits of one module, all given by places of its original text."""

    def __init__(self, module: CudaModule) -> None:
        self.module = module
        self._edits: list[tuple[int, int, str]] = []
        self._added: set[str] = set()

    def fresh(self, name: str) -> str:
        """Return the name, with a number behind it if the source uses it already."""
        chosen = unused_name(name, self.module.words() | self._added)
        self._added.add(chosen)
        return chosen

    def insert(self, at: int, text: str) -> None:
        """Insert a text at an offset of the CUDA C++."""
        self._edits.append((at + self.module.start, at + self.module.start, text))

    def insert_lines(self, at: int, lines: Sequence[str]) -> None:
        """Insert lines in front of the statement at an offset, indented like it."""
        self.insert(at, "".join(f"{line}\n{self.module.indent(at)}" for line in lines))

    def append_lines(self, at: int, lines: Sequence[str]) -> None:
        """Insert lines behind the statement that ends at an offset, indented like it."""
        self.insert(at, "".join(f"\n{self.module.indent(at)}{line}" for line in lines))

    def replace(self, loop: CudaLoop, lines: Sequence[str]) -> None:
        """Replace a loop and the pragmas in front of it by lines, indented like it."""
        text = ("\n" + self.module.indent(loop.first)).join(lines).rstrip()
        self._edits.append((loop.first + self.module.start, loop.node.end_byte + self.module.start, text))

    def add_definition(self, text: str) -> None:
        """Put a definition in front of the first function, behind macros and includes, unless it is there."""
        if text in self.module.cpp:
            return
        children = (child for child in self.module.root.named_children if child.type not in _HEAD)
        first = next((child.start_byte for child in children), len(self.module.cpp))
        at = self.module.cpp.rfind("\n", 0, first) + 1
        self._edits.append((at + self.module.start, at + self.module.start, f"{text}\n"))

    def add_tunable(self, name: str, default: int, choices: Iterable[int], *rules: str) -> str:
        """Declare a tunable, handed to the kernels as a macro of the same name; return the name.

        Each rule is a constraint in which `{}` stands for the name.
        """
        name = self.fresh(name)
        lines = [f"{name} = {default}  # tune: {' '.join(map(str, choices))}"]
        lines += [f"# tune-where: {rule.format(name)}" for rule in rules]
        at = self._head_end()
        self._edits.append((at, at, "".join(f"{line}\n" for line in lines)))
        last = self.module.call.keywords[-1].value if self.module.call.keywords else self.module.call.args[0]
        end, column = offset_of(self.module.text, last.end_lineno or 0, last.end_col_offset or 0), last.col_offset
        own_line = self.module.call.keywords and last.lineno != self.module.call.lineno
        gap = f",\n{' ' * (column - len(self.module.call.keywords[-1].arg or '') - 1)}" if own_line else ", "
        self._edits.append((end, end, f"{gap}{name}={name}"))
        return name

    def result(self) -> str:
        """Return the edited text. Raises `ValueError` if two edits overlap."""
        return edited(self.module.text, self._edits)

    def _head_end(self) -> int:
        """Return the offset behind the last line on tuning in front of the kernels, else behind the imports."""
        lines = self.module.text[: self.module.start].splitlines(keepends=True)
        tuned = [number for number, line in enumerate(lines) if line[-1] == "\n" and TUNING.search(line)]
        if tuned:
            return sum(map(len, lines[: tuned[-1] + 1]))
        head = [stmt for stmt in self.module.tree.body if isinstance(stmt, ast.Import | ast.ImportFrom)]
        return offset_of(self.module.text, max(stmt.end_lineno or 0 for stmt in head) + 1, 0) if head else 0


class CudaRewrite(KernelRewrite):
    """A rewrite of CUDA C++ kernels."""

    edits = CudaEdits


def unrolled(module: CudaModule, loop: CudaLoop, turn: str, turns: str, body: Sequence[str]) -> list[str]:
    """Return a loop by turns whose number the compiler knows, so that arrays indexed by them stay in registers."""
    start, bound, step = (module.written(part) for part in (loop.start, loop.bound, loop.step))
    return [
        "#pragma unroll",
        f"for (int {turn} = 0; {turn} < {turns}; ++{turn}) {{",
        f"    const {loop.kind} {loop.counter} = {start} + {turn} * ({step});",
        f"    if ({loop.counter} < {bound}) {{",
        *indented(indented(body)),
        "    }",
        "}",
    ]


def indented(lines: Iterable[str]) -> list[str]:
    """Return the lines, one level further in."""
    return [f"    {line}" if line and not line.startswith("#define") else line for line in lines]
