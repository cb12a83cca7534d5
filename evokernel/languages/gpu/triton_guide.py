"""The guide for authors of a Triton kernel: the signature of `run` and the contract around it."""

from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.guide_text import arguments_of, bytes_of, layout_of, range_of, row_major
from evokernel.task import Role, Scalar, Signature, Task, Tensor

ALIGNMENT_BYTES = 256

_CONTRACT = """\
Write one Python module with Triton kernels. It must define exactly this entry point, which launches them:

    {entry}

Arguments, in this order:
{arguments}

Contract:
- Tensors are torch tensors on the GPU, {layout}; their first byte is aligned to {alignment} bytes, and
  no two of them overlap. Scalars are Python numbers, not tensors.
- Inputs are read-only. Outputs are allocated already and hold garbage: write every element, read none before you wrote
  it. `run` returns nothing.
- The sizes differ from call to call and need not be multiples of anything: mask every remainder. Never read or write
  outside of a tensor.
- Results must have the precision of sums in fp32: accumulate in tl.float32 and convert once, at the end{tf32}.
- Equal inputs must give equal results, bit for bit: no atomic additions of floating-point numbers, whose order varies.
- `run` is plain host code: compute the grid, launch kernels, return. It is run without a GPU, twice for each shape, and
  what it launches is written down and replayed: so it must launch the same for the same shapes and scalars, whatever
  the tensors hold, keep nothing between calls, use nothing random and no addresses, and must not wait for the GPU (no
  .item(), no .cpu(), no synchronize, no streams) or print. It may make views of its arguments, allocate scratch with
  torch.empty(..., device=x.device), which holds garbage at every call, and use zero_, fill_ and copy_ (of one dtype
  and layout) on contiguous memory. Nothing else of torch: the work is done in Triton.
- When it is timed, each call gets other copies of its tensors, in all more than the second-level cache holds: inputs
  come from main memory. Calls are replayed from a graph: one more launch costs about the device's `graph launch`.
- Import only triton, triton.language (and triton.language.extra), torch, math and triton.tools.tensor_descriptor.
  Tensor descriptors work, made on the host (TensorDescriptor.from_tensor) or in the kernel (tl.make_tensor_descriptor).
- No triton.autotune: the search finds the best values of the tunables itself.
- The device: compute capability {capability}, {multiprocessors} multiprocessors, {shared} bytes of shared memory for
  one program (tiles in flight: sizes of the loaded blocks times num_stages), 65536 registers per multiprocessor.
- A launch may also be given maxnreg, num_ctas and launch_pdl; they are kept when it is replayed. With launch_pdl=True a
  kernel may begin before the one ahead of it ends: of triton.language.extra.cuda, gdc_wait() waits for that end, and
  gdc_launch_dependents() lets the next one begin.

Tunables are ordinary lines at the top level, with a comment; the search tries their values. num_warps and num_stages
should be tunables too, passed to the launch:
    BLOCK_M = 64  # tune: 32 64 128
    NUM_WARPS = 4  # tune: 4 8
    kernel[grid](..., BLOCK_M, num_warps=NUM_WARPS)
and a constraint between them, if one is needed, is a line of its own (integers, + - * // %, comparisons, and, or):
    # tune-where: BLOCK_M * BLOCK_K <= 16384
Kernels get them as tl.constexpr parameters.

A part that other kernels could take over, such as packing or loading, may stand between two lines `# region: NAME` and
`# endregion`, with all that only it needs; they do not nest. Keep those that a kernel has.
"""


def entry_signature(signature: Signature) -> str:
    """Return the first line of `run`."""
    return f"def run({', '.join(argument.name for argument in signature.arguments)}):"


def guide(task: Task, *, device: DeviceLimits) -> str:
    """Return the guide for authors of kernels for a task."""
    return _CONTRACT.format(
        entry=entry_signature(task.signature),
        arguments=arguments_of(task.signature, describe_argument),
        layout=row_major(task.signature),
        alignment=ALIGNMENT_BYTES,
        tf32="" if task.precision.allow_tf32 else ', and give tl.dot input_precision="ieee" where its inputs are fp32',
        capability=f"{device.capability // 10}.{device.capability % 10}",
        multiprocessors=device.multiprocessors,
        shared=device.shared_bytes,
    )


def describe_argument(argument: Tensor | Scalar) -> str:
    """Return one line on an argument."""
    if isinstance(argument, Scalar):
        return f"- {argument.name}: {'int' if argument.dtype == 'int64' else 'float'}"
    shape = ", ".join(str(extent) for extent in argument.shape)
    role = {Role.INPUT: "input", Role.INOUT: "input and output, changed in place", Role.OUTPUT: "output"}[argument.role]
    kind = f"torch.{argument.dtype}{bytes_of(argument)}"
    return f"- {argument.name}[{shape}]: {kind}, {role}{layout_of(argument)}{range_of(argument)}"
