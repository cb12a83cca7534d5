"""`hint_alignment`: the compiler learns proved facts of a block of indices: contiguous, a multiple of its size."""

import ast

from operators.rewrites.triton.analysis import block_offset, unwrap
from operators.rewrites.triton.source import TritonKernel, TritonModule, TritonSite
from operators.rewrites.triton.span_edits import SpanEdits


class HintAlignment:
    """Hint `tl.max_contiguous(tl.multiple_of(offset, BLOCK), BLOCK)`, which allows the widest loads."""

    name = "hint_alignment"

    def sites(self, module: TritonModule) -> list[TritonSite]:
        """Return one site per statement that names `multiple of BLOCK + tl.arange(0, BLOCK)` and has no hint."""
        return [
            TritonSite(f"{kernel.name} {ast.unparse(stmt.targets[0])} {number}", (kernel.name, number))
            for kernel in module.kernels.values()
            for number, (stmt, _) in enumerate(_offsets(module, kernel))
        ]

    def apply(self, module: TritonModule, site: TritonSite) -> str:
        """Return the offset with both hints."""
        stmt, block = _offsets(module, module.kernels[str(site.detail[0])])[int(site.detail[1])]
        edits = SpanEdits(module)
        edits.replace(stmt.value, f"tl.max_contiguous(tl.multiple_of({module.segment(stmt.value)}, {block}), {block})")
        return edits.result()


def _offsets(module: TritonModule, kernel: TritonKernel) -> list[tuple[ast.Assign, str]]:
    found = []
    for stmt in ast.walk(kernel.node):
        if isinstance(stmt, ast.Assign) and isinstance(stmt.value, ast.BinOp) and unwrap(stmt.value) is stmt.value:
            offset = block_offset(module, stmt, stmt.value)
            if offset is not None and offset[0] is not None:
                found.append((stmt, offset[1]))
    return sorted(found, key=lambda one: one[0].lineno)
