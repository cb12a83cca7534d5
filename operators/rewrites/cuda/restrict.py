"""`restrict`: the compiler learns that the pointers of a kernel lead to different tensors."""

import re

from operators.rewrites.cuda.edits import CudaEdits
from operators.rewrites.cuda.source import CudaKernel, CudaModule, CudaSite, apart


class CudaRestrict:
    """`__restrict__` on every pointer of a kernel, so that inputs may be read ahead of writes and through the cache.

    Legal where each launch passes a different tensor for each pointer: arguments of `run` or new tensors, no views.
    """

    name = "restrict"

    def sites(self, module: CudaModule) -> list[CudaSite]:
        """Return one site per kernel."""
        return [
            CudaSite(kernel.name, (kernel.name,))
            for kernel in module.kernels.values()
            if _open(module, kernel) and apart(module, kernel)
        ]

    def apply(self, module: CudaModule, site: CudaSite) -> str:
        """Return the source with the promise."""
        edits = CudaEdits(module)
        for at in _open(module, module.kernels[str(site.detail[0])]):
            edits.insert(at, " __restrict__ ")
        return re.sub(r" __restrict__ +", " __restrict__ ", edits.result())


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
