"""The guide for authors of a kernel in the language `cuda`: the signature of `run` and the contract around it."""

from collections.abc import Sequence

from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.gpu.triton_guide import ALIGNMENT_BYTES, describe_argument, entry_signature
from evokernel.languages.guide_text import arguments_of, row_major
from evokernel.task import Task

_NAMED = 20
"""Most names of further headers in the guide."""
_CONTRACT = """\
Write one Python module with CUDA C++ in a string, which NVRTC compiles. It must define exactly this entry point, which
launches the kernels:

    {entry}

Arguments, in this order:
{arguments}

    from evokernel.cuda import Module

    THREADS = 256  # tune: 64 128 256 512

    kernels = Module(r\"\"\"
    extern "C" __global__ void __launch_bounds__(THREADS) scale(const float* x, float* y, int n, float factor) {{
        int i = blockIdx.x * THREADS + threadIdx.x;
        if (i < n) y[i] = factor * x[i];
    }}
    \"\"\", THREADS=THREADS)

    def run(x, n, y):
        kernels.scale[(-(-n // THREADS),), (THREADS,)](x, y, n, float(2))

Contract:
- Tensors are torch tensors on the GPU, {layout}; their first byte is aligned to {alignment} bytes, and
  no two of them overlap. Scalars are Python numbers, not tensors.
- Inputs are read-only. Outputs are allocated already and hold garbage: write every element, read none before you wrote
  it. `run` returns nothing.
- The sizes differ from call to call and need not be multiples of anything: mask every remainder. Never read or write
  outside of a tensor. Offsets into large tensors need 64 bits.
- Results must have the precision of sums in fp32: accumulate in float and convert once, at the end{tf32}.
- Module(source, options=("--use_fast_math",), NAME=value, ...) hands each NAME over as a macro. Kernels are
  `extern "C" __global__` and are launched as kernels.name[grid, block](...), with dynamic shared memory as
  kernels.name[grid, block, bytes](...), in clusters of so many blocks along x as
  kernels.name[grid, block, bytes, cluster](...); grid and block are numbers or tuples of up to three. More than 48 KiB
  of dynamic shared memory needs nothing else.
- Parameters are pointers (a tensor or None), integers (an int) and floats (a float: write float(alpha), an int would be
  passed as an integer). No structs.
- `run` is plain host code: compute the grid, launch kernels, return. It is run without a GPU to see what it launches,
  so it must launch the same for the same shapes and scalars, whatever the tensors hold, and must not wait for the GPU
  (no .item(), no .cpu(), no synchronize, no streams) or print. It may make views of its arguments, allocate scratch
  with torch.empty(..., device=x.device), and use zero_, fill_ and copy_. Nothing else of torch: the work is done in
  CUDA. Nothing may be kept between calls, in __device__ variables neither.
- When it is timed, each call gets other copies of its tensors, in all more than the second-level cache holds: inputs
  come from main memory. Calls are replayed from a graph: one more launch costs about the device's `graph launch`.
- In Python import only Module from evokernel.cuda (in exactly this way), torch and math. In CUDA C++ include only the
  device headers of CUDA (cuda_fp16.h, cuda_bf16.h, cuda_fp8.h, cuda_pipeline.h){headers}{further}; inline PTX \
always works.
  There is no standard library, no INFINITY (__int_as_float(0x7f800000) is it), no printf, no malloc, and no kernel
  launches another.
- The device: compute capability {capability}, compiled for {target}; {multiprocessors} multiprocessors, {shared} bytes
  of shared memory for one block, 65536 registers per multiprocessor and per block at the most.

Tunables are ordinary lines of Python at the top level, with a comment; the search tries their values:
    BLOCK_M = 64  # tune: 32 64 128
and a constraint between them, if one is needed, is a line of its own (integers, + - * // %, comparisons, and, or):
    # tune-where: BLOCK_M * BLOCK_K <= 16384

A part that other kernels could take over, such as loading a tile, may stand between two lines `# region: NAME` and
`# endregion`, in CUDA C++ `// region: NAME` and `// endregion`, with all that only it needs; they do not nest. Keep
those that a kernel has.
"""


def guide(task: Task, *, device: DeviceLimits, target: str, headers: bool, further: Sequence[str] = ()) -> str:
    """Return the guide for authors of kernels for a task.

    `headers` says whether those of CUDA are there; `further` are files and folders of others that can be included.
    """
    named = ", ".join(further[:_NAMED]) + (", ..." if len(further) > _NAMED else "")
    return _CONTRACT.format(
        entry=entry_signature(task.signature),
        arguments=arguments_of(task.signature, describe_argument),
        layout=row_major(task.signature),
        alignment=ALIGNMENT_BYTES,
        tf32="" if task.precision.allow_tf32 else "; no TF32 where inputs are fp32",
        capability=f"{device.capability // 10}.{device.capability % 10}",
        target=target,
        headers="" if headers else " - which are missing here, so include none",
        further=f"\n  and what begins with {named}" if further else "",
        multiprocessors=device.multiprocessors,
        shared=device.shared_bytes,
    )
