"""Inductor's program as a Triton seed: made without a GPU, compiled for sm_90, right for sizes it was not made for."""

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from evokernel.errors import EvokernelError
from evokernel.scaffold.inductor.narrow_operands import narrow_operands
from evokernel.scaffold.inductor.seed import NoInductorSeed, inductor_seed
from evokernel.scaffold.inductor.template_choice import best_template, numbers
from evokernel.scaffold.inductor.trace_sizes import check_workloads, trace_sizes, workloads_of
from evokernel.source.tunables import read_tunables
from evokernel.task import Workload, WorkloadSet
from evokernel.tasks import builtin_tasks, load_task
from tests.support.warm_python import NO_GPU, WarmPython

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")

RIGHT = "Triton's interpreter gives the reference's results"
PATIENT: dict[str, Any] = {"timeout_s": 900.0, "compare_s": 900.0}
"""Limits that a busy machine keeps, too."""
COMPILER = ("torch._inductor.compile_fx", "torch._inductor.choices", "torch.export._trace", "sympy.tensor.tensor")
INTERPRETER = ("evokernel.scaffold.inductor.interpreter_process", "triton")
HEAD = """\
import warnings
import torch
import torch.nn.functional as F
from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

def size(*values):
    return Workload("x".join(map(str, values)), dict(zip(DIMS, values)))
"""
TAIL = """
task = Task(
    name="own",
    reference=reference,
    signature=Signature(inputs=INPUTS, scalars=tuple(map(Scalar, SCALARS)), outputs=OUTPUTS),
    workloads={"cuda": WorkloadSet(search=(SIZE,), holdout=(OTHER,), probe=PROBE, dtype=DTYPE)},
    flops="1",
    precision=Precision(reduction="1000"),
)
"""
OUT = 'Tensor("out", {}, role=Role.OUTPUT)'
MATRIX = '("R", "C")'
X = 'Tensor("x", ("R", "C"))'


class Maker(Protocol):
    """Makes the program of a task file."""

    def __call__(self, task_spec: str) -> str: ...


@pytest.fixture(scope="module")
def made() -> Iterator[Maker]:
    """Make programs in forks of two processes; test_init.py and test_extract.py start new ones, as users do."""
    python = WarmPython({"TRITON_INTERPRET": INTERPRETER, "": COMPILER if NO_GPU else ("torch",)})
    yield lambda task_spec: inductor_seed(task_spec, run=python, **PATIENT).text
    python.close()


def written(
    folder: Path,
    body: str,
    *,
    dims: str,
    inputs: str,
    outputs: str,
    least: int = 4,
    most: int = 200,
    dtype: str = "bfloat16",
    equal: int = 512,
) -> str:
    """A task file whose first workload has all sizes equal to `equal`; hidden ones are from `least` to `most`."""
    names = dims.split()
    lines = [
        f"DIMS = {names}",
        f"SCALARS = {names}",
        f"INPUTS = ({inputs},)",
        f"OUTPUTS = ({outputs}{',' if outputs else ''})",
        f"SIZE, OTHER = size(*{[equal] * len(names)}), size(*{[300, 260, 140][: len(names)]})",
        f"PROBE, DTYPE = {dict.fromkeys(names, (least, most))}, {dtype!r}",
    ]
    path = folder / "own_task.py"
    path.write_text("\n".join([HEAD, *lines, body, TAIL]))
    return str(path)


@pytest.mark.slow
@pytest.mark.heavy
def test_equal_sizes_stay_apart_and_the_program_says_how_it_was_checked(tmp_path: Path) -> None:
    body = "def reference(x, w, **_):\n    return F.rms_norm(x, x.shape[1:], w, 1e-6)"
    inputs = 'Tensor("x", ("R", "C")), Tensor("w", ("C",))'
    task = written(tmp_path, body, dims="R C", inputs=inputs, outputs=OUT.format(MATRIX))
    text = inductor_seed(task, **PATIENT).text
    assert RIGHT in text
    assert "def run(x, w, R, C, out):" in text
    assert {"R0_BLOCK_0", "NUM_WARPS_0"} <= read_tunables(text).values.keys()
    (run,) = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == "run")
    assert {"R", "C"} <= {node.id for node in ast.walk(run) if isinstance(node, ast.Name)}
    assert "512" not in ast.unparse(run)


KINDS = (("y", ""), ("flag", ', "bool"'), ("byte", ', "uint8"'))
FUNCTIONS = {
    "two outputs that are one": (
        "def reference(x, **_):\n    y = x * 2\n    return y, y",
        *("R C", X, f"{OUT.format(MATRIX)}, {OUT.format(MATRIX).replace('out', 'other')}"),
    ),
    "an input as it is": ("def reference(x, **_):\n    return x", "R C", X, OUT.format(MATRIX)),
    "numbers of the call": (
        "def reference(x, R, C, **_):\n    return x.view(C, R) / R",
        *("R C", X, OUT.format('("C", "R")')),
    ),
    "complex numbers": (
        "def reference(x, **_):\n"
        "    x = x if x.dtype == torch.float64 else x.float()\n"
        "    return (torch.fft.fft(x) * torch.polar(x, x)).real",
        *("R C", X, OUT.format(MATRIX)),
    ),
    "cells, bags and the best of each place": (
        "def reference(x, w, i, **_):\n"
        "    best = torch.zeros_like(x).scatter_reduce(1, i, x, 'amax', include_self=False)\n"
        "    shares = F.adaptive_avg_pool2d(x[None], (2, 3)).flatten()\n"
        "    return best, torch.gru_cell(x, x, w, w), shares, F.embedding_bag(i, w, mode='mean')",
        "R C",
        f'{X}, Tensor("w", ("3 * C", "C")), Tensor("i", {MATRIX}, "int64", below="C")',
        f"{OUT.format(MATRIX)}, {OUT.format(MATRIX).replace('out', 'state')}, "
        f"{OUT.format('(6,)').replace('out', 'shares')}, {OUT.format(MATRIX).replace('out', 'bags')}",
    ),
    "in place": (
        "def reference(x, **_):\n    return x.sub_(x.mean(0))",
        *("R C", 'Tensor("x", ("R", "C"), role=Role.INOUT)', ""),
    ),
    "strides": (
        "def reference(x, y, **_):\n    return x + y",
        *("R C", 'Tensor("x", ("R", "C"), strides=(1, "R")), Tensor("y", ("R", "C"))', OUT.format(MATRIX)),
    ),
    "a mask and a flag": (
        "def reference(x, m, **_):\n    return torch.where(m, x, -x), (x > 0) & m, (x > 0).to(torch.uint8)",
        *("R C", f'{X}, Tensor("m", {MATRIX}, "bool")'),
        ", ".join(f'Tensor("{name}", {MATRIX}{kind}, role=Role.OUTPUT)' for name, kind in KINDS),
    ),
    "argmax": ("def reference(x, **_):\n    return x.argmax(1)", "R C", X, OUT.format('("R",), dtype="int64"')),
    "a module with a number of its own, a warning and statistics that it updates": (
        "class Model(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.norm, self.scale = torch.nn.BatchNorm1d(9, affine=False), 0.37\n"
        "    def forward(self, x):\n"
        "        if x.shape[0] != 9:\n"
        "            warnings.warn('not 9 rows')\n"
        "        return self.norm(x) * self.scale\n"
        "model = Model()\n"
        "def reference(x, **_):\n"
        "    kept = {key: each.to(x if each.is_floating_point() else x.device, copy=True)\n"
        "            for key, each in model.named_buffers()}\n"
        "    return torch.func.functional_call(model, kept, (x,))",
        *("R", 'Tensor("x", ("R", 9))', OUT.format('("R", 9)')),
    ),
    "statistics that a call reads and updates": (
        "class Model(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.register_buffer('mean', torch.full((9,), 0.25))\n"
        "        self.register_buffer('count', torch.tensor(3.0))\n"
        "    def forward(self, x):\n"
        "        total = self.count + x.shape[0]\n"
        "        self.mean += (x.mean(0) - self.mean) * x.shape[0] / total\n"
        "        return x - self.mean\n"
        "model = Model()\n"
        "def reference(x, **_):\n"
        "    kept = {key: each.to(x, copy=True) for key, each in model.named_buffers()}\n"
        "    return torch.func.functional_call(model, kept, (x,))",
        *("R", 'Tensor("x", ("R", 9))', OUT.format('("R", 9)')),
    ),
    "tables of numbers that the file holds": (
        "LEVELS = torch.tensor([-1.0, -0.25, 0.0, 0.5, 3.0])\nMIX = torch.tensor([[0, 2, 1], [1, 0, 5]])\n"
        "def reference(x, i, **_):\n    return LEVELS.to(x)[i] * x + MIX.to(x.device)[i % 2].sum(-1)",
        *("R C", f'{X}, Tensor("i", {MATRIX}, "int64", below="5")', OUT.format(MATRIX)),
    ),
    "a product with packed weights": (
        "def reference(x, packed, scales, **_):\n"
        "    codes = torch.stack((packed & 15, packed >> 4), -1).reshape(len(packed), -1)\n"
        "    return x @ (codes.to(x.dtype) * scales.repeat_interleave(32, 1)).T",
        "M N K",
        'Tensor("x", ("M", "32 * K")), Tensor("packed", ("N", "16 * K"), "uint8"), Tensor("scales", ("N", "K"))',
        OUT.format('("M", "N")'),
    ),
    "a product of batches": (
        "def reference(a, b, **_):\n    return torch.relu(a @ b)",
        *("M N K", 'Tensor("a", (3, "M", "K")), Tensor("b", (3, "K", "N"))', OUT.format('(3, "M", "N")')),
    ),
}


def _of(names: str, shapes: str, out: str, kind: str = "") -> tuple[str, str]:
    """Inputs and outputs of a signature: shapes apart by semicolons, by name."""
    pairs = zip(names.split(), shapes.split("; "), strict=True)
    return ", ".join(f'Tensor("{name}", ({shape}))' for name, shape in pairs), ", ".join(
        f'Tensor("out{place}", ({shape}){kind}, role=Role.OUTPUT)' for place, shape in enumerate(out.split("; "))
    )


LIBRARY = {
    "strided": (
        "def reference(x, w, b, **_):\n    return F.relu(F.conv1d(x, w, b, stride=2, padding=3, dilation=2))",
        "B C K",
        *_of("x w b", '"B", "K", 37; "C", "K", 4; "C",', '"B", "C", 19'),
    ),
    "strided over any size": (
        "def reference(x, w, **_):\n    return F.conv1d(x, w - w.mean(), stride=2, padding=1)",
        "B C L",
        *_of("x w", '"B", 4, "L"; "C", 4, 3', '"B", "C", "(L + 1) // 2"'),
    ),
    "grouped": (
        "def reference(x, w, **_):\n    return F.conv2d(x, w, padding=1, groups=2) * 2",
        "B H C",
        *_of("x w", '"B", 6, "H", 9; "2 * C", 3, 3, 2', '"B", "2 * C", "H", 10'),
    ),
    "depthwise": (
        "def reference(x, w, b, **_):\n    return F.silu(F.conv2d(x, w, b, padding=1, stride=(1, 2), groups=6))",
        "B H",
        *_of("x w b", '"B", 6, "H", 9; 6, 1, 3, 3; 6,', '"B", 6, "H", 5'),
    ),
    "as many groups as channels": (
        "def reference(x, w, **_):\n    return F.conv1d(F.pad(x, (3, 0)), w[:, None], groups=w.shape[0])",
        "B C L",
        *_of("x w", '"B", "C", "L"; "C", 4', '"B", "C", "L"'),
    ),
    "transposed": (
        "def reference(x, w, b, **_):\n    return F.conv_transpose2d(x, w, b, (2, 1), (1, 0), (1, 0), 1, (2, 1)) * 2",
        "B H",
        *_of("x w b", '"B", 5, "H", 4; 5, 9, 3, 2; 9,', '"B", 9, "2 * H + 2", 5'),
    ),
    "transposed in groups": (
        "def reference(x, w, **_):\n    return F.conv_transpose1d(x, w, stride=3, padding=1, groups=2)",
        "B L",
        *_of("x w", '"B", 4, "L"; 4, 3, 4', '"B", 6, "3 * L - 1"'),
    ),
    "of volumes": (
        "def reference(x, w, **_):\n    return torch.softmax(F.conv3d(x, w, stride=(1, 2, 1)), 1)",
        "B D",
        *_of("x w", '"B", 3, "D + 1", 7, 6; 9, 3, 2, 3, 2', '"B", 9, "D", 3, 5'),
    ),
    "large windows": (
        "def reference(x, **_):\n"
        "    return F.max_pool1d(x, 27, 2, 13), F.avg_pool2d(x, (1, 27), (1, 2), (0, 13), count_include_pad=False)",
        "B L",
        *_of("x", '"B", 3, "2 * L"', '"B", 3, "L"; "B", 3, "L"'),
    ),
    "windows that end outside": (
        "def reference(x, **_):\n    return F.max_pool2d(x, 3, 2, ceil_mode=True)",
        "B H",
        *_of("x", '"B", "H", 6', '"B", "H // 2", 3'),
    ),
    "recurrent": (
        "def reference(x, w, v, **_):\n"
        "    start = x.new_zeros(1, x.shape[1], 8)\n"
        "    out, _, cell = torch.lstm(x, (start, start), [w, v], False, 1, 0.0, False, False, False)\n"
        "    return out, cell[0]",
        "L B",
        *_of("x w v", '"L", "B", 6; 32, 6; 32, 8', '"L", "B", 8; "B", 8'),
    ),
    "sorted": (
        "def reference(x, **_):\n    return x.sort(0, descending=True)[0] * 2",
        "R C",
        *_of("x", '"R", "C"', MATRIX[1:-1]),
    ),
    "functions that fix a size": (
        "def reference(x, **_):\n"
        "    taps, best = torch.tensor([2.0, 0.5], device=x.device), x.argmax(1, keepdim=True)\n"
        "    shown = F.one_hot(best[:, 0], x.shape[1]) * x * taps[0]\n"
        "    return shown, (x > 0).flatten().cumsum(0).view_as(x), torch.take_along_dim(x, best, 1) + taps[1]",
        "R C",
        'Tensor("x", ("R", "C"))',
        'Tensor("a", ("R", "C"), role=Role.OUTPUT), Tensor("i", ("R", "C"), "int64", role=Role.OUTPUT), '
        'Tensor("m", ("R", 1), role=Role.OUTPUT)',
    ),
    "selected": (
        "def reference(x, **_):\n    return (*x.topk(3, 1), x.median(1)[0])",
        "R C",
        'Tensor("x", ("R", "C"))',
        'Tensor("a", ("R", 3), role=Role.OUTPUT), Tensor("i", ("R", 3), "int64", role=Role.OUTPUT), '
        'Tensor("m", ("R",), role=Role.OUTPUT)',
    ),
}

SMALL = {
    **{"of volumes": 5, "large windows": 5, "recurrent": 5},
    **dict.fromkeys(("sorted", "selected", "windows that end outside"), 40),
}
"""The largest hidden size of those that the interpreter takes minutes for otherwise."""


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARY)
def test_what_a_compiler_gives_to_a_library(made: Maker, name: str, tmp_path: Path) -> None:
    body, dims, inputs, outputs = LIBRARY[name]
    most = SMALL.get(name, 200)
    spec = written(tmp_path, body, dims=dims, inputs=inputs, outputs=outputs, most=most)
    assert RIGHT in made(spec)


@pytest.mark.slow
def test_a_size_that_is_computed_with_may_be_1(made: Maker, tmp_path: Path) -> None:
    body = "def reference(x, y, **_):\n    return torch.cat((x * x.shape[1] ** -0.5, y), 1).logsumexp(1)"
    inputs, outputs = _of("x y", '"R", "C"; "R", 2', '"R"')
    spec = written(tmp_path, body, dims="R C", inputs=inputs, outputs=outputs, least=1, dtype="float32")
    assert RIGHT in made(spec)


@pytest.mark.slow
def test_few_channels_for_each_group_are_a_sum_that_is_written_out(made: Maker, tmp_path: Path) -> None:
    body = "def reference(x, w, **_):\n    return F.conv1d(x, w, padding=2, groups=6)"
    tensors = _of("x w", '"B", 6, "L"; "6 * C", 1, 3', '"B", "6 * C", "L + 2"')
    spec = written(tmp_path, body, dims="B L C", inputs=tensors[0], outputs=tensors[1], equal=2)
    few = Path(spec).read_text().replace("140]", "2]").replace("'C': (4, 200)", "'C': (1, 3)")
    Path(spec).write_text(few)
    text = made(spec)
    assert RIGHT in text
    assert "tl.dot" not in text
    assert "tl.range" not in text


@pytest.mark.slow
@pytest.mark.parametrize(("more", "tile"), [("", "128 128"), (", stride=2", "128 64")])
def test_a_convolution_of_fp32_begins_with_a_tile_that_stays_in_registers(
    made: Maker, more: str, tile: str, tmp_path: Path
) -> None:
    body = f"def reference(x, w, **_):\n    return F.conv_transpose1d(x, w{more})"
    length = "2 * L + 1" if more else "L + 2"
    tensors = _of("x w", '"B", 16, "L"; 16, 32, 3', f'"B", 32, "{length}"')
    spec = written(tmp_path, body, dims="B L", inputs=tensors[0], outputs=tensors[1], most=9, dtype="float32", equal=16)
    found = read_tunables(made(spec)).values
    begins = (str(found[name]) for name in ("BLOCK_M_0", "BLOCK_N_0", "BLOCK_K_0", "NUM_WARPS_0"))
    assert " ".join(begins) == f"{tile} 16 8"


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_ones_own(made: Maker, name: str, tmp_path: Path) -> None:
    body, dims, inputs, outputs = FUNCTIONS[name]
    spec = written(tmp_path, body, dims=dims, inputs=inputs, outputs=outputs)
    text = made(spec)
    assert RIGHT in text


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_function_that_casts_for_speed_is_compared_without_its_casts(made: Maker, dtype: str, tmp_path: Path) -> None:
    body = "def reference(x, w, **_):\n    return F.silu(x.bfloat16() @ w.to(torch.bfloat16)).to(x.dtype)"
    inputs, outputs = f'{X}, Tensor("w", ("C", "R"))', OUT.format('("R", "R")')
    text = made(written(tmp_path, body, dims="R C", inputs=inputs, outputs=outputs, dtype=dtype))
    assert RIGHT in text
    assert "bfloat16" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["softmax", "rmsnorm", "gemm_bias_gelu", "cross_entropy", "layernorm_backward", "embedding"]
)
def test_builtin_tasks_get_right_programs(made: Maker, name: str) -> None:
    text = made(name)
    assert RIGHT in text
    held = "# tune-where: XBLOCK_0 * R0_BLOCK_0 <= 4096 * NUM_WARPS_0"
    assert held in text or name not in ("softmax", "rmsnorm"), "a thread holds no more of a block than registers do"


UNROLLED = "hold only where"
REFUSED = {
    "aten.mode": "def reference(x, **_):\n    return torch.mode(x, 1)[0][:, None] + x",
    "random numbers": "def reference(x, **_):\n    return F.dropout(x, 0.5, training=True)",
    r"uses model\.mean, whose numbers differ": (
        "class Model(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.register_buffer('mean', torch.arange(99.0))\n"
        "    def forward(self, x):\n"
        "        self.mean += 1\n"
        "        return x - self.mean.sum()\n"
        "model = Model()\n"
        "def reference(x, **_):\n"
        "    kept = {key: each.to(x, copy=True) for key, each in model.named_buffers()}\n"
        "    return torch.func.functional_call(model, kept, (x,))"
    ),
    "is wrong": "def reference(x, **_):\n    return x * (2 if x.shape[0] > 250 else 3)",
    "outside of its program": (
        "def reference(x, **_):\n    first = torch.zeros(x.shape[1], device=x.device)\n    first[0] = 1\n"
        "    return torch.fft.ifft(torch.fft.fft(x.float()) * first).abs() + x"
    ),
    UNROLLED: "def reference(x, **_):\n    return sum(x[:, i : i + 1] for i in range(x.shape[1])) + x",
}


@pytest.mark.slow
@pytest.mark.parametrize("reason", REFUSED)
def test_others_are_refused_in_one_line(made: Maker, reason: str, tmp_path: Path) -> None:
    equal = 24 if reason == UNROLLED else 512
    spec = written(tmp_path, REFUSED[reason], dims="R C", inputs=X, outputs=OUT.format(MATRIX), equal=equal)
    with pytest.raises(NoInductorSeed, match=reason) as refused:
        made(spec)
    assert "\n" not in str(refused.value)


def test_it_ends_in_time() -> None:
    with pytest.raises(NoInductorSeed, match="took more than 0"):
        inductor_seed("softmax", timeout_s=0.05)


def test_the_refusal_is_an_error_of_ours() -> None:
    assert issubclass(NoInductorSeed, EvokernelError)


@pytest.mark.parametrize("name", builtin_tasks())
def test_traced_sizes_are_distinct_and_checked_ones_within_their_ranges(name: str) -> None:
    task = load_task(name)
    task = task.on("cuda" if "cuda" in task.workloads else "cpu")
    sizes = trace_sizes(task)
    free = [sizes.dims[each] for each in sizes.free]
    assert len(set(free)) == len(free)
    assert all(value % 2 for value in free)
    probe = workloads_of(task).probe
    assert sizes.free == set(probe)
    for workload in check_workloads(task):
        for dimension in probe:
            low, high = workloads_of(task).range_of(dimension, workload.sizes)
            assert low <= workload.dims[dimension] <= high


def test_traced_sizes_exceed_the_least_that_a_reference_takes(tmp_path: Path) -> None:
    body = "def reference(x, w, **_):\n    return torch.cat((x[:, :64] * w, x[:, 64:]), 1)"
    inputs = 'Tensor("x", ("R", "C")), Tensor("w", (64,))'
    spec = written(tmp_path, body, dims="R C", inputs=inputs, outputs=OUT.format(MATRIX), least=64, most=90, equal=64)
    sizes = trace_sizes(load_task(spec).on("cuda"))
    assert sizes.free == {"R", "C"}
    assert all(66 <= sizes.dims[name] <= 300 for name in "RC")


def test_sizes_of_narrow_ranges_are_traced_with_numbers_of_their_own() -> None:
    search, holdout = (Workload("", dict(zip("MNK", sizes, strict=True))) for sizes in ((5, 5, 5), (7, 7, 3)))
    narrow = WorkloadSet((search,), (holdout,), dict.fromkeys("MNK", (2, 3)))
    sizes = trace_sizes(replace(load_task("gemm").on("cuda"), workloads={"cuda": narrow}))
    assert sizes.free == {*"MNK"}
    assert sorted(sizes.dims[name] for name in "MNK") == [4, 5, 7]


def test_checked_sizes_are_the_largest_quick_ones() -> None:
    task = load_task("gemm").on("cuda")
    _, odd, even = check_workloads(task)
    _, *small = check_workloads(task, quick=lambda each: task.flops_at(each) < 20_000)
    assert all(task.flops_at(each) > 20_000 for each in (odd, even))
    assert [each.name for each in small] == ["odd", "even"]
    assert all(1_000 < task.flops_at(each) < 20_000 for each in small)


def test_a_product_keeps_its_16_bit_operands() -> None:
    text = "def k(p, q):\n    t = tl.load(p + i)\n    u = t.to(tl.float32)\n    a = u.broadcast_to(s)\n"
    text += "    v = tl.load(q + i)\n    w = v.to(tl.float32)\n    b = w.broadcast_to(s)\n"
    for dtypes, expected in (({"p": "bf16", "q": "bf16"}, ("t", "v")), ({"p": "bf16", "q": "fp16"}, ("u", "w"))):
        (kernel,) = ast.parse(text).body
        assert isinstance(kernel, ast.FunctionDef)
        narrow_operands(kernel, dtypes)
        for name in expected:
            assert f"{name}.broadcast_to(s)" in ast.unparse(kernel)


def test_numbers_of_a_template() -> None:
    assert numbers("ALLOW_TF32=False, BLOCK_K=16, num_stages=1") == {"BLOCK_K": 16, "num_stages": 1}


def test_a_product_in_registers_begins_with_more_threads_and_a_tile_that_is_less_deep() -> None:
    menu = (
        (128, 128, 64, 4),
        (128, 128, 32, 4),
        (128, 128, 32, 8),
        (128, 128, 16, 8),
        (64, 64, 16, 4),
        (256, 64, 16, 8),
    )
    named = (f"BLOCK_M={m}, BLOCK_N={n}, BLOCK_K={k}, num_stages=3, num_warps={warps}" for m, n, k, warps in menu)
    templates = [SimpleNamespace(description=text) for text in named]
    assert best_template(templates, in_registers=False) is templates[2]
    assert best_template(templates, in_registers=True) is templates[3]
    assert best_template(templates[:2] + templates[4:], in_registers=True) is templates[4]
