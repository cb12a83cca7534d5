"""The guide for authors of a C++ kernel: the signature of `run` in C++ and the contract around it."""

from evokernel.errors import LanguageError
from evokernel.languages.guide_text import arguments_of, bytes_of, layout_of, range_of, row_major
from evokernel.task import DTYPES, Role, Scalar, Signature, Task, Tensor

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "_Float16",
    "bfloat16": "uint16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
    "float8_e4m3fn": "uint8_t",
    "float8_e5m2": "uint8_t",
}

_CONTRACT = """\
Write one C++20 source file. It must define exactly this entry point:

    {entry};

Arguments, in this order:
{arguments}

Contract:
- Every tensor is {layout}, its first byte is aligned to 64 bytes, and no two tensors overlap
  (`__restrict` is right on all of them).
- Inputs are read-only. Outputs hold garbage before the call: write every element, read none before you wrote it.
- The sizes differ from call to call and need not be multiples of anything: handle every remainder.
- Never read or write outside of a tensor, not even by a vector whose lanes are thrown away later. Masked loads and
  stores (AVX-512) that leave such lanes out are fine.
- {threads}
- Allocate scratch memory yourself where you need it (a static thread_local buffer that grows is cheap); free what you
  do not keep. No files, no input or output, no processes, nothing that depends on time or chance.
- Only standard headers: the C and C++ standard library and the intrinsics (<immintrin.h>, <arm_neon.h>{omp}).
- Compiled with: {flags}

Tunables are ordinary lines with a comment; the search tries their values:
    constexpr int64_t BLOCK = 64;  // tune: 16 32 64 128
and a constraint between them, if one is needed, is a line of its own (integers, + - * // %, comparisons, and, or):
    // tune-where: BLOCK * UNROLL <= 512

A part that other kernels could take over, such as packing or loading, may stand between two lines `// region: NAME` and
`// endregion`, with all that only it needs; they do not nest. Keep those that a kernel has.
"""


def entry_signature(signature: Signature) -> str:
    """Return the C++ declaration of `run` without a semicolon. Raises `LanguageError` if a dtype has no C++ type."""
    parameters = ", ".join(f"{_c_type(argument)} {argument.name}" for argument in signature.arguments)
    return f'extern "C" void run({parameters})'


def guide(task: Task, *, threads: int, flags: str) -> str:
    """Return the guide for authors of kernels for a task."""
    if threads > 1:
        how = f"Use up to {threads} threads, by OpenMP (#pragma omp parallel ...). All must be idle when run returns."
    else:
        how = "One thread only: start no others."
    return _CONTRACT.format(
        entry=entry_signature(task.signature),
        arguments=arguments_of(task.signature, _describe),
        layout=row_major(task.signature),
        threads=how,
        omp=", <omp.h>" if threads > 1 else "",
        flags=flags,
    )


def _c_type(argument: Tensor | Scalar) -> str:
    name = C_TYPES.get(argument.dtype)
    if name is None:
        raise LanguageError(f"argument {argument.name!r}: dtype {argument.dtype} has no C++ type here")
    if isinstance(argument, Scalar):
        return name
    return f"const {name}*" if argument.role is Role.INPUT else f"{name}*"


def _describe(argument: Tensor | Scalar) -> str:
    if isinstance(argument, Scalar):
        return f"- {argument.name}: {argument.dtype}, by value"
    shape = ", ".join(str(extent) for extent in argument.shape)
    role = {Role.INPUT: "input", Role.INOUT: "input and output, changed in place", Role.OUTPUT: "output"}[argument.role]
    hidden = argument.dtype == "bfloat16" or argument.dtype.startswith("float8")
    bits = f" as its {8 * DTYPES[argument.dtype]} bits" if hidden else bytes_of(argument)
    return f"- {argument.name}[{shape}]: {argument.dtype}{bits}, {role}{layout_of(argument)}{range_of(argument)}"
