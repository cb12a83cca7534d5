"""Rules for plain loops, and the elimination of small matrices, against torch's own."""

import pytest
import torch

from evokernel.scaffold.decompositions.function_rules import FUNCTION_RULES
from evokernel.scaffold.decompositions.loop_rules import LOOP_RULES
from evokernel.scaffold.loops.trace import to_graph, trace
from evokernel.scaffold.operation.sizes import SymbolicSizes

_aten = torch.ops.aten


@pytest.mark.parametrize(("offset", "dims"), [(0, (0, 1)), (2, (-1, 1)), (-1, (1, 3)), (3, (3, 0))])
def test_diagonals_are_read_and_replaced(offset: int, dims: tuple[int, int]) -> None:
    x = torch.randn(4, 5, 3, 6).transpose(0, 2)
    due = x.diagonal(offset, *dims)
    torch.testing.assert_close(LOOP_RULES[_aten.diagonal.default](x, offset, *dims), due)
    made = LOOP_RULES[_aten.diagonal_scatter.default](x, torch.ones_like(due), offset, *dims)
    torch.testing.assert_close(made, torch.diagonal_scatter(x, torch.ones_like(due), offset, *dims))


def test_diagonals_of_turned_tensors_and_those_that_are_filled_have_loops() -> None:
    def whitened(given: dict[str, torch.Tensor]) -> torch.Tensor:
        turned = given["x"].permute(0, 2, 3, 1)  # [B, N, N, C]
        made = turned.clone()
        made.diagonal(dim1=1, dim2=2).fill_(0)
        return made * torch.einsum("biic->bc", turned)[:, None, None]

    sizes = SymbolicSizes(("B", "C", "N"))
    shapes = {"x": ((1009, 1423, 1877, 1877), (1112, 1600, 2128, 2128))}
    assert to_graph(*trace(whitened, shapes, sizes), sizes).outputs[0].shape == (1009, 1877, 1877, 1423)


@pytest.mark.parametrize("upper", [False, True])
def test_factors_of_cholesky_solve_in_two_steps(upper: bool) -> None:
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    factor, right = torch.linalg.cholesky(x @ x.mT, upper=upper), torch.randn(3, 5, 2, dtype=torch.float64)
    made = LOOP_RULES[_aten.cholesky_solve.default](right, factor, upper)
    torch.testing.assert_close(made, torch.cholesky_solve(right, factor, upper))
    inverse = LOOP_RULES[_aten.cholesky_inverse.default](factor, upper)
    torch.testing.assert_close(inverse, torch.cholesky_inverse(factor, upper))


@pytest.mark.parametrize("count", [1, 4, 30])  # those of 30 rows are torch's
def test_determinants_are_products_of_pivots(count: int) -> None:
    matrix = torch.randn(6, count, count, dtype=torch.float64)  # of both signs
    torch.testing.assert_close(FUNCTION_RULES[torch.linalg.det](matrix), torch.linalg.det(matrix))
    torch.testing.assert_close(FUNCTION_RULES[torch.logdet](matrix), torch.logdet(matrix), equal_nan=True)
    made, due = FUNCTION_RULES[torch.linalg.slogdet](matrix), torch.linalg.slogdet(matrix)
    torch.testing.assert_close((made.sign, made.logabsdet), (due.sign, due.logabsdet))
