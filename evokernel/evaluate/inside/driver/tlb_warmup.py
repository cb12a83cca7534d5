"""Reads a word of every page of some memory, on every multiprocessor, so that later kernels find its addresses cached.

After a change of contexts the GPU looks up every page again, which costs the first kernels about a microsecond.
"""

from .kernel_parameters import POINTER, Parameter
from .loaded_kernel import LoadedKernel, LoadedModule, Shape

PAGE_BYTES = 2 << 20  # of memory that processes share
_THREADS = 256
_PTX = b"""\
.version 7.0
.target sm_70
.address_size 64
.visible .entry touch(.param .u64 address, .param .u64 size, .param .u64 step, .param .u64 sink)
{
    .reg .pred %p;
    .reg .u32 %seen, %word, %lane, %lanes;
    .reg .u64 %at, %end, %from, %stride, %wide;
    ld.param.u64 %from, [address];
    ld.param.u64 %end, [size];
    add.u64 %end, %end, %from;
    ld.param.u64 %stride, [step];
    mov.u32 %lane, %tid.x;
    mov.u32 %lanes, %ntid.x;
    mov.u32 %seen, 0;
    cvt.u64.u32 %wide, %lane;
    mad.lo.u64 %at, %wide, %stride, %from;
    cvt.u64.u32 %wide, %lanes;
    mul.lo.u64 %stride, %stride, %wide;
again:
    setp.ge.u64 %p, %at, %end;
    @%p bra over;
    ld.volatile.global.u32 %word, [%at];
    xor.b32 %seen, %seen, %word;
    add.u64 %at, %at, %stride;
    bra again;
over:
    setp.ne.u32 %p, %seen, 2654435769;
    @%p bra end;
    ld.param.u64 %at, [sink];
    st.global.u32 [%at], %seen;
end:
    ret;
}
\0"""


class TlbWarmup:
    """The kernel, loaded into the current context. `sink` is the address of some memory of that context."""

    def __init__(self, *, multiprocessors: int, sink: int) -> None:
        self._kernel = LoadedKernel(LoadedModule(_PTX), "touch", 0)
        self._shape = Shape((multiprocessors, 1, 1), (_THREADS, 1, 1), 1, 0, False, False)
        self._sink = sink

    def queue(self, stream: int, address: int, *, size_bytes: int) -> None:
        """Queue the reading of a word of each page. Raises `CudaLaunchError`."""
        numbers = (Parameter("u64", size_bytes), Parameter("u64", PAGE_BYTES), Parameter(POINTER, self._sink))
        self._kernel.launch(self._shape, [Parameter(POINTER, address), *numbers], stream)
