"""Odd hidden shapes, each for one call: a kernel may be wrong on one kind of sizes alone."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from evokernel.evaluate.numerics.hidden_shapes import like_searched
from evokernel.evaluate.numerics.size_ranges import SizeRange, distinct, each_chosen, fitted, odd_size, range_beside
from evokernel.task import Task, Workload, WorkloadSet

ALONE = "alone"
"""The name of all workloads of which a worker has the buffers of one at a time: fenced, tailed and odd ones."""
_FENCED_BYTES, _LOPSIDED_BYTES, _SMALL_BYTES = 4 << 20, 8 << 20, 1 << 20
_TOGETHER_BYTES = 256 << 20
"""The tensors of all fenced shapes but the first two, or of all tailed ones: weights may be large in each of them."""
_TILED_FLOPS = 10_000_000_000
"""Arithmetic of all tiled shapes together, at most: a judge computes each up to some thirty times, mostly in fp64."""
_SEARCHED_FLOPS = 2_000_000_000
"""The same of all shapes right below those of the search."""
_LARGE_SEARCHED_BYTES, _SEARCHED_BYTES = 512 << 20, 2 << 30
"""Size of the tensors of one of these on a GPU, and of all together."""
_CUTS = (8191, 4093, 2039, 1021, 509, 251, 127, 61)
"""Bounds of the dimensions, the loosest first."""
_VECTOR, _TILE = 16, 64
"""Elements of a processor's widest vector, mostly, and of a tile of some."""
_BLOCKS = (96, 128, 192, 256, 384, 512, 1024)
"""Sizes of blocks in many kernels, where code is other behind the last whole one."""
_COMPILED, _LOPSIDED, _TENSORS_DRAWN = 16, 2, 240
"""Shapes for compiled kernels in a search, lopsided ones of them, and tensors of all: a deep network has hundreds."""
_EVEN, _EVEN_SHAPES = (2, 4, 8), 2
"""Factors of even sizes that Triton's compiler treats as it does odd ones, and shapes for each."""
_MIDDLE, _LARGE_BYTES = 2, 64 << 20
"""Shapes of winners on a GPU with middle sizes, and size of the tensors where sizes are large."""
_LEAST_ALONE, _NAMED = 2, 16
"""Shapes of winners that need other machine code, or may: compiling a large kernel takes seconds."""
_HALVINGS, _FEW_FLOPS = 8, 0.125
"""Times that a large size is halved until the tensors are small enough; the most work, as a part of a search workload.
"""
_TAILED_BYTES, _TAILED_SPANS = 1 << 19, (127, 63, 47, 31)
"""Size of the tensors, at most, and the sizes that dimensions may have above their least ones, the widest first."""


def fenced_workloads(task: Task, probes: Sequence[Workload], offered: WorkloadSet) -> tuple[Workload, ...]:
    """Return the first two hidden shapes, and the second one with each dimension in turn a multiple of 64, or of 16.

    Tensors with that dimension are a multiple of 64 bytes long, mostly, while their rows may be odd. The second shape
    is cut down until its tensors take some MiB at most.
    """
    least, shape = dict(probes[0].dims), _cut_down(task, probes[1], offered, _FENCED_BYTES)
    shapes = [least, shape]
    for name in offered.probe:
        low, high = range_beside(offered, name, Workload("", shape).sizes)
        step = 64 if high >= 64 else 16
        multiple = max(int(shape[name]) // step, 1) * step
        if low <= multiple <= high:
            shapes.append(fitted(offered, {**shape, name: multiple}))
    return _in_memory(task, (Workload(ALONE, dims) for dims in shapes), always=2)


def tailed_workloads(task: Task, offered: WorkloadSet, rng: np.random.Generator) -> tuple[Workload, ...]:
    """Return small shapes; over all of them each dimension has every remainder that a vector leaves, where it can.

    Search sizes are multiples of vectors, mostly, and held-out ones odd: a kernel may be wrong on all other tails.
    Where weights are large there are fewer.
    """

    def any_size(sizes: range, tail: int) -> int:
        return int(rng.choice([size for size in sizes if size % _VECTOR == tail] or [sizes[0], sizes[-1]]))

    return _in_memory(task, _swept(task, offered, _VECTOR, any_size, rng=rng))


def tiled_workloads(task: Task, offered: WorkloadSet, rng: np.random.Generator) -> tuple[Workload, ...]:
    """Return more small shapes: each of the least sizes, as many as a vector has elements, and every tail of a tile.

    Where it can, a tile is before what it leaves: a kernel may be wrong on one tail behind its loop alone. Shapes with
    large tensors, such as the weights of a deep network, are left out, and some where all take much arithmetic.
    """

    def after_a_tile(sizes: range, tail: int) -> int:
        by_tile = [size for size in sizes if size % _TILE == tail]
        return max(by_tile or [size for size in sizes if size % _VECTOR == tail % _VECTOR] or sizes)

    least = _swept(task, offered, _VECTOR, lambda sizes, tail: sizes[min(tail, len(sizes) - 1)], rng=rng)
    tiled = _swept(task, offered, _TILE, after_a_tile, rng=rng)
    found = (Workload(ALONE, dims) for dims in distinct(each.dims for each in (*least, *tiled)))
    small, flops, kept = (each for each in found if task.bytes_at(each) <= _LOPSIDED_BYTES), 0, list[Workload]()
    for shape in small:
        flops += task.flops_at(shape)
        if flops > _TILED_FLOPS:
            break
        kept.append(shape)
    return tuple(kept)


def lopsided_workloads(task: Task, offered: WorkloadSet, rng: np.random.Generator) -> tuple[Workload, ...]:
    """Return shapes in which one size is unlike the others, for each dimension three, and one of equal sizes.

    Sizes of the search are large together, and those of hidden shapes small: a kernel may be wrong where rows are many
    and short, or few and long. One size is that of a search workload and the others are least; one lies anywhere up to
    that, and one is least, where the others are drawn from their ranges. Large shapes are left out.
    """
    found = []
    for large in offered.probe:

        def one_large(name: str, size: SizeRange, *, large: str = large) -> int:
            return size.most if name == large else size.low

        def one_larger(name: str, size: SizeRange, *, large: str = large) -> int:
            if name == large and size.most > size.high:
                return int(size.high * (size.most / size.high) ** rng.uniform(0.0, 1.0))
            return int(rng.integers(size.low, size.high + 1))

        def one_least(name: str, size: SizeRange, *, large: str = large) -> int:
            return size.low if name == large else odd_size(size.low, size.high, rng)

        found += [each_chosen(offered, choose) for choose in (one_large, one_larger, one_least)]
    if len(offered.probe) > 1:
        side = int(rng.integers(_VECTOR, 2 * _TILE))
        found.append(each_chosen(offered, lambda _, size: min(max(side, size.low), size.most)))
    shapes = (Workload(ALONE, dims) for dims in found)
    return tuple(shape for shape in shapes if task.bytes_at(shape) <= _LOPSIDED_BYTES)


def large_tailed_workloads(task: Task, offered: WorkloadSet, rng: np.random.Generator) -> tuple[Workload, ...]:
    """Return shapes in which one size is about that of a search workload, with every remainder that a vector leaves.

    Kernels go another way above some size, where the search shows them no tails, of this size or of the others. Of two
    sizes each has every remainder by 8 where it is the large one. Of three sizes and more, each one is also least alone
    beside large ones.
    """
    names, found = [*offered.probe], list[Workload]()
    tails = {name: _spread_tails(rng, turns=range(place, _VECTOR, len(names))) for place, name in enumerate(names)}
    for number in range(_VECTOR if names else 0):
        for cut in range(_HALVINGS):

            def tailed(name: str, size: SizeRange, *, number: int = number, cut: int = cut) -> int:
                large = name == names[number % len(names)]
                end = max(size.most >> cut, size.low) if large else min(size.low + _VECTOR - 1, size.high)
                sizes = range(max(size.low, end - _VECTOR + 1), end + 1)
                return next((each for each in sizes if each % _VECTOR == tails[name][number]), end)

            dims = each_chosen(offered, tailed)
            if task.bytes_at(Workload("", dims)) <= _TAILED_BYTES:
                break
        found.append(Workload(ALONE, dims))
    most = _FEW_FLOPS * min(map(task.flops_at, offered.search))
    for least in names if len(names) > 2 else ():

        def one_least(name: str, size: SizeRange, *, least: str = least) -> int:
            return size.low if name == least else size.most

        shape = Workload(ALONE, each_chosen(offered, one_least))
        found += [shape] if task.flops_at(shape) <= most else []
    return tuple(shape for shape in found if task.bytes_at(shape) <= _LOPSIDED_BYTES)


def _spread_tails(rng: np.random.Generator, *, turns: range) -> list[int]:
    """Return all remainders by 16 in a random order, of which those of the first eight `turns` differ by 8, too."""
    half = _VECTOR // 2
    firsts = [int(rest + half * rng.integers(2)) for rest in rng.permutation(half)]
    others = [int(rest) for rest in rng.permutation(_VECTOR) if rest not in firsts]
    wanted = {turn: firsts.pop() for turn in turns[: len(firsts)]}
    left = iter(rng.permutation([*firsts, *others]).tolist())
    return [wanted[turn] if turn in wanted else next(left) for turn in range(_VECTOR)]


def searched_tailed_workloads(
    task: Task, offered: WorkloadSet, rng: np.random.Generator, *, compiled: bool = False
) -> tuple[Workload, ...]:
    """Return shapes right below those of the search; over all of them sizes have every remainder that a vector leaves.

    A kernel may go another way for large tensors alone, where the search and large hidden shapes show it no tail of
    four, say. Of products that take long there are fewer. Sizes of `compiled` kernels are odd, and tensors as large as
    on a GPU.
    """
    rests = range(1, _VECTOR, 2) if compiled else range(_VECTOR)
    tails, flops, kept = {name: rng.permutation(rests).tolist() for name in offered.probe}, 0, list[Workload]()
    most_bytes, room = (_LARGE_SEARCHED_BYTES, _SEARCHED_BYTES) if compiled else (_LOPSIDED_BYTES, _TOGETHER_BYTES)
    for number in range(len(rests) if tails else 0):

        def tailed(name: str, _: int, size: int, *, number: int = number) -> int:
            return size - int(size - tails[name][number]) % _VECTOR

        shape = Workload(ALONE, like_searched(offered, rng, tailed))
        flops += task.flops_at(shape)
        if flops > _SEARCHED_FLOPS:
            break
        if (size := task.bytes_at(shape)) <= min(most_bytes, room):
            room -= size
            kept.append(shape)
    return tuple(kept)


def singled_out_workloads(
    task: Task,
    offered: WorkloadSet,
    numbers: Sequence[int],
    rng: np.random.Generator,
    *,
    most: int,
    one_alone: bool = False,
) -> tuple[Workload, ...]:
    """Return so many small shapes, at the most, with sizes that numbers in a program's code single out.

    A program that is wrong on a narrow band of sizes, or on one remainder by a large number, compares sizes with it.
    Fuzzers take words for their inputs from the program in the same way. Each size is such a number in turn, one beside
    it, or one with a remainder that is one; in every second shape, or in all if `one_alone`, the others are drawn from
    their ranges.
    """
    named = [number for number in numbers if number > _VECTOR]
    own = {*named, *(number + 1 for number in named if not number & number + 1)}  # a mask leaves a remainder
    sums = [block + rest for block in own for rest in numbers if rest < block]
    others = [number + step for number in named for step in (-1, 1)]
    others += [block + rest for block in _BLOCKS for rest in numbers if rest < block]
    if not offered.probe or not others:
        return ()
    groups = named, sums, others
    turns = {name: [each for group in groups for each in rng.permutation(group).tolist()] for name in offered.probe}
    names, found = [*turns], []
    for number in range(min(most, 2 * sum(map(len, groups)))):
        alone = names[number // 2 % len(names)] if number % 2 or one_alone else ""

        def singled(name: str, size: SizeRange, *, alone: str = alone) -> int:
            largest = size.most if alone else size.high  # many large sizes together may take much memory on the way
            fitting = (each for each in turns[name] if size.low <= each <= largest) if alone in ("", name) else ()
            chosen = next(iter(fitting), None)
            if chosen is None:
                return odd_size(size.low, size.high, rng)
            turns[name].remove(chosen)
            return int(chosen)

        found.append(each_chosen(offered, singled))
    shapes = (Workload(ALONE, dims) for dims in distinct(found))
    return tuple(shape for shape in shapes if task.bytes_at(shape) <= _SMALL_BYTES)


def compiled_workloads(
    task: Task,
    probes: Sequence[Workload],
    offered: WorkloadSet,
    rng: np.random.Generator,
    *,
    final: bool,
    numbers: Sequence[int] = (),
) -> tuple[Workload, ...]:
    """Return lopsided and small shapes for kernels that are compiled for shapes, few of which need other code.

    Triton's compiler makes other code where a size, or a product of sizes, is 1 or a multiple of 16, and many kernels
    round sizes up to powers of two. Here sizes are odd, or 2 and 4 times an odd number in turn, and in the small shapes
    they lie between the same powers of two as those of the second hidden shape. Winners meet every odd remainder by 64,
    sizes that all are 2, 4 or 8 times an odd number, all lopsided shapes, two in which one dimension alone is least,
    large sizes of little arithmetic, sizes right below those of the search, and last sizes that the `numbers` in their
    text single out, one in a shape: several even ones would need code of their own together. A search meets some of the
    first, since all that a program launches is recorded for each.
    """
    if not offered.probe:
        return ()
    like = _cut_down(task, probes[1], offered, _SMALL_BYTES)
    *others, equal = [_uneven(offered, each.dims) for each in lopsided_workloads(task, offered, rng)] or [{}]
    lopsided = [dims for dims in (equal, *(others[place] for place in rng.permutation(len(others)))) if dims]

    def beside(factors: Mapping[str, int], tails: Mapping[str, int]) -> Mapping[str, int | float]:
        """Return sizes like the small shape's, each so many times an odd number, with a tail of a tile where it can."""

        def size_of(name: str, size: SizeRange) -> int:
            factor = factors.get(name, 1)
            least = 1 << int(like[name]).bit_length() - 1
            between = range(max(size.low, least), min(size.high, 2 * least - 1) + 1) or range(size.low, size.high + 1)
            sizes, tail = [each for each in between if each % (2 * factor) == factor] or [*between], tails.get(name, 0)
            by_tile = [each for each in sizes if each % _TILE == tail]
            return int(rng.choice(by_tile or [each for each in sizes if each % _VECTOR == tail % _VECTOR] or sizes))

        return each_chosen(offered, size_of)

    names = [*offered.probe]
    mixed = [{name: _EVEN[(place + turn) % 2] for place, name in enumerate(names)} for turn in range(_EVEN_SHAPES)]
    alike = [dict.fromkeys(names, factor) for factor in _EVEN for _ in range(_EVEN_SHAPES)] if final else []
    even = [beside(factors, {}) for factors in (*mixed, *alike)]
    tails = {name: rng.permutation(range(1, _TILE, 2)).tolist() for name in offered.probe}
    tailed = [beside({}, {name: tails[name][number] for name in tails}) for number in range(_TILE // 2)]
    large = _few_flops(task, offered, rng) if final else []
    large += [each.dims for each in searched_tailed_workloads(task, offered, rng, compiled=True)] if final else []
    found = [*lopsided, *even, *tailed] if final else [*lopsided[:_LOPSIDED], *even, *tailed]
    for least in rng.permutation([*offered.probe])[:_LEAST_ALONE] if final and len(offered.probe) > 1 else ():
        found.append(fitted(offered, {**like, least: range_beside(offered, least, Workload("", like).sizes)[0]}))
    small = [dims for dims in found if task.bytes_at(Workload("", dims)) <= _LOPSIDED_BYTES]
    kept, most = distinct([*large, *small]), _TENSORS_DRAWN // len(task.signature.tensors)
    if not final:
        return compiled_again(kept[: min(most, _COMPILED)])
    named = singled_out_workloads(task, offered, numbers, rng, most=min(_NAMED, most // 2), one_alone=True)
    return compiled_again([*kept[: most - len(named)], *(workload.dims for workload in named)])


def _few_flops(task: Task, offered: WorkloadSet, rng: np.random.Generator) -> list[Mapping[str, int | float]]:
    """Return shapes with large sizes that take little arithmetic: with one size least, and some of middle sizes.

    The first are for three sizes and more; of two, lopsided shapes have these. A kernel may go another way for few rows
    of a large matrix, or between the sizes of hidden shapes and those of the search.
    """
    names, found = [*offered.probe], []
    for least in names if len(names) > 2 else ():

        def one_least(name: str, size: SizeRange, *, least: str = least) -> int:
            return size.low if name == least else size.most

        found.append(each_chosen(offered, one_least))

    def middle(_: str, size: SizeRange) -> int:
        low = max(size.low, 1)
        return min(int(low * (size.most / low) ** rng.uniform(0.4, 0.9)) | 1, size.most)

    found += [each_chosen(offered, middle) for _ in range(_MIDDLE)]
    most = _FEW_FLOPS * min(map(task.flops_at, offered.search))
    fit = (dims for dims in found if task.flops_at(Workload("", dims)) <= most)
    return [dims for dims in fit if task.bytes_at(Workload("", dims)) <= _LARGE_BYTES]


def compiled_again(shapes: Sequence[Mapping[str, int | float]]) -> tuple[Workload, ...]:
    """Return such workloads with shapes that were drawn before, by another judge of the same run perhaps."""
    return tuple(Workload(f"compiled-{number}", dict(dims)) for number, dims in enumerate(shapes))


def _in_memory(task: Task, shapes: Iterable[Workload], *, always: int = 0) -> tuple[Workload, ...]:
    """Return the first shapes that take little memory together, and so many in any case."""
    kept, held = list[Workload](), 0
    for shape in shapes:
        held += task.bytes_at(shape)
        if held > _TOGETHER_BYTES and len(kept) >= always:
            break
        kept.append(shape)
    return tuple(kept)


def _swept(
    task: Task, offered: WorkloadSet, block: int, choose: Callable[[range, int], int], *, rng: np.random.Generator
) -> Iterator[Workload]:
    """Yield a shape for each remainder by a block, which has another place in each dimension; `choose` gets sizes."""
    tails = {name: rng.permutation(block).tolist() for name in offered.probe}
    for number in range(block if tails else 0):
        for span in _TAILED_SPANS:

            def of_tail(name: str, size: SizeRange, *, number: int = number, span: int = span) -> int:
                return choose(range(size.low, min(size.most, size.low + span) + 1), tails[name][number])

            shape = Workload(ALONE, each_chosen(offered, of_tail))
            if task.bytes_at(shape) <= _TAILED_BYTES:
                break
        yield shape


def _uneven(offered: WorkloadSet, dims: Mapping[str, int | float]) -> dict[str, int | float]:
    """Return a shape with odd sizes of at least 3 near those that are given, where their ranges allow it."""
    shape = dict(dims)
    for name, ends in offered.probe.items():
        low, high = range_beside(offered, name, Workload("", shape).sizes)
        size = int(shape[name])
        if not any(isinstance(end, str) for end in ends):
            high = max(high, size)
        shape[name] = min(max(3, size - 1 | 1, low), high)
    return shape


def _cut_down(task: Task, probe: Workload, offered: WorkloadSet, most_bytes: int) -> dict[str, int | float]:
    """Return the shape of a hidden workload, with bounds on its dimensions until its tensors are small enough."""
    drawn = dict(probe.dims)
    for most in _CUTS:
        shape = fitted(offered, {**drawn, **{name: min(int(drawn[name]), most) for name in offered.probe}})
        if task.bytes_at(Workload("", shape)) <= most_bytes:
            break
    return shape
