"""Rules for operations that compilers give to a library, against torch's own."""

import pytest
import torch
from torch.nn import functional

from evokernel.scaffold.decompositions.library_operations import DECOMPOSITIONS, max_pool_1d


@pytest.mark.parametrize("padding", [(0, 0), (3, 2)])
@pytest.mark.parametrize("counted", [True, False])
def test_averages_over_large_windows(padding: tuple[int, int], counted: bool) -> None:
    x, rule = torch.randn(2, 3, 17, 19), DECOMPOSITIONS[torch.ops.aten.avg_pool2d.default]
    expected = functional.avg_pool2d(x, (7, 5), (2, 1), padding, count_include_pad=counted)
    torch.testing.assert_close(rule(x, (7, 5), (2, 1), padding, False, counted), expected)
    assert rule(x, (3,), (2,)) is NotImplemented  # small windows are the compiler's


def test_largest_elements_of_windows_of_one_axis() -> None:
    x = torch.randn(2, 3, 40)
    torch.testing.assert_close(max_pool_1d(x, (5,), (2,), (2,), (3,)), functional.max_pool1d(x, 5, 2, 2, 3))
    torch.testing.assert_close(max_pool_1d(x[0], (4,)), functional.max_pool1d(x[0], 4))
