"""Layouts by strides: every place of a storage is an element or lies in one gap."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from evokernel.source.strides import gaps, misfit, storage_size


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draw extents, and strides of nested dimensions in any order, with gaps of any size."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    strides, span = [0] * len(shape), 1
    for axis in draw(st.permutations(range(len(shape)))):
        strides[axis] = span + draw(st.integers(0, 3))
        span += (shape[axis] - 1) * strides[axis]
    return tuple(shape), tuple(strides)


def places(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """Return where each element lies."""
    return [sum(i * step for i, step in zip(index, strides, strict=True)) for index in product(*map(range, shape))]


@given(layouts())
def test_elements_and_gaps_fill_the_storage_once(layout: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    shape, strides = layout
    assert not misfit(shape, strides)
    empty = [
        gap.begin + offset + place
        for gap in gaps(shape, strides)
        for offset in places(*zip(*gap.repeats, strict=True))
        for place in range(gap.size)
    ]
    assert sorted(places(shape, strides) + empty) == list(range(storage_size(shape, strides)))


def test_dimensions_that_overlap_do_not_fit() -> None:
    assert "overlap" in misfit((4, 5), (4, 1))
    assert "overlap" in misfit((4, 5), (1, 1))
    assert "at least 1" in misfit((4, 5), (0, 1))
    assert not misfit((1, 5), (1, 1)), "a dimension of one element is never stepped along"


def test_an_empty_tensor_spans_nothing() -> None:
    assert storage_size((3, 0), (5, 1)) == 0
