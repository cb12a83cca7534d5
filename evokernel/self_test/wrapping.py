"""Wrapping of a right kernel into an exhibit, for any signature: the kernel is called by another name.

In C++ the source is the kernel with `run` renamed by the preprocessor, the task's signature as macros, the helpers of
`prelude.h`, and an exhibit. In Python, which launches kernels for a GPU, it is the kernel, an exhibit, and a `run` that
hands both over.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evokernel.errors import TaskError
from evokernel.languages.cpp.guide import C_TYPES
from evokernel.self_test.exhibits import Exhibit, prelude
from evokernel.source.expressions import names_in
from evokernel.task import Role, Scalar, Task, Tensor, Workload

_OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "/",
    ast.Mod: "%",
}
_CUDA_IMPORT = "from evokernel.cuda import Module\n"
"""Line that a source in CUDA C++ has once; the kernel has it."""
_HEADERS = ("cstdint", "cstdlib", "cstring", "initializer_list", "type_traits")


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Numbers of calls on one search workload, by which a cheat can tell them apart."""

    checks: int
    """Calls before it is timed."""
    rarity: int
    """One in so many timed calls is rare enough to cheat in."""


def wrap(kernel: str, exhibit: Exhibit, *, task: Task, paces: Sequence[CallCounts], bias: Sequence[float]) -> str:
    """Return an exhibit made from a right kernel.

    Args:
        kernel: the source of the right kernel.
        exhibit: the cheat or harmless kernel to make.
        task: as it is on the class of devices; its search workloads are those of `paces`.
        paces: for each search workload.
        bias: relative error that tolerances begin with, for each written tensor in calling order.

    Raises:
        TaskError: a shape depends on a dimension that no scalar passes on.
    """
    lines = exhibit.body.splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    body = [line for line in lines if not line.startswith("#include")]
    parts = [
        f"#define run honest_run\n{kernel}\n#undef run",
        *(f"#include <{header}>" for header in _HEADERS),
        *includes,
        *_macros(task, paces, bias),
        "namespace self_test {",
        prelude(),
        *body,
        "}  // namespace self_test\n",
    ]
    return "\n".join(parts)


def wrap_python(kernel: str, exhibit: Exhibit, *, task: Task) -> str:
    """Return an exhibit made from a right kernel in Triton or CUDA C++."""
    signature = task.signature
    names = [argument.name for argument in signature.arguments]
    written, read = (
        "".join(f"{tensor.name}, " for tensor in signature.tensors if (tensor.role is Role.INPUT) is only_read)
        for only_read in (False, True)
    )
    parts = [
        kernel,
        "_honest_run = run\n",
        exhibit.body.replace(_CUDA_IMPORT, ""),
        f"\ndef run({', '.join(names)}):",
        f"    def honest({written.removesuffix(', ')}):",
        f"        _honest_run({', '.join(names)})\n",
        f"    _answer(honest, ({written}), ({read}))\n",
    ]
    return "\n".join(parts)


def _macros(task: Task, paces: Sequence[CallCounts], bias: Sequence[float]) -> list[str]:
    signature, scope = task.signature, _Scope(task)
    names = [f"a{index}" for index in range(len(signature.arguments))]
    types = [_type(argument) for argument in signature.arguments]
    tensors = [(name, each) for name, each in zip(names, signature.arguments, strict=True) if isinstance(each, Tensor)]
    written = [(name, tensor) for name, tensor in tensors if tensor.role is not Role.INPUT]
    in_scratch = {name: f"b{number}" for number, (name, _) in enumerate(written)}
    of_copy = {name: f"place({number}, {name})" for number, (name, _) in enumerate(tensors)}
    results = [
        f"X({number}, {name}, {scope.count(tensor)}, {scope.row(tensor)}, {int(tensor.role is Role.INOUT)})"
        for number, (name, tensor) in enumerate(written)
    ]
    read = [(name, scope.count(tensor)) for name, tensor in tensors if tensor.role is Role.INPUT]
    last, last_count = read[-1] if read else ("nullptr", "0")
    (offered,) = task.workloads.values()
    searched = [f"if ({scope.condition(each)}) return {number};" for number, each in enumerate(offered.search)]
    found = {
        "PARAMETERS": ", ".join(f"{kind} {name}" for kind, name in zip(types, names, strict=True)),
        "ARGUMENTS": ", ".join(names),
        "IN_SCRATCH": ", ".join(in_scratch.get(name, name) for name in names),
        "OF_COPY": ", ".join(of_copy.get(name, name) for name in names),
        "PLACES": ", ".join(f"(char*){name}" for name, _ in tensors),
        "RESULTS(X)": " ".join(results),
        "INPUTS(X)": " ".join(f"X({name}, {count})" for name, count in read),
        "LAST_INPUT": last,
        "LAST_COUNT": last_count,
        "WITH(other)": ", ".join("other" if name == last else name for name in names),
        "SEARCHED": " ".join(searched),
        "CHECKS": _list(pace.checks for pace in paces),
        "RARITY": _list(pace.rarity for pace in paces),
        "BIAS": _list(bias),
        "RESULT_COUNT": str(len(written)),
        "WORKLOAD_COUNT": str(len(paces)),
        "PLACE_COUNT": str(len(tensors)),
    }
    return [f"#define EVK_{name} {text}" for name, text in found.items()]


def _type(argument: Tensor | Scalar) -> str:
    name = C_TYPES[argument.dtype]
    if isinstance(argument, Scalar):
        return name
    return f"const {name}*" if argument.role is Role.INPUT else f"{name}*"


def _list(values: Iterable[float]) -> str:
    return "{" + ", ".join(map(repr, values)) + "}"


class _Scope:
    """Dimensions in C++: arguments of `run`, or numbers that are the same in every call."""

    def __init__(self, task: Task) -> None:
        self._task = task
        (workloads,) = task.workloads.values()
        self._scalars = {
            argument.name: f"a{index}"
            for index, argument in enumerate(task.signature.arguments)
            if isinstance(argument, Scalar) and argument.dtype == "int64"
        }
        every = [each.sizes for each in (*workloads.search, *workloads.holdout)]
        varying = {name for name in every[0] if any(sizes.get(name) != every[0][name] for sizes in every)}
        self._constants = {
            name: value for name, value in every[0].items() if name not in varying | set(workloads.probe)
        }

    def count(self, tensor: Tensor) -> str:
        """Return the number of elements, with what lies between them where a tensor has strides."""
        if tensor.strides is not None:
            pairs = zip(tensor.shape, tensor.strides, strict=True)
            steps = (f"({self._expression(extent)} - 1) * {self._expression(stride)}" for extent, stride in pairs)
            return f"({' + '.join(['(int64_t)1', *steps])})"
        return " * ".join(["(int64_t)1", *(self._expression(extent) for extent in tensor.shape)])

    def row(self, tensor: Tensor) -> str:
        """Return the number of elements of a row; those of a vector are rows of their own."""
        return self._expression(tensor.shape[-1]) if len(tensor.shape) > 1 else "1"

    def condition(self, workload: Workload) -> str:
        """Return a C++ condition: the sizes are those of a workload."""
        return " && ".join(["true", *(f"{name} == {workload.sizes[dim]}" for dim, name in self._scalars.items())])

    def _expression(self, extent: str | int) -> str:
        if isinstance(extent, int):
            return str(extent)
        missing = names_in(extent) - self._scalars.keys() - self._constants.keys()
        if missing:
            raise TaskError(
                f"task {self._task.name!r}: the self-test must know how large the tensors are, and no scalar of the "
                f"signature passes {', '.join(sorted(missing))} on; add one"
            )
        return self._written(ast.parse(extent.strip(), mode="eval").body)

    def _written(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=int(number)):
                return str(number)
            case ast.Name(id=name):
                return self._scalars.get(name) or str(self._constants[name])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return f"({self._written(left)} {_OPERATORS[type(op)]} {self._written(right)})"
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return f"(-{self._written(inner)})"
        raise TaskError(f"task {self._task.name!r}: the self-test cannot write the size {ast.unparse(node)!r} in C++")
