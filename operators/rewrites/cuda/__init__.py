"""Source transformations of CUDA C++ kernels."""

from operators.rewrites.cuda.prefetch_tile import PrefetchTile
from operators.rewrites.cuda.register_row import RegisterRow
from operators.rewrites.cuda.restrict import CudaRestrict
from operators.rewrites.cuda.source import CudaModule, UnreadableCuda
from operators.rewrites.cuda.vector_load import VectorLoad
from operators.rewrites.cuda.vector_tile import VectorTile
from operators.rewrites.library import RewriteLibrary

CUDA_REWRITES = RewriteLibrary(
    (VectorLoad(), RegisterRow(), VectorTile(), PrefetchTile(), CudaRestrict()),
    read=CudaModule.parse,
    write=str,
    unreadable=(UnreadableCuda, RecursionError),
)
