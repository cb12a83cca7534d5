"""Inductor's program as one standalone Triton file with `run`, whose outputs the caller gives."""

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any

from evokernel.languages.gpu.triton_guide import entry_signature
from evokernel.scaffold.inductor.generated_kernel import GeneratedKernel, refuse_random
from evokernel.scaffold.inductor.helper_functions import helper_text, import_text
from evokernel.scaffold.inductor.inductor_code import InductorCode, OutputAlias, Unusable
from evokernel.scaffold.inductor.size_names import name_sizes
from evokernel.scaffold.inductor.trace_sizes import Dims
from evokernel.task import Signature, Tensor

_DROPPED = re.compile(
    r"args\.clear\(\)|(?:raw_)?stream\d* = |torch\.cuda\.set_device|assert_|\w+ = copy_if_misaligned|.* = args$"
)
_MOST_OWN = 8
"""Products and convolutions in a program up to which equal ones have kernels, and so tiles, of their own each."""
_LONG = 20_000
"""Characters of host code from which numbers that stand there several times get names."""
_MANY_BUFFERS = 32
"""Buffers that the host lets go, up to which a program keeps them all: rewrites have less to look after."""
_KNOWN = frozenset({"torch", "triton", "math", "max", "min", "abs", "int", "float"})
_TEMPLATE = "triton_tem_"
_NUMBERS = {"__builtins__": {"max": max, "min": min, "math": math}}


def write_program(code: InductorCode, signature: Signature, dims: Dims, *, folder: Path) -> str:
    """Return the program, without a docstring.

    Args:
        code: Inductor's text.
        signature: that of `run`.
        dims: those of the trace.
        folder: for the kernels' texts.

    Raises:
        Unusable: it calls what is no Triton kernel.
        OutputAlias: a result cannot be written where the caller wants it.
    """
    refuse_random(code.text)
    tree = ast.parse(code.text)
    host = _Host(code, signature, dims, kernels=_kernel_texts(tree), folder=folder)
    body = list(host.lines(_statements(tree)))
    kernels = "\n\n\n".join(f"# Inductor: {kernel.inductor_name}\n{kernel.text()}" for kernel in host.used)
    if not host.used:
        raise Unusable("Inductor writes no Triton kernel for it")
    run = "\n    ".join([entry_signature(signature), *body])
    if len(run) > _LONG:
        run = _with_sizes_named(run, signature)
    tunables = "\n".join(line for kernel in host.used for line in kernel.tunables())
    parts = [tunables, helper_text(kernels), kernels, run]
    program = "\n\n\n".join(part for part in parts if part)
    return f"{import_text(program)}\n\n\n{program}\n"


def _with_sizes_named(run: str, signature: Signature) -> str:
    tree = ast.parse(run)
    assert isinstance(tree.body[0], ast.FunctionDef)
    name_sizes(tree.body[0], {scalar.name for scalar in signature.scalars}.__contains__)
    return ast.unparse(ast.fix_missing_locations(tree))


def _kernel_texts(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Return function and text of the kernels by name: `NAME = async_compile.triton('FUNCTION', '''...''')`."""
    found = {}
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        if ast.unparse(node.value.func) == "async_compile.triton":
            function, text = map(ast.literal_eval, node.value.args[:2])
            found[ast.unparse(node.targets[0])] = (function, text)
    return found


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    for runner in tree.body:
        if isinstance(runner, ast.ClassDef) and runner.name == "Runner":
            for method in runner.body:
                if isinstance(method, ast.FunctionDef) and method.name == "call":
                    for statement in method.body:
                        yield from statement.body if isinstance(statement, ast.With) else [statement]
                    return
    raise Unusable("this version of torch writes its programs in another way")


class _Host(ast.NodeTransformer):
    """Rewrites the host code of Inductor's program."""

    def __init__(
        self,
        code: InductorCode,
        signature: Signature,
        dims: Dims,
        *,
        kernels: Mapping[str, tuple[str, str]],
        folder: Path,
    ) -> None:
        scalars = [scalar.name for scalar in signature.scalars]
        self.used: list[GeneratedKernel] = []
        self._code, self._signature, self._folder = code, signature, folder
        self._dims, self._menus = dims, iter(code.menus)
        self._shared = len(code.menus) > _MOST_OWN
        self._kernels, self._by_text = kernels, dict[str, GeneratedKernel]()
        self._names = {name: origin.text(scalars) for name, origin in code.inputs.items()}
        self._values: dict[str, Any] = {name: _value(origin, dims) for name, origin in code.inputs.items()}
        self._taken = {argument.name for argument in signature.arguments} | _KNOWN
        self._device = next(tensor.name for tensor in signature.tensors)
        self._own: dict[str, str] = {}
        self._many, self._freed = False, set[str]()

    def lines(self, statements: Iterator[ast.stmt]) -> Iterator[str]:
        """Yield the statements of `run`."""
        wanted = [each for each in statements if not _DROPPED.match(ast.unparse(each))]
        self._many = sum(isinstance(each, ast.Delete) for each in wanted) > _MANY_BUFFERS
        if not wanted or not isinstance(wanted[-1], ast.Return):
            raise Unusable("Inductor's program does not end with its results")
        self._claim(wanted[-1], wanted)
        for statement in wanted[:-1]:
            line = self._line(statement)
            if line:
                yield line

    def _claim(self, returned: ast.Return, statements: Sequence[ast.stmt]) -> None:
        """Note which buffer is which output."""
        results = returned.value.elts if isinstance(returned.value, ast.Tuple | ast.List) else []
        for name, result in zip(self._code.returned, results, strict=True):
            root = result.args[0] if isinstance(result, ast.Call) else result
            buffer = ast.unparse(root)
            if buffer in self._own or not any(_allocates(each, buffer) for each in statements):
                raise OutputAlias(name)
            self._own[buffer] = name

    def _line(self, statement: ast.stmt) -> str:
        if isinstance(statement, ast.Delete):
            names = [self._names.get(ast.unparse(each), "") for each in statement.targets]
            return "; ".join(f"del {name}" for name in names if name in self._freed)
        if not isinstance(statement, ast.Assign | ast.Expr):
            raise Unusable(f"Inductor's program has a statement that is not known here: {_short(statement)}")
        if isinstance(statement, ast.Expr):
            return ast.unparse(self.visit(statement))
        (target,) = statement.targets
        if not isinstance(target, ast.Name):
            raise Unusable(f"Inductor's program has a statement that is not known here: {_short(statement)}")
        self._note_value(target.id, statement.value)
        if isinstance(statement.value, ast.Name) and statement.value.id in self._names:
            self._names[target.id] = self._names[statement.value.id]
            self._freed.discard(self._names[target.id])  # it has two names, and one to be used longer
            return ""
        if target.id in self._own:
            made = self._output(self._own[target.id], statement.value)
            if made in self._own.values():
                self._names[target.id] = made
                return ""
        else:
            made = ast.unparse(self.visit(statement.value))
        self._names[target.id] = name = self._free_name(target.id)
        self._freed |= {name} if target.id not in self._own and self._many else set()
        return f"{name} = {made}"

    def _note_value(self, name: str, value: ast.expr) -> None:
        """Keep the number that an assignment has at the sizes of the trace, where it is one."""
        names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
        if names <= self._values.keys() | _NUMBERS["__builtins__"].keys():
            text = compile(ast.Expression(value), "<size>", "eval")
            self._values[name] = eval(text, _NUMBERS, self._values)

    def _output(self, name: str, made: ast.expr) -> str:
        """Return an output as the buffer that Inductor would allocate for it."""
        assert isinstance(made, ast.Call)
        tensor = next(each for each in self._signature.outputs if each.name == name)
        sizes = eval(ast.unparse(made.args[0]), _NUMBERS, self._values)
        shape = tensor.shape_at({key: value for key, value in self._dims.items() if isinstance(value, int)})
        if math.prod(sizes) != math.prod(shape):
            raise OutputAlias(name)
        if sizes == shape and self._is_dense(*made.args[:2]):
            return name
        size, stride, _ = (ast.unparse(self.visit(each)) for each in made.args)
        return f"{name}.as_strided({size}, {stride})"

    def _is_dense(self, size: ast.expr, stride: ast.expr) -> bool:
        """Say whether a tensor lies row by row without gaps, at the sizes of the trace, of which no two are alike."""
        sizes, strides = (eval(ast.unparse(each), _NUMBERS, self._values) for each in (size, stride))
        return bool(strides == tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))))

    def _free_name(self, name: str) -> str:
        """Return a short name that nothing else has."""
        kernel = next((each for each in self._kernels if name.startswith(f"{each}_")), "")
        base = name.removeprefix(f"{kernel}_") if kernel else name
        made = next(
            each
            for each in chain([base], (f"{base}_{number}" for number in count(1)))
            if each not in self._taken and each not in self._names.values()
        )
        self._taken.add(made)
        return made

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self._names and node.id not in _KNOWN:
            raise Unusable(f"Inductor's program uses {node.id}, which is not known here")
        return ast.parse(self._names.get(node.id, node.id), mode="eval").body

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = ast.unparse(node.func)
        if name.endswith(".run") and name[:-4] in self._kernels:
            arguments = [ast.unparse(self.visit(each)) for each in node.args]
            return ast.parse(self._launch(name[:-4], arguments), mode="eval").body
        if name.endswith(".item") and isinstance(node.func, ast.Attribute):
            return ast.parse(ast.unparse(self.visit(node.func.value)), mode="eval").body  # a number that Inductor wraps
        if name == "reinterpret_tensor":
            tensor, *layout = (ast.unparse(self.visit(each)) for each in node.args)
            return ast.parse(f"{tensor}.as_strided({', '.join(layout)})", mode="eval").body
        if name == "empty_strided_cuda":
            dense = self._is_dense(*node.args[:2])
            size, stride, dtype = (ast.unparse(self.visit(each)) for each in node.args)
            if dense:
                return ast.parse(f"torch.empty({size}, dtype={dtype}, device={self._device}.device)", mode="eval").body
            made = f"torch.empty_strided({size}, {stride}, dtype={dtype}, device={self._device}.device)"
            return ast.parse(made, mode="eval").body
        if name in _KNOWN or name.startswith("math."):
            return self.generic_visit(node)
        raise Unusable(f"Inductor calls {name}, which is no Triton kernel")

    def _launch(self, name: str, arguments: list[str]) -> str:
        template = name.startswith(_TEMPLATE)
        menu = next(self._menus, None) if template else None
        if name not in self._by_text or (template and not self._shared):
            number, tf32 = len(self.used), self._code.tf32
            function, text = self._kernels[name]
            made = GeneratedKernel(function, text, number=number, tf32=tf32, folder=self._folder)
            self.used.append(made)
            self._by_text[name] = made
        return self._by_text[name].launch(arguments, menu)


def _allocates(statement: ast.stmt, name: str) -> bool:
    return ast.unparse(statement).startswith(f"{name} = empty_strided_cuda(")


def _value(origin: Any, dims: Dims) -> Any:
    return None if isinstance(origin.argument, Tensor) and not origin.kind else origin.at(dims)


def _short(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0][:80]
