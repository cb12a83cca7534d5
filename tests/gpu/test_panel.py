"""Baselines on a GPU: cuBLASLt called directly is right, fits into graphs, and all of a panel is paired."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from evokernel.config.run import SUFFIXES, EvaluationConfig
from evokernel.errors import ConfigError, HarnessError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.device.device_class import this_machine
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity
from evokernel.tasks import load_task
from evokernel.tasks.vendor import multiply

TASK = str(Path(__file__).parent / "panel_task.py")
SUFFIX = {language: suffix for suffix, language in SUFFIXES.items()}

ULP = {torch.float32: 2**-23, torch.float16: 2**-10, torch.bfloat16: 2**-7}
SQUARE, SKINNY, DEEP, ODD = (512, 512, 512), (16, 8192, 1024), (384, 256, 12288), (300, 391, 1603)
SIZES = [SQUARE, SKINNY, DEEP, ODD, (1, 4096, 33), (7, 13, 31)]
THIN = [(1, 1, 1), (4097, 1, 65), (64, 96, 1)]


def normal(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, device="cuda").to(dtype)


def check(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None) -> None:
    """Compare with the product in fp64: an ulp of the output's dtype, and what k additions in fp32 may be off by.

    Where the library adds the bias in a pass of its own, as it does for odd sizes, the product is rounded before that.
    """
    product = a.double() @ b.double()
    due = product if bias is None else product + bias.double()
    allowed = ULP[out.dtype] * due.abs() + 2**-22 * a.shape[1]
    if bias is not None:
        allowed += ULP[out.dtype] * product.abs()
    assert ((out.double() - due).abs() <= allowed).all()


@pytest.mark.parametrize("dtype", ULP, ids=str)
@pytest.mark.parametrize(
    ("size", "biased"),
    [(size, biased) for size in SIZES for biased in (False, True)] + [(size, False) for size in THIN],
)
def test_a_product_is_right(size: tuple[int, int, int], dtype: torch.dtype, biased: bool) -> None:
    m, n, k = size
    a, b, out = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype), normal(m, n, dtype=dtype)
    bias = normal(n, dtype=dtype) if biased else None
    multiply(a, b, out, bias=bias)
    check(out, a, b, bias)


@pytest.mark.parametrize("dtype", ULP, ids=str)
@pytest.mark.parametrize("size", [SQUARE, SKINNY, ODD], ids=str)
def test_counts_are_exact(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    """Parts of a split sum are added in fp32: the count is rounded once."""
    m, n, k = size
    a, b = (torch.randint(0, 2, shape, device="cuda").to(dtype) for shape in ((m, k), (k, n)))
    out = normal(m, n, dtype=dtype)
    multiply(a, b, out)
    assert torch.equal(out, (a.double() @ b.double()).to(dtype))


def test_nothing_is_written_beside_the_result() -> None:
    m, n, k = 64, 64, 64
    a, b, out = normal(m, k, dtype=torch.bfloat16), normal(k, n, dtype=torch.bfloat16), torch.full((3 * m, n), 7.0)
    out = out.to("cuda", torch.bfloat16)
    multiply(a, b, out[m : 2 * m])
    check(out[m : 2 * m], a, b)
    assert (out[:m] == 7).all()
    assert (out[2 * m :] == 7).all()


def test_it_can_be_captured_once_it_has_chosen() -> None:
    m, n, k = 96, 160, 224  # sizes that no other test has
    a, b, out = (normal(*shape, dtype=torch.float16) for shape in ((m, k), (k, n), (m, n)))
    others = tuple(torch.empty_like(each) for each in (a, b, out))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out.zero_()
        with pytest.raises(HarnessError, match="cannot be captured"):
            multiply(a, b, out)
    multiply(a, b, out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        multiply(a, b, out)
        multiply(*others)
    for each in (a, b, *others[:2]):
        each.normal_()
    graph.replay()
    check(out, a, b)
    check(others[2], *others[:2])


@pytest.fixture(params=[False, True])
def allow_tf32(request: pytest.FixtureRequest) -> Iterator[bool]:
    torch.backends.cuda.matmul.allow_tf32 = request.param
    yield request.param
    torch.backends.cuda.matmul.allow_tf32 = False


def test_tf32_is_used_where_torch_may_use_it(allow_tf32: bool) -> None:
    a, b, out = (normal(1024, 1024, dtype=torch.float32) for _ in range(3))
    multiply(a, b, out)
    error = (out.double() - a.double() @ b.double()).abs().max().item()
    assert (error > 2e-3) is allow_tf32, error  # 1024 terms: TF32 keeps 10 bits of each, fp32 23


def final(folder: Path, expert: str, source: str) -> Evaluation:
    """Judge the plain Triton product as a winner; `source` is that of the expert, in a language."""
    file = folder / f"mine{SUFFIX[expert]}"
    file.write_text(source, encoding="utf-8")
    settings = EvaluationConfig(final_processes=2, gpus=1, expert=str(file)).on("cuda")
    machine = this_machine()
    language = local_language("triton", settings, device=machine.limits("cuda"))
    plain = load_task("gemm").seeds["triton"].read_text(encoding="utf-8")

    async def judged() -> Evaluation:
        async with open_evaluator(TASK, language, settings=settings, machine=machine) as evaluator:
            request = EvaluationRequest(Candidate(plain, "triton"), language.program_hash(plain), Fidelity.FINAL)
            return await evaluator.evaluate(request)

    return asyncio.run(judged())


@pytest.mark.parametrize("expert", ["triton", "cuda"])
def test_a_winner_is_paired_with_the_whole_panel(tmp_path: Path, expert: str) -> None:
    found = final(tmp_path, expert, load_task("gemm").seeds[expert].read_text(encoding="utf-8"))
    assert found.ok, found.feedback
    assert set(found.panel) == {"torch", "cuBLASLt", "expert"}
    for name, speedup in found.panel.items():
        print(f"\n{name}: {speedup.value:.3f}x ({speedup.low:.3f} to {speedup.high:.3f})")
        assert 0 < speedup.low <= speedup.value <= speedup.high
    fastest = {timing.workload: timing.baseline for timing in found.timings}
    print(f"fastest: {fastest}; " + ", ".join(f"{timing.workload} is {timing.limit}" for timing in found.timings))
    assert all(timing.limit is not None for timing in found.timings)
    if expert == "triton":  # the very same kernel, by Triton's own launcher
        assert 0.8 < found.panel["expert"].value < 1.25


def test_a_wrong_expert_is_refused(tmp_path: Path) -> None:
    plain = load_task("gemm").seeds["triton"].read_text(encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine\.py is not right"):
        final(tmp_path, "triton", plain.replace("acc = tl.dot(x, y, acc)", "acc = tl.dot(x, y, acc) + 1"))
