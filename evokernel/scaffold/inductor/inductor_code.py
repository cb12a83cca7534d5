"""Text that Inductor writes for a task's reference, traced on fake tensors, stopped before anything is compiled."""

import contextlib
import itertools
import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
import torch._dynamo
from torch._inductor import config, select_algorithm
from torch._inductor.compile_fx import compile_fx
from torch._inductor.graph import GraphLowering
from torch._subclasses.fake_tensor import FakeTensorMode

from evokernel.errors import TaskError
from evokernel.scaffold.decompositions.complex_pairs import without_complex
from evokernel.scaffold.inductor.library_rules import decompositions, own_rules
from evokernel.scaffold.inductor.template_choice import TemplateSet, best_template
from evokernel.scaffold.inductor.trace_sizes import Dims, TraceSizes, all_dims, places
from evokernel.task import Role, Scalar, Task, Tensor

_SETTINGS = {
    "joint_graph_constant_folding": False,  # would compute constants on the device
    "layout_optimization": False,
    "shape_padding": False,  # would time padded products on it
    "allow_buffer_reuse": False,
    "inplace_buffers": False,
    "force_disable_caches": True,
    "size_asserts": False,
    "max_autotune_gemm": True,
    "max_autotune_gemm_backends": "ATEN,TRITON",
    "max_autotune_conv_backends": "ATEN,TRITON",
    "max_autotune_pointwise": True,  # more configurations, so more values of tunables
}
_SOURCE = re.compile(r"L\['arguments'\]\[(\d+)\](?:\.(size|stride)\(\)\[(\d+)\])?")
_MOST_INT32 = 2**31 - 1
_MOST_IN_A_TABLE = 64
"""Numbers of a tensor that a program makes by comparing places: more would take longer than reading them."""


class Unusable(TaskError):
    """Inductor's program for a task is no standalone Triton program; the message is one line."""


class OutputAlias(Exception):
    """A result is no buffer of its own: a view of another, an input, or one that is returned twice."""


@dataclass(frozen=True, slots=True)
class GraphInput:
    """Place that a number or tensor of Inductor's program comes from."""

    argument: Tensor | Scalar
    kind: str = ""
    """`size` or `stride` of a tensor; empty for the argument itself."""
    axis: int = 0

    def text(self, scalars: Sequence[str]) -> str:
        """Return it as an expression over the arguments of `run`."""
        if isinstance(self.argument, Scalar) or not self.kind:
            return self.argument.name
        if self.kind == "stride":
            return f"{self.argument.name}.stride({self.axis})"
        extent = str(self.argument.shape[self.axis])
        return extent if extent in scalars else f"{self.argument.name}.shape[{self.axis}]"

    def at(self, dims: Dims) -> int | float:
        """Return its value for dimensions."""
        if isinstance(self.argument, Scalar):
            return dims[self.argument.name]
        sizes = {name: value for name, value in dims.items() if isinstance(value, int)}
        shape = self.argument.shape_at(sizes)
        if self.kind == "size":
            return shape[self.axis]
        strides = self.argument.strides_at(sizes)
        return strides[self.axis] if strides else int(torch.tensor(shape[self.axis + 1 :]).prod())


@dataclass(frozen=True, slots=True)
class InductorCode:
    """Inductor's program for a task."""

    text: str
    """A Python module with `Runner.call`."""
    inputs: Mapping[str, GraphInput]
    """By the names of the parameters of `call`."""
    menus: tuple[TemplateSet, ...]
    """The templates to choose from, one menu for each product or convolution."""
    returned: tuple[str, ...]
    """The outputs that `call` returns; it writes the others in place."""
    tf32: bool
    """Products of fp32 may be rounded to TF32. For sizes that it does not know the compiler never does."""


def _path(source: str) -> str:
    """Return a tensor's name in the user's file: `model.norm.mean` for the compiler's path through the task's."""
    names = [each[0] or each[1] for each in re.findall(r"\['(\w+)'\]|\.(\w+)", source)]
    shown = (each for each in names if not each.startswith(("__", "_buffers", "_modules", "_parameters")))
    return ".".join(shown) or source


def _make_constant(node: Any) -> None:
    """Let the program make a tensor of the user's file that holds few numbers, as a table of levels does, or one."""
    value = node.meta["grapharg"].example
    if not isinstance(value, torch.Tensor) or not (numbers := _constant_numbers(value)):
        return
    graph = node.graph
    with graph.inserting_before(next(each for each in graph.nodes if each.op != "placeholder")):
        how = {"device": torch.device("cuda:0") if value.ndim else value.device}
        kind = {"dtype": value.dtype, **how}
        values = [graph.call_function(torch.full, (tuple(value.shape), number), kind) for number in numbers]
        made = values[0]
        if len(values) > 1:
            place = graph.call_function(torch.arange, (len(numbers),), {"dtype": torch.int32, **how})
            place = graph.call_function(torch.reshape, (place, tuple(value.shape)))
            made = _chosen(graph, place, values)
    made.meta["example_value"] = node.meta["example_value"]
    node.replace_all_uses_with(made)


def _chosen(graph: Any, place: Any, values: list[Any]) -> Any:
    """Return the value at a place, chosen bit by bit: 16 values take 4 tests, and 15 if each place had one."""
    bit = 1
    while len(values) > 1:
        odd = graph.call_function(operator.ne, (graph.call_function(operator.and_, (place, bit)), 0))
        pairs = itertools.zip_longest(values[::2], values[1::2], fillvalue=values[-1])
        values, bit = [graph.call_function(torch.where, (odd, high, low)) for low, high in pairs], 2 * bit
    return values[0]


def _constant_numbers(value: torch.Tensor) -> list[Any]:
    """Return the number that a tensor holds throughout, or its few numbers in their order; else nothing."""
    flat = value.reshape(-1)
    if flat.numel() and bool((flat == flat[0]).all()):
        return [flat[0].item()]
    few = flat.numel() <= _MOST_IN_A_TABLE and value.is_contiguous() and not value.is_complex()
    return flat.tolist() if few else []


class _Taken(BaseException):
    """Leaves the compiler once its code is written; no `except Exception` may stop it."""


class _Capture:
    """Receiver of the compiler's inputs and text."""

    def __init__(self, task: Task) -> None:
        self.arguments: list[Tensor | Scalar] = [*task.signature.tensors, *task.signature.scalars]
        self._tf32 = _tf32(task)
        self.texts: list[str] = []
        self.menus: list[TemplateSet] = []
        self.order: list[GraphInput | str] = []
        self.names: list[str] = []
        self.guards: list[Any] = []
        self.symbols: dict[Any, GraphInput] = {}
        self.fixed: dict[Any, int] = {}
        """Sizes of tensors that are no arguments."""

    def compile(self, module: Any, inputs: Sequence[Any]) -> Any:
        """Note which input is which, since they come in the order of their first use, then compile."""
        self.order, self.menus = [], []  # it may begin anew
        for node in module.graph.find_nodes(op="placeholder"):
            source = _spelled(node.meta["grapharg"].source)
            self.order.append(self._input(source) or source)
            if not self._input(source):
                _make_constant(node)
        return compile_fx(without_complex(module), inputs, decompositions=decompositions())

    def _input(self, source: str) -> GraphInput | None:
        found = _SOURCE.fullmatch(source)
        return GraphInput(self.arguments[int(found[1])], found[2] or "", int(found[3] or 0)) if found else None

    def inputs(self, known: Sequence[Dims]) -> dict[str, GraphInput]:
        """Return the inputs by name. A number that the compiler took for a constant must be one."""
        if len(self.names) != len(self.order):
            raise Unusable(
                "Inductor keeps numbers that the reference makes outside of its program, as those of `x[0] = 1`; "
                "torch.where(places == 0, 1, x) stays inside"
            )
        named = dict(zip(self.names, self.order, strict=True))
        found = {name: each for name, each in named.items() if isinstance(each, GraphInput)}
        for name, source in named.items():  # of statistics that a call updates, nothing may be read
            if isinstance(source, str) and self._is_read(name):
                raise Unusable(
                    f"the reference uses {_path(source)}, whose numbers differ and which is no argument of the kernel: "
                    "pass it as one, or compute it in the function"
                )
        given = [each.argument for each in found.values()]
        for argument in self.arguments:
            if not isinstance(argument, Scalar) or argument.dtype == "int64" or argument in given:
                continue
            if len({dims[argument.name] for dims in known}) > 1:
                raise Unusable(f"Inductor takes {argument.name!r}, which changes, for a constant")
        return found

    def _is_read(self, name: str) -> bool:
        """Say whether the program uses one of its inputs for more than checks on it."""
        code, _, _ = self.texts[-1].partition("\ndef get_args")  # how to try it out
        lines = [line.strip() for line in code.splitlines() if re.search(rf"\b{name}\b", line)]
        return any(not line.startswith(("assert_", "del ")) and not line.endswith(" = args") for line in lines)

    def take(self, graph: Any) -> None:
        """Keep the text of a graph in place of compiling it."""
        text, _ = graph.codegen()
        self.texts.append(text.value)
        self.names = list(graph.graph_inputs)
        environment = graph.sizevars.shape_env
        self.guards = [guard.expr for guard in environment.guards]
        for symbol, sources in environment.var_to_sources.items():
            found = next(filter(None, (self._input(_spelled(source)) for source in sources)), None)
            if found is not None:
                self.symbols[symbol] = found
            elif not any("L['arguments']" in _spelled(source) for source in sources):
                self.fixed[symbol] = int(environment.size_hint(symbol))
        numbers = {str(symbol): number for symbol, number in self.fixed.items()}
        for name in self.names:
            if (number := numbers.get(str(graph.graph_inputs[name]))) is not None:
                self.texts[-1] = re.sub(rf"= {name}$", f"= {number}", self.texts[-1], flags=re.MULTILINE)
        raise _Taken

    def choose(self, choices: list[Any]) -> list[Any]:
        """Leave one choice, so that nothing is timed."""
        menu = TemplateSet(tuple((choice.name, getattr(choice, "description", "")) for choice in choices))
        self.menus.append(menu)
        templates = [each for each in choices if isinstance(each, select_algorithm.TritonTemplateCaller)]
        if not templates:
            return choices[:1]
        wide = any(each.get_dtype() == torch.float32 for each in templates[0].input_nodes)
        return [best_template(templates, in_registers=wide and not self._tf32)]


def _spelled(source: Any) -> str:
    """Return the compiler's name of an input."""
    return str(source.name if isinstance(source.name, str) else source.name())


def inductor_code(task: Task, sizes: TraceSizes, *, in_place: bool) -> InductorCode:
    """Return Inductor's program for a task that is resolved for one device class.

    Args:
        task: its reference is traced, in the dtypes of its signature.
        sizes: sizes to trace with.
        in_place: write outputs as the last step, in place of returning them; costs fusion, and takes any result.

    Raises:
        Unusable: the program would not hold for all sizes of the task, or there is none.
        OutputAlias: there is nothing to compute but a copy.
    """
    capture = _Capture(task)
    returned = () if in_place else tuple(tensor.name for tensor in task.signature.outputs)
    function = _function(task, in_place=in_place)
    torch._dynamo.reset()
    select_algorithm.add_preprocessing_fn(capture.choose)
    try:
        with (
            own_rules(),
            config.patch(_SETTINGS),
            torch._dynamo.config.patch(specialize_float=not _changing_floats(task)),
            mock.patch.object(warnings, "warn", _no_warning),  # the tracer cannot trace it
            mock.patch.object(GraphLowering, "compile_to_module", lambda graph: capture.take(graph)),
        ):
            fake = _fake_tensors(task, sizes)
            numbers = [sizes.dims[scalar.name] for scalar in task.signature.scalars]
            with torch.no_grad(), contextlib.suppress(_Taken):
                torch.compile(function, fullgraph=True, dynamic=True, backend=capture.compile)(*fake, *numbers)
    finally:
        select_algorithm.clear_preprocessing_fns(clear_defaults=False)
    if not capture.texts and not in_place:
        raise OutputAlias(", ".join(returned))
    if len(capture.texts) != 1:
        raise Unusable("the reference has nothing to compute on a GPU")
    guards = [guard.subs(capture.fixed) for guard in capture.guards]
    _check_guards(guards, capture.symbols, all_dims(task))
    return InductorCode(capture.texts[0], capture.inputs(all_dims(task)), tuple(capture.menus), returned, _tf32(task))


def _function(task: Task, *, in_place: bool) -> Callable[..., Any]:
    tensors = [tensor.name for tensor in task.signature.tensors]
    names = [*tensors, *(scalar.name for scalar in task.signature.scalars)]
    inputs = [*(tensor.name for tensor in task.signature.inputs), *(each.name for each in task.signature.scalars)]
    changed = [tensor.name for tensor in task.signature.inputs if tensor.role is Role.INOUT]
    outputs = [tensor.name for tensor in task.signature.outputs]
    reference = task.reference

    def function(*arguments: Any) -> Any:
        given = dict(zip(names, arguments, strict=True))
        made = reference(**{name: given[name].clone() if name in changed else given[name] for name in inputs})
        results = dict(zip([*changed, *outputs], made if isinstance(made, (tuple, list)) else (made,), strict=True))
        for name in [*changed, *outputs] if in_place else changed:
            given[name].copy_(results[name])
        return () if in_place else tuple(results[name].contiguous() for name in outputs)

    return function


def _changing_floats(task: Task) -> bool:
    """Say whether a kernel gets numbers that are no sizes; those that a module keeps are constants otherwise."""
    return any(scalar.dtype != "int64" for scalar in task.signature.scalars)


def _no_warning(*_: Any, **__: Any) -> None:
    """Stand in for `warnings.warn`."""


def _tf32(task: Task) -> bool:
    """Say whether products of fp32 may be rounded to TF32: it holds 16-bit numbers exactly, and results are as short.

    References often widen 16-bit inputs before a product, for the judge's sake.
    """
    floats = [tensor.dtype for tensor in task.signature.tensors if "float" in tensor.dtype]
    return task.precision.allow_tf32 or (bool(floats) and all("float16" in dtype for dtype in floats))


def _fake_tensors(task: Task, sizes: TraceSizes) -> list[Any]:
    known = {name: value for name, value in sizes.dims.items() if isinstance(value, int)}
    with FakeTensorMode(allow_non_fake_inputs=True):
        made = []
        for tensor in task.signature.tensors:
            shape, dtype = tensor.shape_at(known), getattr(torch, tensor.dtype)
            strides = tensor.strides_at(known)
            make = torch.empty(shape, dtype=dtype, device="cuda:0") if strides is None else None
            made.append(make if strides is None else torch.empty_strided(shape, strides, dtype=dtype, device="cuda:0"))
    for number, axis, extent in places(task):
        if not sizes.is_free(extent):
            torch._dynamo.mark_static(made[number], axis)
    return made


def _check_guards(guards: Sequence[Any], symbols: Mapping[Any, GraphInput], known: Sequence[Dims]) -> None:
    """Refuse a program that holds for some sizes of the task only.

    Of what the compiler assumed, equalities and bounds of 32-bit indices matter. The others choose between right ways.
    """
    import sympy  # type: ignore[import-untyped]

    for guard in guards:
        equal, narrow = isinstance(guard, sympy.Eq), isinstance(guard, sympy.Le) and guard.rhs == _MOST_INT32
        if not (equal or narrow):
            continue
        if not guard.free_symbols <= symbols.keys():
            raise Unusable(f"the program would hold only where {guard}")
        if any(
            guard.subs({each: symbols[each].at(dims) for each in guard.free_symbols}) != sympy.true for dims in known
        ):
            spelled = str(guard)
            for each in guard.free_symbols:
                spelled = re.sub(rf"\b{each}\b", symbols[each].text(()), spelled)
            raise Unusable(f"the program would hold only where {spelled}")
