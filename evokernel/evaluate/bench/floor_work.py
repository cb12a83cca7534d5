"""Work that no right kernel of a task can do without: a time too short for it is not believed.

A task counts each element of its tensors once, and all operations of the reference. But a look-up reads few rows of
its table, and the sum over a product, `(x @ w).sum(1)`, needs no product at all. What is needed is told by the
reference: by changing parts of its inputs, and by following its products.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.arrays import Array, differ
from evokernel.evaluate.numerics.inputs import draw, draw_values, result_tensors
from evokernel.evaluate.numerics.references import native_answer
from evokernel.task import DTYPES, Role, Task, Tensor, Workload

_LINE_BYTES = 32
"""A GPU moves no less at a time; a processor moves 64."""
_LINES, _DRAWN, _LIMIT_S = 16, 2, 10.0
"""Lines of a tensor that are changed, each in a call of its own or, of integers, in two, and time for all in seconds:
what is left does not count.
"""
_LARGE, _SEEN = 1e6, 1e-3
"""Changed numbers are so many times the largest; of the mean, or of a number, results move by more than this part."""
_COPIES = ("_to_copy", "alias", "clone", "detach")
_VIEWS = ("_unsafe_view", "expand", "permute", "squeeze", "t", "transpose", "unsqueeze", "view")
_MOVES = frozenset((*_COPIES, *_VIEWS))
"""Operations whose result holds the numbers of their operand, once each where there are as many of them."""
_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "_int_mm")
_CHOICES = frozenset(("where", "masked_fill", "eq", "ne", "lt", "le", "gt", "ge"))
"""Where these stand between a product and the result, not all of it may be needed."""
_NARROW = 4
"""Bytes of a number; arithmetic with fewer may be faster, also that of integers with a scale."""


@dataclass(frozen=True, slots=True)
class Work:
    """Arithmetic and traffic of one call."""

    flops: int
    """Floating-point operations."""
    bytes: int
    """Memory traffic, in bytes."""
    dtypes: tuple[str, ...] = ()
    """Types of less than four bytes among the inputs and on the way to the results, such as `bfloat16` or `int8`."""

    @classmethod
    def counted(cls, task: Task, workload: Workload) -> "Work":
        """Return the work as the task counts it."""
        return cls(task.flops_at(workload), task.bytes_at(workload))


def needed_work(task: Task, workload: Workload, rng: np.random.Generator, *, device: str, trusted: bool) -> Work:
    """Return what the reference's results need. Takes a few calls for each input, some seconds in all.

    Traffic that the task's author names counts as it is, and so does arithmetic if `trusted`, where the author says
    what is least. Else only products count of inputs with each other, all of whose numbers come to the results one by
    one: others can be grouped in other ways, as `(x @ w) @ v`, or half of their numbers are alike, or left out.
    """
    counted, inputs = Work.counted(task, workload), draw(task, workload, workload.distribution, rng, device=device)
    graph = _traced(task, workload, inputs)
    flops = counted.flops if trusted else min(counted.flops, _needed_flops(graph))
    moved = (
        counted.bytes
        if task.bytes_moved is not None
        else min(counted.bytes, _needed_bytes(task, workload, inputs, rng))
    )
    return Work(flops, moved, _narrow_types(graph))


def _traced(task: Task, workload: Workload, inputs: Mapping[str, Array]) -> tuple[Any, ...]:
    """Return the reference's operations, none where it needs to see numbers."""
    scalars = {scalar.name: workload.dims[scalar.name] for scalar in task.signature.scalars}

    def call(*given: Array) -> Any:
        return task.reference(**dict(zip(inputs, given, strict=True)), **scalars)

    try:
        with torch.no_grad():
            return tuple(make_fx(call, tracing_mode="fake")(*inputs.values()).graph.nodes)
    except Exception:  # noqa: BLE001 - a user's reference may raise anything without numbers; then no product counts
        return ()


def _narrow_types(graph: tuple[Any, ...]) -> tuple[str, ...]:
    values = (value for node in graph for value in _values(node))
    found = {str(value.dtype).removeprefix("torch.") for value in values if value.element_size() < _NARROW}
    return tuple(sorted(found & DTYPES.keys() - {"bool"}))


def _needed_flops(graph: tuple[Any, ...]) -> int:
    """Return the operations of those products that cannot be avoided."""
    origins = dict[Any, frozenset[Any]]()
    for node in graph:
        if node.op == "placeholder":
            origins[node] = frozenset((node,))
        elif whole := _one_to_one(node):
            known = [origins.get(each, frozenset()) for each in whole]
            origins[node] = frozenset().union(*known) if all(known) else frozenset()
    kept, flops = set[Any](), dict[frozenset[Any], int]()
    for node in reversed(graph):
        if node.op == "output":
            kept.update(node.all_input_nodes)
            continue
        if node not in kept:
            continue
        whole = _one_to_one(node)
        # of two operands that are no inputs one may be a mask
        kept.update(whole if len([each for each in whole if not origins.get(each)]) < 2 else ())
        if _name(node) not in _PRODUCTS:
            continue
        left, right = (origins.get(each, frozenset()) for each in _operands(node))
        if left and right and not left & right:
            own = 2 * _values(node)[0].numel() * int(_values(_operands(node)[0])[0].shape[-1])
            flops[left | right] = max(own, flops.get(left | right, 0))  # the same product may come twice
    return sum(flops.values())


def _operands(node: Any) -> tuple[Any, Any]:
    first = 1 if "add" in _name(node) else 0
    return node.args[first], node.args[first + 1]


def _one_to_one(node: Any) -> list[Any]:
    """Return the operands each number of which becomes one of the result, or nothing where not all of them count."""
    if node.op != "call_function" or len(_values(node)) != 1 or _name(node) in _CHOICES:
        return []
    if _name(node) not in _MOVES and torch.Tag.pointwise not in node.target.tags:
        return []
    count = _values(node)[0].numel()
    return [each for each in node.all_input_nodes if [value.numel() for value in _values(each)] == [count]]


def _name(node: Any) -> str:
    return str(node.target).split(".")[1] if node.op == "call_function" and "." in str(node.target) else ""


def _values(node: Any) -> list[Array]:
    made = node.meta.get("val")
    return [each for each in (made if isinstance(made, (tuple, list)) else (made,)) if isinstance(each, torch.Tensor)]


def _needed_bytes(task: Task, workload: Workload, inputs: dict[str, Array], rng: np.random.Generator) -> int:
    """Return the traffic: results that must be written, and parts of inputs on which some result depends."""
    reader = _Reader(task, workload, inputs, native_answer(task, workload, inputs), rng)
    total = 0.0
    for tensor, answer in zip(result_tensors(task), reader.plain, strict=True):
        before = inputs.get(tensor.name)  # of a tensor that is changed in place the rest is not touched
        total += answer.nbytes * (1.0 if before is None else _changed_share(before, answer))
    read = [each for each in task.signature.inputs if each.role is Role.INPUT and each.generator is None]
    until = time.monotonic() + _LIMIT_S
    for tensor in sorted(read, key=lambda each: -inputs[each.name].nbytes):
        total += inputs[tensor.name].nbytes * reader.share(tensor, until=until)
    return int(total)


def _changed_share(before: Array, after: Array) -> float:
    changed = differ(before.reshape(-1), after.reshape(-1))
    filled = torch.nn.functional.pad(changed, (0, -changed.numel() % _line_of(before)))
    return float(filled.view(-1, _line_of(before)).any(dim=1).double().mean())


def _line_of(values: Array) -> int:
    size: int = values.element_size()
    return max(_LINE_BYTES // size, 1)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Finds out how much of an input some result depends on."""

    task: Task
    workload: Workload
    inputs: dict[str, Array]
    """Changed on the way, and left as they were."""
    plain: tuple[Array, ...]
    """The reference's results on them."""
    rng: np.random.Generator

    def share(self, tensor: Tensor, *, until: float) -> float:
        """Return the least share that must be read, as some lines tell; 0 where time is over."""
        values = self.inputs[tensor.name].reshape(-1)
        line = _line_of(values)
        count = -(-values.numel() // line)
        starts = (self.rng.choice(count, min(_LINES, count), replace=False) * line).tolist()
        hits = 0
        for start in starts:
            if time.monotonic() > until:
                return 0.0
            part = values[start : start + line]
            own = part.clone()
            hits += any(self._is_seen(part, other) for other in self._others(tensor, values, own))
            part.copy_(own)
        share = hits / len(starts)
        return share if share == 1.0 else max(0.0, share - 2 * sqrt(share * (1 - share) / len(starts)))

    def _others(self, tensor: Tensor, values: Array, own: Array) -> Iterator[Array]:
        """Yield other contents of a line: far up and down, or of integers new ones, since they may be indices."""
        if values.dtype == torch.bool:
            yield ~own
        elif values.is_floating_point():
            largest = float(values.double().abs().nan_to_num(0.0, 0.0, 0.0).max())
            far = min(_LARGE * (largest + 1.0), torch.finfo(values.dtype).max / 4)
            yield from (torch.full_like(own, sign * far) for sign in (1, -1))
        else:
            for _ in range(_DRAWN):
                drawn = partial(draw_values, self.task, self.workload, tensor, self.workload.distribution, self.rng)
                yield drawn(count=own.numel(), device=str(own.device))

    def _is_seen(self, part: Array, other: Array) -> bool:
        part.copy_(other)
        try:
            changed = native_answer(self.task, self.workload, self.inputs)
        except TaskError:  # the reference cannot do with it
            return True
        return any(_moved(*pair) for pair in zip(self.plain, changed, strict=True))


def _moved(before: Array, after: Array) -> bool:
    """Say whether a result is another one, by more than the order in which a GPU happens to add numbers."""
    apart = differ(before, after)
    if before.is_floating_point():
        old, new = before.double(), after.double()
        size = old.abs().nan_to_num(0.0, 0.0, 0.0)
        apart &= ~((old - new).abs() <= _SEEN * torch.maximum(size, size.mean())) & ~(old.isnan() & new.isnan())
    return bool(apart.any())
