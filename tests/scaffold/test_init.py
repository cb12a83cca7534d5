"""`init` on real operations: what it finds out, what it writes, and that the kernel is right."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from evokernel.config.load import load_config
from evokernel.config.run import EvaluationConfig
from evokernel.errors import TaskError
from evokernel.evaluate.client.evaluate_kernel import judge
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Fidelity
from evokernel.scaffold.config_schema import MODELINE, SCHEMA_FILE, config_schema
from evokernel.scaffold.operation.trial import sorted_inputs
from evokernel.scaffold.operation.user_operation import find_subject
from evokernel.scaffold.project import Project, ProjectSettings, _patience, init_project, whole_or_nothing
from evokernel.scaffold.project_seeds import Seed
from evokernel.tasks import load_task
from operators.rewrites.cpp.ir.reader import read

Init = Callable[..., Project]
ON_CPU = ProjectSettings(devices=("cpu",))


def shapes(project: Project) -> dict[str, tuple[str | int, ...]]:
    return {tensor.name: tensor.shape for tensor in project.task.signature.tensors}


def seedless(project: Project) -> str:
    """Return why there is no right plain kernel in C++; nothing where there is one."""
    return next((seed.why for seed in project.seeds if seed.language == "cpp"), "")


def kernel(project: Project) -> str:
    assert not seedless(project), seedless(project)
    assert not project.unfit, project.unfit
    return next(path for path in project.files if path.suffix == ".cpp").read_text(encoding="utf-8")


def loops(source: str) -> list[str]:
    return [line.strip() for line in source.splitlines() if "for (" in line]


def test_function_becomes_one_nest_for_each_value_that_is_kept(init: Init) -> None:
    project = init("biased_gelu", "x: 40x24, w: 24x32, b: 32")
    assert shapes(project) == {"x": ("M", "K"), "w": ("K", "N"), "b": ("N",), "out": ("M", "N")}
    assert project.task.flops.startswith("2 * M * N * K")
    assert project.task.precision.reduction == "K"
    source = kernel(project)
    assert len(loops(source)) == 4 + 2 + 2
    assert "t[i * N + j] += x[i * K + k] * w[k * N + j];" in source
    assert "t2[i * N + j] = t[i * N + j] + b[j];" in source
    assert len(re.findall(r"\b(std::erf|erff)\(", source.partition("void run")[2])) == 1
    read(source)
    path = next(path for path in project.files if path.suffix == ".yaml")
    assert path.read_text().startswith(MODELINE)
    assert json.loads((path.parent / SCHEMA_FILE).read_text()) == config_schema()
    config = load_config(path)
    assert config.language == "auto"
    assert all(path.is_file() for path in project.task.seeds.values())
    assert config.task == str(project.files[0])


def test_sums_of_a_fixed_length_count_for_the_tolerance_too(tmp_path: Path) -> None:
    """Hidden sizes may be far smaller than what stays fixed: right kernels were refused there."""
    path = tmp_path / "block.py"
    path.write_text(
        "import torch\n\n\nclass Block(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.up, self.down = torch.nn.Linear(24, 48), torch.nn.Linear(48, 24)\n"
        "        self.norm = torch.nn.LayerNorm(24)\n\n"
        "    def forward(self, x):\n        return self.norm(x + self.down(torch.relu(self.up(x))))\n"
    )
    project = init_project(path, inputs="x: 40x24", out=tmp_path / "out", settings=ON_CPU)
    assert project.task.precision.reduction == "K + 24"


def test_arguments_that_are_no_tensors_are_said_to_be_fixed(init: Init) -> None:
    project = init("rmsnorm", "x: 12x40, weight: 40, eps: 1e-3")
    assert project.task.fixed == {"eps": 1e-3}
    assert project.task.description.startswith("out[M,N] = rmsnorm(x[M,N], weight[N], eps=0.001), ")
    assert 'evokernel init operations.py --inputs "eps: ..."' in project.files[0].read_text(encoding="utf-8")


def test_equal_sizes_are_told_apart(init: Init) -> None:
    project = init("biased_gelu", "x: 32x32, w: 32x32, b: 32")
    assert shapes(project) == {"x": ("M", "K"), "w": ("K", "N"), "b": ("N",), "out": ("M", "N")}


def test_rmsnorm_keeps_the_row_value_outside_the_inner_loop(init: Init) -> None:
    source = kernel(init("rmsnorm", "x: 12x40, weight: 40"))
    assert len(loops(source)) == (1 + 4) + 1 + 2  # a sum with several totals has four
    assert "t2[i] = 1.0f / std::sqrt(t[i] / static_cast<float>(N) + 1e-06f);" in source
    assert "out[i * N + j] = x[i * N + j] * t2[i] * weight[j];" in source


def test_a_long_sum_that_loses_too_much_in_float_is_kept_in_double(init: Init) -> None:
    project = init("mean_length", "x: 512x512, y: 512x512")
    assert shapes(project)["out"] == ()
    assert "double sum = 0.0;" in kernel(project)
    task = next(path for path in project.files if path.name.endswith("_task.py"))
    settings = EvaluationConfig(quick_ms=1)
    verdict = judge(Candidate(kernel(project), "cpp"), str(task), budgets=(Fidelity.QUICK,), settings=settings)
    assert verdict.ok, verdict.last.feedback


def test_module_in_the_form_of_kernelbench(operations: Path, tmp_path: Path) -> None:
    path = tmp_path / "bench.py"
    text = operations.read_text(encoding="utf-8").replace("class LinearRelu", "class Model")
    text += "\n\ndef get_inputs():\n    return [torch.rand(8, 24)]\n\n\ndef get_init_inputs():\n    return [24, 16]\n"
    path.write_text(text, encoding="utf-8")
    project = init_project(path, out=tmp_path / "out", settings=ON_CPU)
    assert project.task.name == "bench"
    assert shapes(project)["linear_weight"] == ("N", "K")
    assert project.task.precision.exact_on_integers
    assert "std::max<float>(t2[i * N + j] + linear_bias[j], 0.0f)" in kernel(project)


def test_sizes_that_a_module_fixes_become_constants(init: Init) -> None:
    project = init("Norm", "x: 16x24")
    assert shapes(project) == {"x": ("N", 24), "norm_weight": (24,), "norm_bias": (24,), "out": ("N", 24)}
    source = kernel(project)
    assert "t2[i] = t[i] / 24.0f;" in source
    assert "static_cast" not in source


def test_softmax_computes_exponentials_once(init: Init) -> None:
    source = kernel(init("softmax", "x: 16x48"))
    assert len(re.findall(r"= (std::exp|expf)\(", source)) == 1
    assert "std::vector<float> t2(M * N);" in source
    assert "out[i * N + j] = t2[i * N + j] / t3[i];" in source


def test_two_outputs(init: Init) -> None:
    project = init("two", "x: 16x48, y: 16x48")
    assert shapes(project)["out0"] == ("M", "N")
    assert shapes(project)["out1"] == ("M",)
    assert "out1[i] = sum;" in kernel(project)
    assert "std::vector" not in kernel(project)


def test_sizes_in_steps(init: Init) -> None:
    project = init("heads", "x: 12x32")
    assert shapes(project) == {"x": ("N", "4 * K"), "out": ("N", "K")}
    assert project.layout.example == {"N": 12, "K": 8}
    kernel(project)


def test_operation_without_a_loop_is_named_and_the_kernel_is_left_to_the_user(init: Init) -> None:
    project = init("bessel", "x: 16x24")
    assert "i0e" in seedless(project)
    seed = next(path for path in project.files if path.suffix == ".cpp").read_text(encoding="utf-8")
    assert 'extern "C" void run(const float* x, int64_t M, int64_t N, float* out) {' in seed
    assert "return torch.special.i0e(x)" in seed
    assert "evokernel evaluate bessel.cpp --task bessel_task.py" in seed
    assert not project.unfit


def test_operation_that_fails_on_a_gpu_is_for_the_processor_and_is_told_what_to_change(init: Init) -> None:
    project = init("shifted", "scores: 16x24", "cpu", "cuda")
    assert list(project.task.workloads) == ["cpu"]
    assert "of operations.py (return scores + torch.arange(scores.shape[-1]))" in project.remarks[0]
    assert "device=scores.device" in project.remarks[0]
    with pytest.raises(TaskError, match="smoothed would fail on a GPU"):
        init("smoothed", "rows: 16x24", "cuda")
    with pytest.raises(TaskError, match="shifted would fail on a GPU"):
        init("shifted", "scores: 16x24", "cuda")


def test_values_on_which_no_honest_answer_passes_are_left_out_and_it_is_said(init: Init) -> None:
    project = init("share", "x: 16x24, y: 16x24")
    assert not project.unfit, project.unfit
    assert "offset" not in project.task.distributions
    assert any("the distribution" in remark and "offset" in remark for remark in project.remarks)


def test_values_on_which_the_function_raises_are_left_out_and_it_is_said(init: Init) -> None:
    project = init("factor", "x: 16x24")
    assert not project.unfit, project.unfit
    assert "normal" in project.task.distributions
    assert "wide" not in project.task.distributions
    assert any("wide" in remark and "has no one result" in remark for remark in project.remarks)


@pytest.mark.parametrize("name", ["ranked", "counted", "chosen"])
def test_kernel_may_order_equal_numbers_otherwise(init: Init, name: str) -> None:
    (seed,) = init(name, "x: 16x600").seeds
    assert (seed.why, seed.remark) == ("", "")


def test_task_that_cannot_judge_is_said_to_be_unfit(init: Init) -> None:
    assert "ignores 'x'" in init("blind", "x: 16x24").unfit or "zeros" in init("blind", "x: 16x24").unfit


def test_task_notices_that_its_file_has_changed(init: Init, operations: Path) -> None:
    from evokernel.tasks import load_task

    project = init("softmax", "x: 16x48")
    operations.write_text(operations.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    with pytest.raises(TaskError, match="has changed since the task was written"):
        load_task(str(project.files[0]))


def test_files_are_not_replaced_unasked(init: Init, operations: Path, tmp_path: Path) -> None:
    init("softmax", "x: 16x48")
    with pytest.raises(TaskError, match="--force"):
        init("softmax", "x: 16x48")
    init_project(operations, name="softmax", inputs="x: 16x48", out=tmp_path / "out", force=True, settings=ON_CPU)


def test_a_folder_that_cannot_be_written_is_refused_before_the_operation_is_run(tmp_path: Path) -> None:
    file = tmp_path / "operation.py"
    file.write_text("raise RuntimeError('this was run')\n")
    with pytest.raises(TaskError, match=r"cannot write to .*new: .*operation\.py: Not a directory; .* with --out$"):
        init_project(file, out=file / "new")
    with pytest.raises(TaskError, match="this was run"):
        init_project(file, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_low_precision_is_for_the_gpu(init: Init) -> None:
    project = init("normed", "x: bf16[16x48], weight: bf16[48]", "cpu", "cuda")
    task = project.task
    assert {tensor.dtype for tensor in task.on("cpu").signature.tensors} == {"float32"}
    assert {tensor.dtype for tensor in task.on("cuda").signature.tensors} == {"bfloat16"}
    assert set(task.workloads["cuda"].baselines or ()) == {"torch", "torch.compile"}
    assert "bfloat16 on a GPU, float32 on a processor" in project.remarks[0]
    kernel(project)


def test_indices_stay_below_the_size_that_they_index(init: Init) -> None:
    project = init("looked_up", "table: 40x16, index: int64[12] < 40")
    index = next(tensor for tensor in project.task.signature.inputs if tensor.name == "index")
    assert (index.dtype, index.below) == ("int64", shapes(project)["table"][0])
    assert "= table[index[i] * " in kernel(project)
    assert not project.unfit


@pytest.mark.slow
def test_eight_bit_floats_are_for_the_gpu(init: Init) -> None:
    project = init("widened", "x: fp8[16x48], weight: e5m2[48]", "cpu", "cuda")
    task = project.task
    assert [tensor.dtype for tensor in task.on("cuda").signature.inputs] == ["float8_e4m3fn", "float8_e5m2"]
    assert {tensor.dtype for tensor in task.on("cpu").signature.tensors} == {"float32"}
    assert "float8_e4m3fn, float8_e5m2 on a GPU, float32 on a processor" in project.remarks[0]
    kernel(project)


def test_results_may_be_rounded_to_eight_bits(init: Init) -> None:
    project = init("rounded", "x: 16x48")
    assert [tensor.dtype for tensor in project.task.signature.outputs] == ["float8_e4m3fn", "float32"]
    assert "uint8_t* out0" in project.seeds[0].entry
    assert "= to_float8_e4m3fn(" in kernel(project)


def test_numbers_up_to_the_largest_of_eight_bits_may_be_rounded_on_their_way_there(init: Init) -> None:
    project = init("quantised_bytes", "x: 16x48")
    assert not project.unfit
    assert [remark for remark in project.remarks if "has no one result" in remark] == []
    assert "to_float8_e4m3fn(" in kernel(project)


def test_a_function_that_gives_nan_for_all_random_inputs_is_refused(init: Init) -> None:
    with pytest.raises(TaskError, match="rooted gives NaN for 100% or more of its results"):
        init("rooted", "x: 16x48")


@pytest.mark.parametrize(
    ("name", "inputs", "dtypes"),
    [
        ("masked", "x: 16x24, mask: bool[16x24]", "float32 bool float32"),
        ("quantised", "x: 16x24, scale: 16x1", "float32 float32 int8 bool int64 int8 int8"),
        ("product", "a: int8[16x24], b: i8[24x40]", "int8 int8 int32"),
        ("image", "u: u8[16x24], mean: 24", "uint8 float32 float32"),
    ],
)
def test_masks_and_bytes_get_kernels(init: Init, name: str, inputs: str, dtypes: str) -> None:
    project = init(name, inputs)
    assert [tensor.dtype for tensor in project.task.signature.tensors] == dtypes.split()
    assert ("integers01" in project.task.distributions) == (name != "quantised")  # a scale of 0 has no answer
    assert (project.task.flops == "2 * M * N * K") == (name == "product")
    kernel(project)


def test_inputs_keep_their_layout(operations: Path, tmp_path: Path) -> None:
    given = (torch.randn(24, 40).T, torch.randn(24, 32), torch.randn(32))
    project = init_project(operations, name="biased_gelu", example_inputs=given, out=tmp_path / "out", settings=ON_CPU)
    x = project.task.signature.inputs[0]
    assert (x.shape, x.strides) == (("M", "K"), (1, "M"))
    assert "x[k * M + i]" in kernel(project)


def test_own_sizes_come_first(operations: Path, tmp_path: Path) -> None:
    settings = ProjectSettings(devices=("cpu",), shapes=("x: 30x50", "x: 60x20", "x: 9000x2000"))
    project = init_project(operations, name="softmax", inputs="x: 16x48", out=tmp_path / "out", settings=settings)
    assert "your size 9000x2000 would take long on cpu, where only 16x48, 30x50, 60x20, 2250x" in project.remarks[0]
    assert list(project.task.workloads) == ["cpu"]
    found = [tuple(each.dims.values()) for each in project.task.workloads["cpu"].search]
    assert found[:3] == [(16, 48), (30, 50), (60, 20)]
    wrong = ProjectSettings(shapes=("x: 30x50x2",))
    with pytest.raises(TaskError, match="--shapes"):
        init_project(operations, name="softmax", inputs="x: 16x48", out=tmp_path / "other", settings=wrong)


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    old, new = tmp_path / "old.cpp", tmp_path / "new.py"
    old.write_text("mine")

    def interrupted() -> None:
        with whole_or_nothing([old, new]):
            new.write_text("half = 1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [path.name for path in tmp_path.iterdir()] == ["old.cpp"]


EDGES = "import torch\ndef bins(x, edges): return torch.bucketize(x, edges), torch.searchsorted(edges, x, right=True)\n"
CSR = """
import torch

def rows(crow, col, values, x):
    row = torch.repeat_interleave(torch.arange(crow.numel() - 1), crow.diff(), output_size=col.numel())
    return x.new_zeros(crow.numel() - 1).index_add(0, row, values * x[col])

def get_inputs():
    return [torch.arange(9) * 4, torch.arange(32) % 24, torch.randn(32), torch.randn(24)]
"""


@pytest.mark.parametrize("inputs", ["", "crow: int64[9] sorted < 33, col: int64[32] < 24, values: 32, x: 24"])
def test_offsets_get_a_generator(tmp_path: Path, inputs: str) -> None:
    (folder := tmp_path / "own").mkdir()  # the sandbox reads it as another user
    (path := folder / "ops.py").write_text(CSR, encoding="utf-8")
    project = init_project(path, inputs=inputs, out=folder / "out", settings=ON_CPU)
    assert kernel(project)
    assert not [*folder.rglob("__pycache__")]
    crow, col = project.task.signature.inputs[:2]
    assert crow.generator is not None
    assert crow.below == f"{project.task.signature.inputs[2].shape[0]} + 1"
    assert col.generator is None


def test_offsets_in_no_order_are_told_how_to_be_sorted(tmp_path: Path) -> None:
    (folder := tmp_path / "own").mkdir()
    # with a negative length torch may write outside its results, and end the process
    (path := folder / "ops.py").write_text(CSR.replace(".diff()", ".diff().relu()"), encoding="utf-8")
    inputs = "crow: int64[9] < 33, col: int64[32] < 24, values: 32, x: 24"
    project = init_project(path, inputs=inputs, out=folder / "out", settings=ON_CPU)
    assert '--inputs "crow: int64[9] sorted < 33"' in project.unfit


def test_operation_of_a_library_is_named_and_it_is_said_what_to_do(tmp_path: Path) -> None:
    told = list[str]()
    path = tmp_path / "ops.py"
    path.write_text("import torch\ndef spectrum(a): return torch.linalg.eigvalsh(a + a.mT)\n", encoding="utf-8")
    settings = ProjectSettings(devices=("cpu",), tell=told.append)
    project = init_project(path, inputs="a: 12x12", out=tmp_path, settings=settings)
    assert re.search(r"torch\.linalg\.eigh \(aten\._linalg_eigh\) is a function of a library.*Write", seedless(project))
    assert any("spectrum.cpp" in text for text in told)


def test_what_is_searched_is_sorted(tmp_path: Path) -> None:
    (folder := tmp_path / "own").mkdir()
    (path := folder / "ops.py").write_text(EDGES, encoding="utf-8")
    project = init_project(path, inputs="x: 16x24, edges: 12", out=folder / "out", settings=ON_CPU)
    assert kernel(project)
    assert [tensor.generator is not None for tensor in project.task.signature.inputs] == [False, True]
    task = load_task(str(project.files[0]))
    edges = task.signature.inputs[1].generator
    assert edges is not None
    numbers = edges(task.workloads["cpu"].search[0].sizes, 0)
    assert (np.diff(numbers) >= 0).all()
    assert (numbers == numbers.round()).sum() == len(numbers) // 2  # zeros and ones among the inputs equal some


def test_what_is_searched_by_way_of_a_sorter_need_not_be_sorted(tmp_path: Path) -> None:
    text = "import torch\ndef bins(x, edges): return torch.searchsorted(edges, x, sorter=edges.argsort())\n"
    (path := tmp_path / "ops.py").write_text(text, encoding="utf-8")
    assert sorted_inputs(find_subject(path, inputs="x: 16x24, edges: 12")) == ()


@pytest.mark.parametrize(("cpp_s", "triton_s", "limit"), [(1, 9, ""), (9, 9, "60"), (1, 40, "300"), (9, 40, "300")])
def test_a_config_gives_slow_compilers_more_time(cpp_s: float, triton_s: float, limit: str) -> None:
    seeds = [Seed("cpp", Path("k.cpp"), "", compile_s=cpp_s), Seed("triton", Path("k.py"), "", compile_s=triton_s)]
    assert _patience(seeds) == (
        f"evaluation: {{compile_timeout_s: {limit}}} # a kernel to start from compiles long\n" if limit else ""
    )
