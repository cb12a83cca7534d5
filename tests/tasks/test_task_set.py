"""The built-in tasks as a set: each can judge kernels, and says of itself what is so."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from evokernel.errors import TaskError
from evokernel.evaluate.bench.admission import admit
from evokernel.evaluate.numerics.canary import draw_poison, poison_like
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.hidden_shapes import probe_workloads
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.evaluate.worker_mode.baseline_process import panel_functions
from evokernel.task import Task, Workload
from evokernel.tasks import builtin_tasks, load_task, task_hash, task_hashes, task_path

TASKS = builtin_tasks()
CPU = [name for name in TASKS if "cpu" in load_task(name).workloads]
CONFIGS = Path(__file__).parents[2] / "configs"
EMPTY = {"zeros", "ones", "the result for other inputs", "shuffled elements"}
POISON = draw_poison(np.random.default_rng(0))


def on_small(name: str, device_class: str, seed: int = 5) -> tuple[Task, Workload]:
    """The task on a class of devices, its search workload as small as a hidden shape, for tensors on a processor."""
    task = load_task(name).on(device_class)
    workloads = task.workloads[device_class]
    small = probe_workloads(workloads, np.random.default_rng(seed))[1]
    small = replace(small, name="small", distribution=workloads.search[0].distribution)
    return replace(task, workloads={device_class: replace(workloads, search=(small,))}), small


@pytest.mark.parametrize("name", CPU)
def test_tasks_for_a_processor_are_admitted(name: str) -> None:
    task = load_task(name).on("cpu")
    admission = admit(task, "cpu", rng=np.random.default_rng(0))
    assert admission.rejected.keys() >= EMPTY
    assert {f"{tensor.name} passed through" for tensor in task.signature.inputs} <= admission.rejected.keys()
    if len(task.signature.outputs) > 1:
        blank = {f"right answers but for zeros in {tensor.name}" for tensor in task.signature.outputs}
        assert blank <= admission.rejected.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_tasks_for_a_gpu_are_admitted_in_their_precision(name: str) -> None:
    task, _ = on_small(name, "cuda")
    admission = admit(task, "cuda", rng=np.random.default_rng(0))
    assert admission.rejected.keys() >= EMPTY
    assert {"the native operation", "fp64 computed, then rounded"} <= set(admission.passed)


COARSE = {("layernorm_backward", "cpu", "torch"), ("layernorm_backward", "cuda", "torch")}
"""On a processor torch keeps means in 16 bits here, and has a formula where large numbers cancel; not so on a GPU."""


def _device_only(name: str, baseline: str) -> bool:
    # torch has no histogram of integers on a processor, and the vendor's library is for GPUs
    return (name, baseline) == ("histogram", "torch") or baseline == "cuBLASLt"


BASELINES = [
    pytest.param(name, device, baseline, marks=[pytest.mark.slow] if baseline == "torch.compile" else [])
    for name in TASKS
    for device in load_task(name).workloads
    for baseline in panel_functions(load_task(name).on(device))
    if not (device == "cuda" and _device_only(name, baseline))
]


@pytest.mark.filterwarnings("default")  # torch's compiler warns of its own workings
@pytest.mark.parametrize(("name", "device", "baseline"), BASELINES)
def test_baselines_compute_what_the_task_says(name: str, device: str, baseline: str) -> None:
    task, small = on_small(name, device)
    coarse = (name, device, baseline) in COARSE
    for seed, distribution in enumerate(task.distributions[: 1 if coarse else 2]):
        inputs = draw(task, small, distribution, np.random.default_rng(seed))
        before = {key: array.clone() for key, array in inputs.items()}
        expected = expect(task, small, inputs, distribution=distribution)
        wrote = [poison_like(output.native, POISON) for output in expected.outputs]
        with torch.no_grad():
            panel_functions(task)[baseline]({**inputs, **small.dims}, tuple(wrote))
        found = judge_output(expected, wrote, poison=POISON)
        assert found is None or (coarse and found.ratio < 8), found.feedback
        assert all(torch.equal(before[key], inputs[key]) for key in inputs)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_attention_may_round_its_weights_as_tensor_cores_need_them_and_no_further(dtype: str) -> None:
    task = load_task("attention")
    task = replace(task, workloads={"cuda": replace(task.workloads["cuda"], dtype=dtype)}).on("cuda")
    dims = {"B": 1, "H": 2, "S": 512, "D": 64}
    workload = replace(task.workloads["cuda"].search[0], name="small", dims=dims)
    inputs = draw(task, workload, "normal", np.random.default_rng(0), device="cpu")
    expected = expect(task, workload, inputs, distribution="normal")

    def mixed(rounded: torch.dtype) -> torch.Tensor:
        scores = inputs["q"].float() @ inputs["k"].float().transpose(2, 3) / 8
        scores.masked_fill_(torch.ones(512, 512, dtype=torch.bool).triu(1), float("-inf"))
        weights = torch.softmax(scores, dim=3).to(rounded).float()
        return (weights @ inputs["v"].float()).to(inputs["q"].dtype)

    assert judge_output(expected, (mixed(inputs["q"].dtype),)) is None
    assert judge_output(expected, (mixed(torch.float32),)) is None
    assert judge_output(expected, (mixed(torch.float8_e4m3fn),)) is not None


def test_histogram_counts_on_a_gpu_as_on_a_processor() -> None:
    """The one operation that a processor lacks, on numbers of a kind that it has."""
    task, small = on_small("histogram", "cuda")
    inputs = draw(task, small, "wide", np.random.default_rng(0))
    counts = torch.full((small.sizes["B"],), -1, dtype=torch.int32)
    panel_functions(task)["torch"]({"x": inputs["x"].float(), **small.dims}, (counts,))
    assert torch.equal(counts, task.reference(**inputs, **small.dims))


@pytest.mark.parametrize("name", TASKS)
def test_the_work_of_every_workload_is_counted(name: str) -> None:
    for device in load_task(name).workloads:
        task = load_task(name).on(device)
        workloads = task.workloads[device]
        every = (*workloads.search, *workloads.holdout)
        assert len({workload.name for workload in every}) == len(every)
        for workload in every:
            outputs = sum(tensor.bytes_at(workload.sizes) for tensor in task.signature.outputs)
            touched = sum(tensor.bytes_at(workload.sizes) for tensor in task.signature.tensors)
            assert outputs < task.bytes_at(workload) <= touched
            assert task.flops_at(workload) >= 0


def test_flops_are_those_of_the_textbook() -> None:
    """Small enough to count by hand: two sequences of three, 1 + 2 + 3 pairs each; a 1x1 image meets one weight."""
    attention, convolution = load_task("attention"), load_task("conv2d_bias_relu")
    assert attention.flops_at(Workload("w", {"B": 2, "H": 1, "S": 3, "D": 8})) == 2 * 6 * (2 * 8 + 2 * 8)
    assert convolution.flops_at(Workload("w", {"N": 1, "C": 1, "H": 1, "W": 1, "K": 1})) == 2
    assert convolution.flops_at(Workload("w", {"N": 1, "C": 5, "H": 2, "W": 2, "K": 7})) == 2 * 5 * 7 * 4 * 4


def test_embedding_counts_the_rows_that_are_read() -> None:
    task = load_task("embedding").on("cuda")
    (workload, *_) = task.workloads["cuda"].search
    tokens = draw(task, replace(workload, dims={**workload.dims, "C": 1}), "normal", np.random.default_rng(0))["tokens"]
    rows, columns = tokens.unique().numel(), workload.sizes["C"]
    moved = 8 * tokens.numel() + 2 * columns * (tokens.numel() + rows)
    assert 0.97 * moved < task.bytes_at(workload) < moved
    many = Workload("many", {"T": 900, "V": 1, "C": 7})
    assert task.bytes_at(many) == 900 * 8 + 900 * 7 * 2


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_a_config_and_a_seed_for_each_class(name: str) -> None:
    assert (CONFIGS / f"{name}.yaml").is_file()
    task = load_task(name)
    assert task.name == name
    assert task.description
    languages = {"cpu": {"cpp"}, "cuda": {"triton"}}
    for device in task.workloads:
        assert languages[device] <= task.seeds.keys()
    assert all(path.is_file() for path in task.seeds.values())


OF_GEMM = ("cublaslt.py", "gemm/task.py", "vendor.py")


@pytest.mark.parametrize(
    ("line", "beside"),
    [
        ("import torch", ()),
        ("from evokernel.tasks.compiled import compiled", ("compiled.py",)),
        ("import evokernel.tasks.gemm.task", OF_GEMM),
        ("from evokernel.tasks.gemm import task", OF_GEMM),
        ("from evokernel.tasks.softmax.task import task", ("compiled.py", "softmax/task.py")),
        ("from evokernel.tasks.nowhere import task", ()),
        ("this is no Python (", ()),
    ],
)
def test_the_hash_of_a_task_covers_what_it_imports_beside_it(
    line: str, beside: tuple[str, ...], tmp_path: Path
) -> None:
    """A change to a shared baseline, or to the task another one is made from, makes it another task."""
    own = tmp_path / "own.py"
    own.write_text(line, encoding="utf-8")
    folder = task_path("gemm").parents[1]
    texts = [own.read_bytes(), *((folder / name).read_bytes() for name in beside)]
    assert task_hash(str(own)) == hashlib.sha256(b"".join(texts)).hexdigest()[:16]


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("import shapes", {"shapes.py"}),
        ("import layers.norm", {"layers/__init__.py", "layers/norm.py", "layers/eps.py"}),
        ("from layers import norm", {"layers/__init__.py", "layers/norm.py", "layers/eps.py"}),
        ("from layers.norm import scale as s", {"layers/__init__.py", "layers/norm.py", "layers/eps.py"}),
        ('source = load_source(HERE / "model.py", sha256="0")', {"model.py", "shapes.py"}),
        ('seeds = {"triton": HERE / "model.py"}', set()),
        ("import torch, nowhere", set()),
        ("def later():\n    import shapes", {"shapes.py"}),
    ],
)
def test_the_hash_of_a_task_covers_the_modules_of_its_folder(line: str, counts: set[str], tmp_path: Path) -> None:
    """A result is worth nothing once what it was compared with has changed, wherever that stands."""
    texts = {
        "model.py": "from shapes import N",
        "shapes.py": "N = 1",
        "layers/__init__.py": "",
        "layers/eps.py": "E = 1",
    }
    texts |= {"layers/norm.py": "from .eps import E\nimport task", "unrelated.py": "x = 1"}
    (tmp_path / "layers").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    own = tmp_path / "task.py"
    own.write_text(line, encoding="utf-8")
    before = task_hash(str(own))
    assert task_hash(str(own)) == before
    changed = set()
    for name, text in texts.items():
        (tmp_path / name).write_text(f"{text}\n# changed", encoding="utf-8")
        if task_hash(str(own)) != before:
            changed.add(name)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert changed == counts


def test_the_hash_of_a_task_is_the_same_wherever_it_and_evokernel_lie(tmp_path: Path) -> None:
    own, shapes = tmp_path / "own.py", tmp_path / "shapes.py"
    own.write_text("import shapes\nfrom evokernel.tasks.compiled import compiled", encoding="utf-8")
    shapes.write_text("N = 1", encoding="utf-8")
    compiled = task_path("gemm").parents[1] / "compiled.py"
    orders = (own, shapes, compiled), (own, compiled, shapes)  # the second is that of some earlier stores
    texts = [b"".join(file.read_bytes() for file in order) for order in orders]
    assert task_hashes(str(own)) == tuple(hashlib.sha256(text).hexdigest()[:16] for text in texts)
    assert task_hash(str(own)) == task_hashes(str(own))[0]


def test_a_task_file_that_is_not_there_is_told_with_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "bias_swiglu_task.py").write_text("")
    with pytest.raises(TaskError, match=r"there is no task file '.*tsk\.py'; did you mean '.*/bias_swiglu_task\.py'"):
        task_path(str(tmp_path / "bias_swiglu_tsk.py"))
    with pytest.raises(TaskError, match=r"there is no task file 'far/away\.py'$"):
        task_path("far/away.py")
