"""The guide for authors of a C++ kernel: the signature of `run` in C++ and the contract around it."""

from pathlib import Path

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

_CONTRACT = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")


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
