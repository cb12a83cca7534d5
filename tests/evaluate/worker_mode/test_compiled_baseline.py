"""torch's compiler among the baselines: by default, and by trial of many kernels where a config asks for it."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.evaluations import identify
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.worker_mode.baseline_process import panel_functions
from evokernel.records.evaluation import Fidelity
from evokernel.tasks import load_task, task_hash
from evokernel.tasks.compiled import Compiled, compiled
from evokernel.testing import evaluator as contract

THOROUGH = "torch.compile max-autotune"
BASELINES = """    baselines={"torch": product, "torch.compile": compiled(product)},
"""
BEFORE = """from evokernel.tasks.compiled import compiled


def product(inputs, outputs):
    outputs[0].copy_(inputs["a"] @ inputs["b"])


"""


def test_only_what_the_compiler_makes_is_there_twice() -> None:
    for name in ("softmax", "gemm_bias_gelu"):
        task = load_task(name).on("cuda")
        plain, asked = panel_functions(task), panel_functions(task, max_autotune=True)
        assert list(asked) == [*plain, THOROUGH]
        assert isinstance(asked[THOROUGH], Compiled)
        assert all(asked[each] is plain[each] for each in plain)
    gemm = load_task("gemm").on("cuda")
    assert list(panel_functions(gemm, max_autotune=True)) == ["torch", "cuBLASLt"]


def test_a_compiler_that_nobody_needs_is_not_imported() -> None:
    """It takes seconds, in every process of a run."""
    program = """
import sys
from evokernel.evaluate.worker_mode.baseline_process import panel_functions
from evokernel.tasks import load_task
assert len(panel_functions(load_task("softmax").on("cuda"), max_autotune=True)) == 3
print(*(name for name in ("torch._dynamo", "torch._inductor.compile_fx") if name in sys.modules))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_torch_is_told_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, object]] = []

    def compile_nothing(function: object, **settings: object) -> object:
        told.append(settings)
        return lambda inputs, outputs: None

    monkeypatch.setattr(torch, "compile", compile_nothing)
    for each in (compiled(print), compiled(print).thorough()):
        each({}, ())
    assert told == [{"dynamic": False, "mode": None}, {"dynamic": False, "mode": "max-autotune-no-cudagraphs"}]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # torch's compiler warns of its own workings
def test_by_trial_it_computes_the_same() -> None:
    def doubled(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
        outputs[0].copy_(inputs["x"] * 2 + 1)

    x, y = torch.arange(100.0), torch.empty(100)
    with torch.no_grad():
        compiled(doubled).thorough()({"x": x}, (y,))
    assert torch.equal(y, 2 * x + 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_it_is_compiled_for_every_shape() -> None:
    """torch by itself stops at 8, and both modes count together: a baseline would be slower than it is called."""

    def told(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
        outputs[0].copy_(inputs["x"] * 0 + float(torch.compiler.is_compiling()))

    default = compiled(told)
    thorough = default.thorough()
    for size in range(2, 12):
        for each in (default, thorough):
            x, y = torch.zeros(size), torch.zeros(size)
            with torch.no_grad():
                each({"x": x}, (y,))
            assert torch.equal(y, torch.ones(size))


@pytest.mark.slow
def test_a_winner_meets_it_where_that_was_asked_for(tmp_path: Path) -> None:
    path = Path(contract.write_task(tmp_path))
    text = path.read_text(encoding="utf-8").replace('    flops="', BASELINES + '    flops="')
    path.write_text(text.replace("\ntask = ", "\n" + BEFORE + "task = ", 1), encoding="utf-8")
    settings = contract.SETTINGS.model_copy(update={"max_autotune": True, "final_processes": 1})
    language = local_language("cpp", settings)
    driver = contract.EvaluatorDriver(open_evaluator(str(path), language, settings=settings), language)
    try:
        assert set(driver.identity.baseline_us["64x64x64"]) == {"torch", "torch.compile"}  # a search does not wait
        (final,) = driver.evaluate(contract.kernel(), budget=Fidelity.FINAL)
    finally:
        driver.close()
    assert final.ok, final.feedback
    assert set(final.panel) == {"torch", "torch.compile", THOROUGH}
    for speedup in final.panel.values():
        assert 0 < speedup.low <= speedup.value <= speedup.high


def test_only_what_is_asked_for_is_part_of_who_judges() -> None:
    """So the setting alone makes no store of before it judged by somebody else."""
    language = local_language("cpp", contract.SETTINGS)
    hello = {"device": "d", "sheet": {}, "sandbox": "s", "baseline_us": {}}
    without = {
        "sandbox",
        "compile_timeout_s",
        "gpus",
        "expert",
        "max_autotune",
        "hosts",
        "address",
        "devices",
        "cuda_include",
    }
    before = f"{task_hash('gemm')} 1 {EvaluationConfig().model_dump_json(exclude=without)}"

    def judge(*, max_autotune: bool) -> str:
        settings = EvaluationConfig(max_autotune=max_autotune)
        return identify(hello, "gemm", language=language, settings=settings, threads=1, device="cpu").task_hash

    assert judge(max_autotune=False) == hashlib.sha256(before.encode()).hexdigest()[:16]
    assert judge(max_autotune=True) != judge(max_autotune=False)
