"""Recurrent layers without a loop over steps in the trace: the same results, and sizes that are checked."""

import pytest
import torch
from torch import nn

from evokernel.scaffold.decompositions.recurrent_layers import WholeFunctions
from evokernel.scaffold.operation.trial import without_data


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("both_ways", [False, True])
def test_results_are_those_of_torch(kind: type[nn.RNNBase], both_ways: bool) -> None:
    layer = kind(5, 7, 2, bias=both_ways, bidirectional=both_ways, batch_first=both_ways).double()
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    with torch.no_grad(), WholeFunctions():
        made = layer(x)
    torch.testing.assert_close(made, layer(x))


def test_any_number_of_steps_is_one_operation() -> None:
    with without_data():
        out, last = nn.GRU(5, 7, 2)(torch.empty(10**9, 3, 5))
    assert (out.shape, last.shape) == ((10**9, 3, 7), (2, 3, 7))


def test_weights_of_other_sizes_are_refused() -> None:
    with without_data(), pytest.raises(RuntimeError):
        torch.gru(torch.empty(4, 3, 5), torch.empty(1, 3, 7), [torch.empty(21, 5), torch.empty(24, 7)], False, 1, 0.0,
                  False, False, False)  # fmt: skip
