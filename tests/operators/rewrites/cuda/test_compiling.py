"""Rewritten CUDA kernels compile for a GPU: by NVRTC, for compute capability 9.0, without a device."""

from typing import Any

import pytest

from evokernel.cuda import Module
from evokernel.evaluate.inside.driver.nvrtc import find_nvrtc
from evokernel.languages.gpu.cuda_static_check import static_check
from evokernel.source.tunables import read_tunables, with_values
from operators.rewrites.cuda import CUDA_REWRITES
from tests.operators.rewrites.cuda.sources import SEEDS, after
from tests.support.nvrtc import needs_nvrtc

pytestmark = needs_nvrtc


def compiled(source: str) -> bytes:
    assert static_check(source) is None
    names: dict[str, Any] = {}
    exec(source, names)
    (module,) = (value for value in names.values() if isinstance(value, Module))
    return find_nvrtc().compile(module._source, module._options, target="sm_90a")


@pytest.mark.parametrize("task", SEEDS)
def test_each_rewrite_compiles_alone(task: str) -> None:
    plain = compiled(SEEDS[task])
    for move in CUDA_REWRITES.moves(SEEDS[task]):
        rewritten = CUDA_REWRITES.apply(SEEDS[task], move)
        space = read_tunables(rewritten)
        assert space.allows(space.values)
        assert compiled(rewritten) != plain, move


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_vectors_of_each_width_compile_with_rows_in_registers(lanes: int) -> None:
    source = after(SEEDS["softmax"], "vector_load", "register_row", "restrict")
    assert compiled(with_values(source, {"LANES": lanes, "KEEP": 16}))


@pytest.mark.parametrize("order", [("vector_tile", "prefetch_tile"), ("prefetch_tile",)])
def test_tiles_of_other_sizes_compile(order: tuple[str, ...]) -> None:
    source = after(SEEDS["gemm"], *order)
    assert compiled(with_values(source, {"BLOCK_M": 256, "BLOCK_N": 32, "BLOCK_K": 64, "WARPS_M": 4, "WARPS_N": 1}))
