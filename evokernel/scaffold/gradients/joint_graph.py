"""Graph of a function and of its gradients, as autograd computes them, with symbols for sizes."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from evokernel.errors import TaskError
from evokernel.scaffold.operation.dimensions import Layout, shapes_at
from evokernel.scaffold.operation.user_operation import UserOperation

_aten = torch.ops.aten
_PRIMES = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
"""Sizes of the trace: distinct, so that no two dimensions get one symbol."""

GraphNode = Any
"""A node of `torch.fx`."""


@dataclass(frozen=True)
class JointGraph:
    """One function and its gradients."""

    inputs: Mapping[str, GraphNode]
    """Inputs of the function, by name."""
    outputs: tuple[GraphNode, ...]
    """Results of the function."""
    tangents: tuple[GraphNode, ...]
    """Gradients that come in, one for each differentiable output."""
    differentiable: tuple[int, ...]
    """Places of the differentiable outputs."""
    gradients: Mapping[str, GraphNode]
    """Gradients of inputs, by name."""
    forward: frozenset[GraphNode]
    """Nodes of the function itself."""


def wanted_gradients(subject: UserOperation) -> tuple[str, ...]:
    """Return the floating-point inputs that need gradients.

    Where some examples say `requires_grad`, these are meant, and else all arguments; of a module also its parameters.
    """
    floats = [name for name, tensor in subject.inputs.items() if tensor.is_floating_point()]
    weights = set(subject.parameters.values())
    arguments = [name for name in floats if name not in weights]
    marked = [name for name in arguments if subject.inputs[name].requires_grad] or arguments
    trained = {ours for theirs, ours in subject.parameters.items() if _is_trained(subject.target, theirs)}
    return tuple(name for name in floats if name in marked or name in trained)


def _is_trained(module: Any, name: str) -> bool:
    parameter = dict(module.named_parameters()).get(name)
    return parameter is not None and parameter.requires_grad


def trace_gradients(subject: UserOperation, layout: Layout, *, decompose: Collection[Any] = ()) -> JointGraph:
    """Trace a function in fp64, and the gradients that autograd makes of it.

    Raises `TaskError` if it has no gradients, or cannot be traced without data; the message says why.
    """
    wide, wanted = subject.with_floats("float64"), wanted_gradients(subject)
    inputs = trial_inputs(wide, layout, seed=0)
    names, kept, made = list(inputs), list[int](), list[str]()
    own = set[str]()

    def joint(*flat: torch.Tensor) -> list[torch.Tensor]:
        given, tangents = dict(zip(names, flat, strict=False)), flat[len(names) :]
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            given |= {name: given[name].detach().requires_grad_() for name in wanted}
            outputs = _flat(wide.call(given))
            mode = get_proxy_mode()
            own.update(node.name for node in (mode.tracer.graph.nodes if mode else ()))
            places = [place for place, each in enumerate(outputs) if each.requires_grad]
            if not tangents or not places:
                kept[:] = places
                return outputs
            found = torch.autograd.grad(
                [outputs[place] for place in places], [given[name] for name in wanted], tangents, allow_unused=True
            )
        made[:] = [name for name, each in zip(wanted, found, strict=True) if each is not None]
        return [*outputs, *(each for each in found if each is not None)]

    try:
        results = joint(*inputs.values())
        if not kept:
            raise TaskError(f"{subject.name} has no gradients: no output depends on {', '.join(wanted) or 'a float'}")
        tangents = [torch.ones_like(results[place]) for place in kept]
        table = {op: decomposition_table[op] for op in decompose}
        module = make_fx(joint, decomposition_table=table, tracing_mode="symbolic", _allow_non_fake_inputs=True)(
            *inputs.values(), *tangents
        )
    except TaskError:
        raise
    except Exception as error:
        raise TaskError(
            f"the gradients of {subject.name} cannot be traced ({type(error).__name__}: {str(error)[:300]}); write two "
            "functions, forward and backward, and run `evokernel init` on each"
        ) from error
    nodes = list(module.graph.nodes)
    _refuse_unusual(subject.name, module, nodes)
    places = [node for node in nodes if node.op == "placeholder"]
    flat = [plain(node) for node in nodes[-1].args[0]]
    return JointGraph(
        inputs=dict(zip(names, places, strict=False)),
        outputs=tuple(flat[: len(results)]),
        tangents=tuple(places[len(names) :]),
        differentiable=tuple(kept),
        gradients=dict(zip(made, flat[len(results) :], strict=True)),
        forward=frozenset(node for node in nodes if node.name in own and node.op != "placeholder"),
    )


def trial_inputs(subject: UserOperation, layout: Layout, *, seed: int) -> dict[str, torch.Tensor]:
    """Return inputs of small distinct sizes; integers are 0 and 1."""
    fixed = {extent for shape in layout.inputs.values() for extent in shape if isinstance(extent, int)}
    free = [prime for prime in _PRIMES if prime not in fixed][seed:]
    generator = torch.Generator().manual_seed(seed)
    inputs = subject.empty(shapes_at(layout, dict(zip(layout.example, free, strict=False))))
    for tensor in inputs.values():
        if tensor.is_floating_point():
            tensor.copy_(torch.randn(tensor.shape, generator=generator))
        else:
            tensor.copy_(torch.randint(0, 2, tensor.shape, generator=generator))
    return inputs


def plain(node: GraphNode) -> GraphNode:
    """Return the node that another one only repeats."""
    while node.op == "call_function" and node.target in (_aten.detach.default, _aten.alias.default):
        node = node.args[0]
    return node


def value_of(node: GraphNode) -> Any:
    """Return the tensor without contents, or the number, that a node stands for."""
    return node.meta.get("val")


def arguments_of(node: GraphNode) -> Iterator[GraphNode]:
    """Yield the tensors that a node is computed from; sizes are left out."""
    for each in node.all_input_nodes:
        value = value_of(each)
        if isinstance(value, (torch.Tensor, tuple, list)):
            yield plain(each)


def _flat(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _refuse_unusual(name: str, module: Any, nodes: list[GraphNode]) -> None:
    for node in nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op == "call_function" and schema is not None and schema.is_mutable:
            raise TaskError(
                f"{name} changes a tensor in place ({node.target}), and its gradients cannot be written down; compute "
                "a new tensor in place of that"
            )
        if node.op == "get_attr" and getattr(module, node.target).numel() != 1:
            raise TaskError(f"{name} uses a tensor that is no argument; pass it as one")
