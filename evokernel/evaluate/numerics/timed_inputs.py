"""Content for timed calls: new for every call, about as fast as a copy, and reproducible as often as needed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from evokernel.evaluate.numerics.arrays import Array, torch_dtype
from evokernel.evaluate.numerics.device_contents import fill_rows, table_bits
from evokernel.evaluate.numerics.generated_inputs import GeneratedInputs
from evokernel.evaluate.numerics.inputs import draw_values, secret_generator, shape_of
from evokernel.task import Task, Workload

_TABLE = 1 << 16
"""Length of a processor's table, which is kept twice in a row, so that a part from anywhere holds all of it."""
_EXTRA = 1 << 16
"""Elements by which random places and factors are more than those of a tensor."""


@dataclass(frozen=True, slots=True)
class _Places:
    """Elements drawn from a table on a processor."""

    places: Array
    """A window of random places in the table, each an int32."""
    factors: Array | None
    """Scale of each element; None to leave them as they are."""
    others: Array | None
    """A second window, which changes the places by exclusive or; None where factors tell elements apart."""


@dataclass(frozen=True, slots=True)
class _Counter:
    """Elements drawn from a table on a GPU, by a counter; see `device_contents`."""

    key: int
    """The secret of all contents that are drawn at once."""
    number: int
    """The place of this content among them."""
    spread: float
    """Largest relative change of an element."""


@dataclass(frozen=True, slots=True)
class Content:
    """Content of one tensor in one call."""

    values: Array
    """The elements, flat, or the table that they are drawn from; on a processor it begins where no other does."""
    draw: _Places | _Counter | None = None
    """The elements' places in the table; None where `values` are the content."""


Window = Mapping[str, Content]
"""Content of all inputs and in/out tensors of one call, by name. It is small, since it refers to tables."""


class FreshInputs:
    """Draws unused contents, and writes them into buffers.

    Each element of a content is drawn anew from a table of random numbers with the workload's own distribution. So two
    contents share no row, no stretch and no order of sizes: a kernel that remembers others has nothing to look up.
    Every element of float32 and float64 is scaled by a random factor near 1, so that few are equal. One instance per
    worker.

    On a GPU a counter-based generator with a new key for each batch gives the places. On a processor, where that would
    take several times as long, they are a window of random places, counted from a start of the content's own in the
    table: what one content holds at a place says nothing of what another one holds there.

    Contents of inputs with a generator are those that it makes; see `GeneratedInputs`.
    """

    def __init__(self, task: Task, workload: Workload, rng: np.random.Generator, *, device: str = "cpu") -> None:
        self._task = task
        self._workload = workload
        self._rng = rng
        self._device = device
        self._tensors = {tensor.name: tensor for tensor in task.signature.inputs if tensor.generator is None}
        self._generated = GeneratedInputs(task, workload, rng, device=device)
        self._sizes = {name: math.prod(shape_of(task, t, workload)) for name, t in self._tensors.items()}
        self._tables: dict[str, Array] = {}
        self._places: dict[str, Array] = {}
        self._factors: dict[str, Array] = {}
        self._others: dict[str, Array] = {}
        self._starts: dict[str, list[int]] = {}
        for name in self._tensors:
            self._renew(name)

    @property
    def affordable(self) -> int:
        """Number of calls of a batch for which there is time to make new contents; known once some were drawn."""
        return self._generated.affordable

    def draw_windows(self, count: int) -> list[Window]:
        """Return the contents of `count` calls, all different from each other and from earlier ones."""
        contents = {name: self._contents(name, count) for name in self._tensors}
        windows = [{name: of[call] for name, of in contents.items()} for call in range(count)]
        for window, made in zip(windows, self._generated.draw(count), strict=True):
            window |= {name: Content(values) for name, values in made.items()}
        return list[Window](windows)

    def fill(self, views: Mapping[str, Array], window: Window) -> None:
        """Overwrite arrays, one per input and in/out tensor by name; the same bits for the same window."""
        for name, view in views.items():
            _write(view, window[name])

    def fill_sets(self, views: Mapping[str, Array], windows: Sequence[Window]) -> None:
        """Overwrite the first copies of all arrays, as `fill` does; `views` are of shape (sets, *shape)."""
        for name, every in views.items():
            copies, contents = every[: len(windows)], [window[name] for window in windows]
            if every[0].is_contiguous():
                _write_rows(copies.view(len(windows), -1), contents)
                continue
            for view, content in zip(copies, contents, strict=True):
                _write(view, content)

    def _contents(self, name: str, count: int) -> list[Content]:
        if self._device != "cpu":
            key, spread = int(self._rng.integers(1 << 63)), self._spread(name)
            return [Content(self._tables[name], _Counter(key, number, spread)) for number in range(count)]
        # one call of numpy for all: each takes as long as the rest of a small content
        places = self._rng.integers(_EXTRA + 1, size=(count, 2)).tolist()
        return [self._drawn(name, first, second) for first, second in places]

    def _drawn(self, name: str, first: int, second: int) -> Content:
        if not self._starts[name]:
            self._renew(name)
        size, start = self._sizes[name], self._starts[name].pop()
        factors, others = self._factors.get(name), self._others.get(name)
        draw = _Places(
            self._places[name][first : first + size],
            None if factors is None else factors[second : second + size],
            None if others is None else others[second : second + size],
        )
        return Content(self._tables[name][start : start + _TABLE], draw)

    def _spread(self, name: str) -> float:
        """Return the largest relative change of an element; small, so that it stays so where differences cancel."""
        wide = self._tensors[name].dtype in ("float32", "float64")
        return 0.002 if wide and self._workload.distribution != "integers01" else 0.0

    def _renew(self, name: str) -> None:
        """Draw a new table and new places; contents of the old ones keep them alive."""
        tensor, spread = self._tensors[name], self._spread(name)
        dtype, distribution = torch_dtype(tensor.dtype), self._workload.distribution
        length = _TABLE if self._device == "cpu" else 1 << table_bits(dtype)
        self._tables[name] = draw_values(
            self._task, self._workload, tensor, distribution, self._rng, count=length, device=self._device
        )
        if self._device == "cpu":
            count, generator = self._sizes[name] + _EXTRA, secret_generator(self._rng, self._device)
            self._tables[name] = self._tables[name].repeat(2)
            self._places[name] = _random_places(count, generator)
            self._starts[name] = self._rng.permutation(_TABLE).tolist()
            if spread:
                factors = torch.empty(count, dtype=dtype).uniform_(1 - spread, 1 + spread, generator=generator)
                self._factors[name] = factors
            else:
                self._others[name] = _random_places(count, generator)


def _random_places(count: int, generator: torch.Generator) -> Array:
    return torch.randint(0, _TABLE, (count,), generator=generator, dtype=torch.int32)


def _write(view: Array, content: Content) -> None:
    if not view.is_contiguous():  # a layout of the task's own: its padding stays as it is
        plain = torch.empty(view.shape, dtype=view.dtype, device=view.device)
        _write(plain, content)
        view.copy_(plain)
        return
    flat = view.view(-1)
    match content.draw:
        case None:
            flat.copy_(content.values)
        case _Counter() as draw:
            _count(flat.view(1, -1), content.values, draw)
        case _Places() as draw:
            _look_up(flat, content.values, draw)


def _write_rows(rows: Array, contents: Sequence[Content]) -> None:
    """Write one content to each row, those of one key with one launch; the same bits as `_write`."""
    first = _first_of_one_key(contents)
    if first is not None:
        table = next(each.values for each in contents if each.draw is not None)
        _count(rows, table, first)
    for flat, content in zip(rows, contents, strict=True):
        if first is None or content.draw is None:  # a check's content stands among the others
            _write(flat, content)


def _first_of_one_key(contents: Sequence[Content]) -> _Counter | None:
    """Return the first of contents that count on from row to row, whether it is among them or not."""
    for row, content in enumerate(contents):
        if isinstance(content.draw, _Counter) and content.draw.number >= row:
            first = replace(content.draw, number=content.draw.number - row)
            due = (replace(first, number=first.number + place) for place in range(len(contents)))
            fits = all(each.draw in (None, one) for each, one in zip(contents, due, strict=True))
            return first if fits else None
    return None


def _count(rows: Array, table: Array, draw: _Counter) -> None:
    fill_rows(rows, table, key=draw.key, first=draw.number, spread=draw.spread)


def _look_up(flat: Array, table: Array, draw: _Places) -> None:
    places = draw.places if draw.others is None else draw.places ^ draw.others
    torch.index_select(table, 0, places, out=flat)
    if draw.factors is not None:
        flat.mul_(draw.factors)
