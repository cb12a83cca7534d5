"""Contents of a hidden check, composed in the closed vocabulary of `evokernel.records.hidden_check`."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from evokernel.evaluate.numerics.arrays import Array, is_float, torch_dtype
from evokernel.evaluate.numerics.inputs import bound_of, draw, draw_values, secret_source, shape_of
from evokernel.evaluate.numerics.patchwork import index_kind, indices_of, numbers_like, pieces_of
from evokernel.task import Task, Tensor, Workload


def compose(
    task: Task,
    workload: Workload,
    contents: Mapping[str, Sequence[str]],
    rng: np.random.Generator,
    *,
    device: str = "cpu",
) -> dict[str, Array]:
    """Return new content for every input, by name; those without words are of the task's first distribution.

    Raises `TaskError` as `draw`.
    """
    inputs = draw(task, workload, task.declared[0], rng, device=device)
    for tensor in task.signature.inputs:
        if words := contents.get(tensor.name):
            inputs[tensor.name] = _composed(task, workload, tensor, words, rng, device=device)
    return inputs


def _composed(
    task: Task, workload: Workload, tensor: Tensor, words: Sequence[str], rng: np.random.Generator, *, device: str
) -> Array:
    """Return a tensor whose rows, or pieces of few rows, are cut into parts, one word each."""
    shape = shape_of(task, tensor, workload)
    count, row = math.prod(shape), shape[-1] if shape else 1
    width, pieces = pieces_of(count, row)
    values = torch.empty(pieces, width, device=device, dtype=torch_dtype(tensor.dtype))
    for part, word in enumerate(words):
        first, last = (number * pieces // len(words) for number in (part, part + 1))
        if last > first:
            values[first:last] = _part(task, workload, tensor, word, rng, like=values[first:last])
    return values.reshape(-1)[:count].reshape(shape)


def _part(task: Task, workload: Workload, tensor: Tensor, word: str, rng: np.random.Generator, *, like: Array) -> Array:
    """Return rows of one word, in shape, dtype and place `like` others."""
    (rows, width), count, device = like.shape, like.numel(), str(like.device)

    def drawn(distribution: str) -> Array:
        values = draw_values(task, workload, tensor, distribution, rng, count=count, device=device)
        return values.view(rows, width)

    if word in task.declared:
        return drawn(word)
    source = secret_source(rng, device)
    if not is_float(tensor.dtype):
        kind = torch.full((pieces_of(count, width)[1], 1), index_kind(word), device=device)
        bound = bound_of(task, workload, tensor) or 1
        return indices_of(kind, count, width, source, bound=bound).view(rows, width)
    homes = (task.declared[0], str(rng.choice(task.declared[1:] or task.declared)))
    usual, other = (drawn(home).double() for home in homes)
    return numbers_like(word, usual, other, source, homes=homes)
