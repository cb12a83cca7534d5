"""Indices of a reference that are out of bounds, which a GPU would answer with the end of the process."""

from collections.abc import Callable

import pytest
import torch
from torch.nn.functional import cross_entropy, embedding, embedding_bag

from evokernel.evaluate.numerics.index_checks import IndexChecks

TABLE, INDEX = torch.arange(24.0).view(4, 6), torch.tensor([0, 5])
ROW = INDEX[None]
LABELS = torch.tensor([0, 1, 5, -100])


def _assign(index: torch.Tensor) -> None:
    TABLE.clone()[index] = 0.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: TABLE[INDEX],
        lambda: TABLE[torch.tensor([-5])],
        lambda: TABLE[torch.tensor([True, False, True, False]), torch.tensor([6, 1])],
        lambda: _assign(INDEX),
        lambda: TABLE.index_select(0, INDEX),
        lambda: TABLE.index_select(0, torch.tensor([-1])),
        lambda: TABLE.index_add(0, INDEX, TABLE[:2]),
        lambda: TABLE.gather(0, ROW),
        lambda: TABLE.scatter(0, ROW, 1.0),
        lambda: TABLE.scatter_add(0, ROW, TABLE[:1, :2]),
        lambda: TABLE.scatter_reduce(0, ROW, TABLE[:1, :2], "sum"),
        lambda: TABLE.take(torch.tensor([24])),
        lambda: embedding(INDEX, TABLE),
        lambda: embedding_bag(INDEX, TABLE, torch.tensor([0])),
        lambda: cross_entropy(TABLE, LABELS + 1),
        lambda: cross_entropy(torch.zeros(2, 3, 4, 4), torch.full((2, 4, 4), 3)),
    ],
)
def test_the_operation_is_not_run(call: Callable[[], object]) -> None:
    with IndexChecks(), pytest.raises(IndexError, match="out of bounds for a dimension of size") as raised:
        call()
    assert str(raised.value).split(":")[0].isidentifier()  # ours; torch's own text does not begin so


@pytest.mark.parametrize(
    "call",
    [
        lambda: TABLE[:, INDEX],
        lambda: TABLE[torch.tensor([-4, 3])],
        lambda: TABLE[TABLE > 3],
        lambda: TABLE[:0][torch.tensor([], dtype=torch.int64)],
        lambda: TABLE.index_fill(0, torch.tensor([-1]), 1.0),
        lambda: TABLE.gather(1, ROW),
        lambda: torch.tensor(2.0).gather(0, torch.tensor(0)),
        lambda: embedding(INDEX % 4, TABLE),
        lambda: cross_entropy(TABLE, LABELS),
    ],
)
def test_others_are_as_before(call: Callable[[], torch.Tensor]) -> None:
    with IndexChecks():
        checked = call()
    assert torch.equal(checked, call())
