"""`hint_alignment`: the compiler learns proved facts of a block of indices: contiguous, a multiple of its size."""

import ast
from collections.abc import Iterator

from operators.rewrites.triton.analysis import block_offset, unwrap
from operators.rewrites.triton.source import TritonKernel, TritonModule
from operators.rewrites.triton.span_edits import SpanEdits, TritonRewrite


class HintAlignment(TritonRewrite):
    """Hint `tl.max_contiguous(tl.multiple_of(offset, BLOCK), BLOCK)`, which allows the widest loads."""

    name = "hint_alignment"

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, tuple[ast.Assign, str]]]:
        """Yield the statements that name `multiple of BLOCK + tl.arange(0, BLOCK)` and have no hint."""
        for number, (stmt, block) in enumerate(_offsets(module, kernel)):
            yield f"{kernel.name} {ast.unparse(stmt.targets[0])} {number}", (stmt, block)

    def edit(self, edits: SpanEdits, kernel: TritonKernel, found: tuple[ast.Assign, str]) -> None:
        """Give the offset both hints."""
        stmt, block = found
        edits.replace(
            stmt.value, f"tl.max_contiguous(tl.multiple_of({edits.module.segment(stmt.value)}, {block}), {block})"
        )


def _offsets(module: TritonModule, kernel: TritonKernel) -> list[tuple[ast.Assign, str]]:
    found = []
    for stmt in ast.walk(kernel.node):
        if isinstance(stmt, ast.Assign) and isinstance(stmt.value, ast.BinOp) and unwrap(stmt.value) is stmt.value:
            offset = block_offset(module, stmt, stmt.value)
            if offset is not None and offset[0] is not None:
                found.append((stmt, offset[1]))
    return sorted(found, key=lambda one: one[0].lineno)
