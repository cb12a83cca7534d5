"""Rows whose length is a multiple of 8 alone are moved by wide loads, and all other rewrites stay possible."""

import importlib.util
import re
from pathlib import Path

import pytest

from evokernel.tasks import load_task
from operators.rewrites.library import RewriteMove
from operators.rewrites.triton import TRITON_REWRITES
from tests.operators.rewrites.triton.sources import GEMM


def move(source: str) -> RewriteMove:
    (found,) = (each for each in TRITON_REWRITES.moves(source) if each.rewrite == "row_alignment")
    return found


def others(source: str) -> set[tuple[str, str]]:
    return {(each.rewrite, each.label) for each in TRITON_REWRITES.moves(source) if each.rewrite != "row_alignment"}


@pytest.mark.parametrize("name", ["gemm", "softmax", "attention", "conv2d_bias_relu", "layernorm"])
def test_it_takes_no_other_rewrite_away(name: str) -> None:
    source = Path(load_task(name).seeds["triton"]).read_text(encoding="utf-8")
    changed = TRITON_REWRITES.apply(source, move(source))
    assert others(changed) == others(source)
    assert not any(each.rewrite == "row_alignment" for each in TRITON_REWRITES.moves(changed)), "once is enough"


def test_each_launch_passes_a_divisor_of_each_size() -> None:
    changed = TRITON_REWRITES.apply(GEMM, move(GEMM))
    assert changed.count("import math\n") == 1
    for size in "MNK":
        assert f"    {size} = {size} // ROW_UNIT_{size} * ROW_UNIT_{size}\n" in changed
        assert f"ROW_UNIT_{size}=math.gcd({size}, 16)" in changed
    assert TRITON_REWRITES.apply(f"import math\n{GEMM}", move(f"import math\n{GEMM}")).count("import math\n") == 1


def test_what_values_are_multiplied_by_or_compared_with_is_no_size() -> None:
    source = (
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def scale_kernel(x, y, factor, BLOCK: tl.constexpr):\n"
        "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    value = tl.load(x + at) * factor\n"
        "    tl.store(y + at, tl.where(value < factor, value, 0.0))\n\n\n"
        "def run(x, factor, y):\n    scale_kernel[(4,)](x, y, factor, 64)\n"
    )
    assert not any(each.rewrite == "row_alignment" for each in TRITON_REWRITES.moves(source))


@pytest.mark.parametrize(("divisor", "wide"), [(1, False), (8, True)])
def test_the_compiler_makes_wide_loads_of_it(tmp_path: Path, divisor: int, wide: bool) -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget

    path = tmp_path / "aligned.py"
    path.write_text(TRITON_REWRITES.apply(GEMM, move(GEMM)))
    spec = importlib.util.spec_from_file_location("aligned", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel = next(value for name, value in vars(module).items() if name.endswith("_kernel"))
    names = kernel.arg_names
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP": 8}
    kinds = {name: "*bf16" if name in "abc" else "i32" if name in "MNK" else "constexpr" for name in names}
    values = {(at,): blocks.get(name, divisor) for at, name in enumerate(names) if kinds[name] == "constexpr"}
    aligned = {(at,): [["tt.divisibility", 16]] for at, name in enumerate(names) if name in "abc"}
    source = triton.compiler.ASTSource(kernel, kinds, constexprs=values, attrs=aligned)
    ptx = triton.compile(
        source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "enable_fp_fusion": True}
    ).asm["ptx"]
    assert bool(re.search(r"cp\.async\.cg\.shared\.global \[[^]]*\], \[[^]]*\], 0x10|st\.global\.v4", ptx)) == wide
