"""`restrict`: the compiler learns that the pointers of a kernel lead to different tensors."""

from collections.abc import Iterator

from operators.rewrites.cuda.edits import CudaEdits, CudaRewrite
from operators.rewrites.cuda.source import CudaKernel, CudaModule, apart


class CudaRestrict(CudaRewrite):
    """`__restrict__` on every pointer of a kernel, so that inputs may be read ahead of writes and through the cache.

    Legal where each launch passes a different tensor for each pointer: arguments of `run` or new tensors, no views.
    """

    name = "restrict"

    def places(self, module: CudaModule, kernel: CudaKernel) -> Iterator[tuple[str, list[int]]]:
        """Yield one place per kernel, with all that the promise is written at."""
        if (found := _open(module, kernel)) and apart(module, kernel):
            yield kernel.name, found

    def edit(self, edits: CudaEdits, kernel: CudaKernel, found: list[int]) -> None:
        """Write the promise."""
        for at in found:
            edits.insert(at, " __restrict__" if edits.module.cpp[at : at + 1] == " " else " __restrict__ ")


def _open(module: CudaModule, kernel: CudaKernel) -> list[int]:
    """Return the offsets behind the `*` of the parameters that do not promise it yet."""
    return [
        star.end_byte
        for pointer in kernel.pointers.values()
        if pointer.place >= 0 and "__restrict__" not in module.written(pointer.node)
        for declarator in pointer.node.children_by_field_name("declarator")
        for star in declarator.children
        if star.type == "*"
    ]
