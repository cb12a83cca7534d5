"""op.py of an export: who answers which call, alone and compiled. The kernels are stand-ins that mark their answers."""

from dataclasses import replace
from pathlib import Path
from types import FunctionType

import pytest
import torch

from evokernel.evaluate.client.evaluate_kernel import KernelVerdict
from evokernel.export.dispatch import Dispatch, winners
from evokernel.export.dispatch_tree import MeasuredSize, fit_tree
from evokernel.export.export_kernel import leaders
from evokernel.export.reference import reference_files
from evokernel.export.size_domain import size_domain
from evokernel.export.torch_operator import op_file
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluatorIdentity, Fidelity, Mode, Stage, Status
from evokernel.records.timing import Speedup, Timing
from evokernel.report.verdicts import over_torch
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from tests.support.exports import run_beside
from tests.support.stores import StoreBuilder, make_timing

SOURCES = {"kernel": "// one", "kernel_other": "// other"}


def scaled(x: torch.Tensor, gain: torch.Tensor, *, add: float, **_: int) -> torch.Tensor:
    return x.T * gain + add


SCALED = Task(
    name="scaled transpose",
    description="y[N,M] = x[M,N]^T * gain[M] + add",
    reference=scaled,
    signature=Signature(
        (Tensor("x", ("M", "N")), Tensor("gain", ("M",))),
        (Scalar("M"), Scalar("N"), Scalar("add", "float32")),
        (Tensor("y", ("N", "M"), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            (Workload("small", {"M": 4, "N": 6, "add": 1.0}), Workload("large", {"M": 8, "N": 6, "add": 1.0})),
            (Workload("held", {"M": 5, "N": 7, "add": 1.0}),),
            {},
        )
    },
    flops="2 * M * N",
)


def judged(module: str, *timings: Timing, held: float) -> KernelVerdict:
    identity = EvaluatorIdentity("t" * 16, "a processor", "g++ -O3", "1", Mode.WORKER, {}, "none")
    candidate = Candidate(SOURCES[module], "cpp")
    key = identity.key("p" * 16, Fidelity.FINAL)
    metrics = {"holdout_speedup": held}
    found = Evaluation(key, candidate.id, Status.OK, Stage.FINAL, timings=timings, metrics=metrics)
    return KernelVerdict(candidate, identity, (found,))


def two(*, held: float = 1.5) -> dict[str, KernelVerdict]:
    return {
        "kernel": judged("kernel", make_timing("small", 2.0), make_timing("large", 1.5), held=held),
        "kernel_other": judged("kernel_other", make_timing("small", 1.2), make_timing("large", 1.8), held=0.9),
    }


STAND_IN = """
import torch
def run(*tensors, out, **numbers):
    assert all(tensor.is_contiguous() for tensor in tensors)
    x, gain = tensors
    out[0].copy_(x.T * gain + numbers["add"] + {mark})
"""
USE = """
import torch
from op import scaled_transpose as scaled
def mark(found, x, gain, add=1.0):
    "Who answered: 0 torch, 1 the one kernel, 2 the other."
    off = found - (x.T * gain + add)
    assert found.is_contiguous() and found.dtype == x.dtype
    assert torch.allclose(off, off.flatten()[0].expand_as(off), atol=1e-5)
    return round(float(off.flatten()[0]))
def draw(m, n, dtype=torch.float32, **more):
    return torch.randn(m, n, dtype=dtype, **more), torch.randn(m, dtype=dtype)
"""


def use(
    folder: Path, script: str, task: Task = SCALED, stand_in: str = STAND_IN, dispatch: Dispatch | None = None
) -> str:
    """Run a script beside op.py and two kernels that mark their answers, without evokernel."""
    accept_from = dispatch.accept_from if dispatch else 0.0
    (folder / "op.py").write_text(op_file(task, two(), dispatch=dispatch, accept_from=accept_from), encoding="utf-8")
    (folder / "reference.py").write_text(reference_files(task.reference)["reference.py"], encoding="utf-8")
    for mark, module in enumerate(SOURCES, start=1):
        (folder / f"{module}.py").write_text(stand_in.replace("{mark}", str(mark)), encoding="utf-8")
    return run_beside(folder, f"import warnings\nwarnings.simplefilter('error', UserWarning)\n{script}")


def test_two_exports_are_packages_in_one_process(tmp_path: Path) -> None:
    for folder, mark in (("one", 1), ("two", 2)):
        (tmp_path / folder).mkdir()
        use(tmp_path / folder, USE, stand_in=STAND_IN.replace("{mark}", str(mark)))
    script = """
import torch
from one.op import scaled_transpose as one
from two.op import scaled_transpose as two
x, gain = torch.randn(4, 6), torch.randn(4)
for mark, made in ((1, one(x, gain, add=1.0)), (2, two(x, gain, add=1.0))):
    torch.testing.assert_close(made, x.T * gain + 1 + mark)
"""
    run_beside(tmp_path, script)


def test_other_values_of_what_the_task_fixed_are_refused(tmp_path: Path) -> None:
    fixed = {"temperature": 0.7, "mode": "tanh", "add": 1.0, "nothing": float("nan")}  # a kernel takes `add`
    reference = FunctionType(scaled.__code__, {**scaled.__globals__, "fixed": fixed})
    use(
        tmp_path,
        USE
        + """
x, gain = draw(4, 6)
assert mark(scaled(x, gain, add=1.0), x, gain) == 1
assert mark(scaled(x, gain, add=1.0, temperature=0.7, mode="tanh"), x, gain) == 1
assert mark(torch.compile(scaled)(x, gain, add=1.0, temperature=0.7), x, gain) == 1
for other in ({"temperature": 0.5}, {"mode": "none"}):
    try:
        scaled(x, gain, add=1.0, **other)
    except ValueError as error:
        assert "computes with temperature=0.7, mode='tanh' alone" in str(error)
    else:
        raise SystemExit(f"{other} was taken")
""",
        replace(SCALED, reference=reference),
    )
    text = (tmp_path / "op.py").read_text(encoding="utf-8")
    assert "It computes with temperature=0.7, mode='tanh' and refuses other values" in text


def test_each_workload_has_its_fastest_kernel_and_held_out_ones_only_where_it_wins() -> None:
    found = {winner.workload.name: winner.module for winner in winners(SCALED, two())}
    assert found == {"small": "kernel", "large": "kernel_other", "held": "kernel"}
    slow = {winner.workload.name for winner in winners(SCALED, two(held=0.7))}
    assert slow == {"small", "large"}


def test_kernels_answer_where_they_were_judged_and_torch_everywhere_else(tmp_path: Path) -> None:
    use(
        tmp_path,
        USE
        + """
for (m, n), who in {(4, 6): 1, (8, 6): 2, (5, 7): 1, (4, 7): 0, (1, 1): 0}.items():
    x, gain = draw(m, n)
    assert mark(scaled(x, gain, add=1.0), x, gain) == who, (m, n)
x, gain = draw(4, 6)
assert mark(scaled(x, gain, add=2.0), x, gain, 2.0) == 0  # judged at add = 1 alone
assert mark(scaled(x.T.contiguous().T, gain, add=1.0), x, gain) == 1  # another layout is made contiguous
buffer = torch.randn(25)
assert mark(scaled(buffer[1:].view(4, 6), gain, add=1.0), buffer[1:].view(4, 6), gain) == 1  # not aligned
wide, gain = draw(4, 6, torch.float64)
assert mark(scaled(wide, gain, add=1.0), wide, gain) == 0
""",
    )


def at(m: int, n: int, one: float, other: float) -> tuple[dict[str, int | float], MeasuredSize]:
    """Return speed-ups of both kernels over torch at a size, exact to 1 %."""
    speedups = {name: Speedup(each, each * 0.99, each * 1.01) for name, each in zip(SOURCES, (one, other), strict=True)}
    return {"M": m, "N": n, "add": 1.0}, MeasuredSize({"M": m, "N": n}, speedups)


RANGED = replace(
    SCALED,
    workloads={
        "cpu": WorkloadSet(
            (Workload("small", {"M": 4, "N": 6, "add": 1.0}), Workload("large", {"M": 64, "N": 6, "add": 1.0})),
            (Workload("held", {"M": 5, "N": 64, "add": 1.0}),),
            {"M": (1, 9), "N": (1, 9)},
        )
    },
)
MEASURED = (
    *(at(4, 6, 1.5, 1.1), at(64, 6, 1.2, 1.6), at(5, 64, 0.8, 0.7)),
    *(at(m, n, 1.5, 1.1) for m in (4, 16) for n in (8, 16)),
    *(at(m, n, 1.2, 1.6) for m in (32, 64) for n in (8, 16)),
    *(at(m, n, 0.9, 0.7) for m in (4, 64) for n in (48, 64)),
)


def dispatched(accept_from: float = 1.0) -> Dispatch:
    tree = fit_tree([point for _, point in MEASURED], accept_from=accept_from)
    return Dispatch(size_domain(RANGED), tree, MEASURED, accept_from)


def test_a_place_tells_how_many_sizes_were_measured_in_it() -> None:
    for points, said in ((MEASURED[:1], "1 size"), (MEASURED[:1] * 2, "2 sizes")):
        dispatch = replace(dispatched(), tree=fit_tree([point for _, point in points], accept_from=1.0))
        assert [speed.rpartition(", ")[2] for _, _, speed in dispatch.rows()] == [said]


def test_between_the_workloads_that_arm_answers_which_was_measured_to_be_the_fastest(tmp_path: Path) -> None:
    use(
        tmp_path,
        USE
        + """
import op
expected = {
    **{(4, 7): 1, (20, 8): 1, (33, 8): 2, (60, 12): 2, (4, 60): 0, (5, 64): 0, (4, 6): 1, (64, 6): 2},
    **{(3, 8): 0, (65, 8): 0, (8, 5): 0, (64, 64): 0},  # outside, or in more memory than what was judged
}
for again in range(2):
    for (m, n), who in expected.items():
        x, gain = draw(m, n)
        assert mark(scaled(x, gain, add=1.0), x, gain) == who, (m, n, who)
        assert mark(scaled(x, gain, add=2.0), x, gain, 2.0) == 0
        assert mark(scaled(x.T.contiguous().T, gain, add=1.0), x, gain) == who
op._MOST_CASES = 5
for n in range(6, 30):
    x, gain = draw(7, n)
    scaled(x, gain, add=1.0)
assert len(op._CASES) <= 7, len(op._CASES)
x, gain = draw(10, 8)
compiled = torch.compile(lambda x, gain: scaled(x, gain, add=1.0) * 2, fullgraph=True, dynamic=True, backend="eager")
assert torch.equal(compiled(x, gain), 2 * scaled(x, gain, add=1.0))
""",
        RANGED,
        dispatch=dispatched(),
    )


def test_a_workload_is_left_to_torch_where_its_interval_begins_below_what_is_accepted() -> None:
    def names(accept_from: float, dispatch: Dispatch | None = None) -> dict[str, str]:
        found = winners(RANGED, two(), dispatch=dispatch, accept_from=accept_from)
        return {winner.workload.name: winner.module for winner in found}

    assert names(1.0, dispatched()) == {"small": "kernel", "large": "kernel_other"}
    assert names(0.5, dispatched()) == {"small": "kernel", "large": "kernel_other", "held": "kernel"}
    assert names(1.9) == {"small": "kernel"}
    assert names(9.0) == {}


def test_a_kernel_that_loses_to_another_baseline_is_compared_with_torch() -> None:
    timing = replace(make_timing("small", 0.8), baseline="torch.compile")
    evaluation = replace(judged("kernel", timing, held=1.0).last, panel={"torch": Speedup(1.4, 1.3, 1.5)})
    assert over_torch(evaluation, timing) == Speedup(1.4, 1.3, 1.5)
    assert over_torch(evaluation, replace(timing, baseline="torch")) == timing.speedup
    assert over_torch(replace(evaluation, panel={}), timing) == timing.speedup


PADDED = replace(
    SCALED,
    signature=replace(
        SCALED.signature,
        inputs=(Tensor("x", ("M", "N"), strides=("LDX", 1)), Tensor("gain", ("M",))),
        scalars=(*SCALED.signature.scalars, Scalar("LDX")),
    ),
    workloads={
        "cpu": WorkloadSet(
            (
                Workload("small", {"M": 4, "N": 6, "LDX": 9, "add": 1.0}),
                Workload("large", {"M": 8, "N": 6, "LDX": 6, "add": 1.0}),
            ),
            (Workload("held", {"M": 5, "N": 7, "LDX": 8, "add": 1.0}),),
            {},
        )
    },
)


def test_kernels_answer_for_the_strides_they_were_judged_at(tmp_path: Path) -> None:
    use(
        tmp_path,
        USE
        + """
def padded(m, n, ld, offset=0):
    return torch.randn(m * ld + offset)[offset:].as_strided((m, n), (ld, 1), offset)
gains = {m: torch.randn(m) for m in (4, 5, 8)}
for (m, n, ld), who in {(4, 6, 9): 1, (8, 6, 6): 2, (5, 7, 8): 1, (4, 6, 6): 0, (4, 6, 10): 0, (8, 6, 9): 0}.items():
    x = padded(m, n, ld)
    assert mark(scaled(x, gains[m], add=1.0), x, gains[m]) == who, (m, n, ld)
x = padded(4, 6, 9, offset=1)
assert mark(scaled(x, gains[4], add=1.0), x, gains[4]) == 1  # moved to an aligned place, with its strides
""",
        PADDED,
        STAND_IN.replace("all(tensor.is_contiguous() for tensor in tensors)", "tensors[0].stride(1) == 1").replace(
            "x, gain = tensors", "x, gain = tensors; assert x.data_ptr() % 64 == 0"
        ),
    )


def test_no_kernel_answers_for_tensors_on_several_devices(tmp_path: Path) -> None:
    use(
        tmp_path,
        """
import torch, op
class On:
    "What is asked of a tensor, on any of many GPUs."
    def __init__(self, device, *shape):
        self.device, self.shape, self.dtype = torch.device(device), shape, torch.float32
op.DEVICE = "cuda"
def chosen(*devices):
    x, gain = devices
    return op._chosen({"x": On(x, 4, 6), "gain": On(gain, 4)}, {"add": 1.0})
assert chosen("cuda:1", "cuda:1").kernel is op.kernel
assert chosen("cuda:0", "cuda:1") is chosen("cuda:0", "cpu") is chosen("cpu", "cpu") is None
""",
    )


def test_gradients_are_those_of_torch(tmp_path: Path) -> None:
    use(
        tmp_path,
        USE
        + """
x, gain = draw(4, 6)
x.requires_grad_()
found = scaled(x, gain, add=1.0)
assert mark(found.detach(), x.detach(), gain) == 0
found.sum().backward()
assert torch.equal(x.grad, gain[:, None].expand(4, 6))
with torch.no_grad():
    assert mark(scaled(x, gain, add=1.0), x, gain) == 1
import op
try:
    op._operator(x, gain, 1.0)
except RuntimeError as error:
    assert "no gradients" in str(error)
else:
    raise SystemExit("taken")
""",
    )


def test_no_call_is_taken_for_an_earlier_one_and_nothing_is_kept_of_calls(tmp_path: Path) -> None:
    use(
        tmp_path,
        USE
        + """
import op
cases = dict(op._CASES)
for _ in range(2):
    for (m, n), who in {(4, 6): 1, (8, 6): 2, (6, 4): 0, (5, 7): 1, (24, 1): 0}.items():
        for dtype, add in ((torch.float32, 1.0), (torch.float64, 1.0), (torch.float32, -1.0), (torch.float32, 1)):
            x, gain = draw(m, n, dtype)
            right = who if dtype is torch.float32 and add == 1 else 0
            assert mark(scaled(x, gain, add=add), x, gain, add) == right, (m, n, dtype, add)
        meta = scaled(x.to("meta"), gain.to("meta"), add=1.0)
        assert meta.is_meta and meta.shape == (n, m)
for n in range(300):
    scaled(*draw(4, 100 + n), add=float(n))
assert op._CASES == cases and len(cases) == len(op.KERNELS)
first = scaled(*draw(4, 6), add=1.0)
kept = first.clone()
assert scaled(*draw(4, 6), add=1.0).data_ptr() != first.data_ptr() and torch.equal(first, kept)
""",
    )


def test_a_zero_keeps_its_sign(tmp_path: Path) -> None:
    use(
        tmp_path,
        """
import torch, op
for low, sign in ((0.0, 1.0), (-0.0, -1.0)):
    x = torch.zeros(4)
    op.clamp(x, low=low)
    assert x.tolist() == [sign] * 4
""",
        CLAMP,
        "import math\ndef run(x, *, low, out):\n    x.fill_(math.copysign(1.0, low))\n",
    )


def test_a_kernel_on_a_gpu_gets_tensors_then_scalars_then_outputs(tmp_path: Path) -> None:
    use(
        tmp_path,
        """
import torch, op
op.DEVICE = "cuda"  # as one of two, of which the tensors are on the current one, or not
entered = []
class Entered:
    def __init__(self, device): entered.append(device)
    def __enter__(self): pass
    def __exit__(self, *_): pass
torch.cuda.device = Entered
x, gain = torch.randn(8, 6), torch.randn(8)
case = op._CASES[x.shape, gain.shape, 1.0]
for current, count in ((-1, 0), (0, 1)):  # a processor's tensors say -1
    torch.cuda.current_device = lambda: current
    (y,) = op._by_kernel(case, {"x": x, "gain": gain}, {"add": 1.0})
    assert y.eq(2).all() and y.shape == (6, 8) and len(entered) == count
""",
        stand_in="def run(x, gain, M, N, add, y):\n    assert (M, N, add) == (8, 6, 1.0)\n    y.fill_({mark})\n",
    )


def test_the_file_can_be_loaded_again_and_twice(tmp_path: Path) -> None:
    use(
        tmp_path,
        USE
        + """
import importlib.util, op
x, gain = draw(4, 6)
for _ in range(2):
    importlib.reload(op)
    assert mark(op.scaled_transpose(x, gain, add=1.0), x, gain) == 1
spec = importlib.util.spec_from_file_location("again", "op.py")
again = importlib.util.module_from_spec(spec)
spec.loader.exec_module(again)
again.KERNELS.clear()
again._CASES.clear()
assert mark(again.scaled_transpose(x, gain, add=1.0), x, gain) == 0
assert mark(op.scaled_transpose(x, gain, add=1.0), x, gain) == mark(scaled(x, gain, add=1.0), x, gain) == 1
""",
    )


def test_a_wrong_call_gets_the_error_of_torch(tmp_path: Path) -> None:
    use(
        tmp_path,
        USE
        + """
x, gain = draw(4, 6)
try:
    scaled(x, gain[:3], add=1.0)
except RuntimeError as error:
    assert "size" in str(error)
else:
    raise SystemExit("taken")
""",
    )


@pytest.mark.slow
def test_it_works_under_torch_compile(tmp_path: Path) -> None:
    use(
        tmp_path,
        USE
        + """
import op
for dynamic in (False, True):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, gain: scaled(x * 2, gain, add=1.0) * 1, fullgraph=True, dynamic=dynamic)
    for (m, n), who in {(4, 6): 1, (8, 6): 2, (4, 7): 0}.items():
        x, gain = draw(m, n)
        assert mark(compiled(x, gain), x * 2, gain) == who, (m, n, dynamic)
x, gain = draw(4, 6, torch.float64)
assert mark(compiled(x, gain), x * 2, gain) == 0
x, gain = draw(4, 6)
torch.library.opcheck(op._operator, (x, gain, 1.0), test_utils=("test_schema", "test_faketensor"))
torch.library.opcheck(op._operator, draw(4, 9) + (1.0,))
""",
    )


def extremes(x: torch.Tensor, m: torch.Tensor, **_: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return x.amax(dim=1).float(), x.argmax(dim=1), m.any(dim=1)


EXTREMES = Task(
    name="extremes",
    reference=extremes,
    signature=Signature(
        (Tensor("x", ("M", "N"), "bfloat16"), Tensor("m", ("M", "N"), "bool")),
        (Scalar("M"), Scalar("N")),
        (
            Tensor("top", ("M",), role=Role.OUTPUT),
            Tensor("place", ("M",), "int64", role=Role.OUTPUT),
            Tensor("some", ("M",), "bool", role=Role.OUTPUT),
        ),
    ),
    workloads={"cpu": WorkloadSet((Workload("small", {"M": 2, "N": 3}),), (Workload("held", {"M": 3, "N": 5}),), {})},
    flops="M * N",
)


def test_several_outputs_of_several_dtypes(tmp_path: Path) -> None:
    use(
        tmp_path,
        """
import torch, op
mask = torch.ones(2, 3, dtype=torch.bool)
found = [each.tolist() for each in op.extremes(torch.zeros(2, 3, dtype=torch.bfloat16), mask)]
assert found == [[1.0] * 2, [7] * 2, [True] * 2]
mask = torch.eye(4, dtype=torch.bool)
top, place, some = op.extremes(torch.eye(4, dtype=torch.bfloat16), mask)
assert (top.dtype, place.dtype, place.tolist(), some.tolist()) == (torch.float32, torch.int64, [0, 1, 2, 3], [True] * 4)
for dtype in (torch.bfloat16, torch.float64):
    found = op._operator(torch.eye(4, dtype=dtype, device="meta"), mask.to("meta"))
    assert [each.dtype for each in found] == [torch.float32, torch.int64, torch.bool]
""",
        EXTREMES,
        "def run(x, m, *, out):\n    out[0].fill_({mark}), out[1].fill_(7), out[2].fill_(True)\n",
    )


def clamped(x: torch.Tensor, *, low: float, **_: int) -> torch.Tensor:
    return x.clamp(min=low)


CLAMP = Task(
    name="clamp",
    reference=clamped,
    signature=Signature((Tensor("x", ("N",), role=Role.INOUT),), (Scalar("N"), Scalar("low", "float32")), ()),
    workloads={
        "cpu": WorkloadSet((Workload("small", {"N": 4, "low": 0.0}),), (Workload("held", {"N": 5, "low": 0.0}),), {})
    },
    flops="N",
)


def test_a_tensor_that_is_changed_in_place(tmp_path: Path) -> None:
    use(
        tmp_path,
        """
import torch, op
x = torch.tensor([-1.0, 1.0, -2.0, 2.0])
assert op.clamp(x, low=0.0) is x
assert x.tolist() == [1.0] * 4
y = torch.tensor([-1.0, 1.0, 3.0])
assert op.clamp(y, low=0.0) is y
assert y.tolist() == [0.0, 1.0, 3.0]
wide = torch.full((8,), -1.0)
for part in (wide[::2], wide[1:5]):  # another layout, and not aligned: torch answers in place
    assert op.clamp(part, low=0.0) is part and part.tolist() == [0.0] * 4
for size in (4, 3):
    x, weights = torch.ones(size), torch.ones(size, requires_grad=True)
    total = (x * weights).sum()
    op.clamp(x, low=0.0)
    try:
        total.backward()
    except RuntimeError as error:
        assert "inplace" in str(error)
    else:
        raise SystemExit("a gradient from changed values")
    with torch.inference_mode():
        op.clamp(torch.ones(size), low=0.0)
""",
        CLAMP,
        "def run(x, *, low, out):\n    x.fill_({mark})\n",
    )


@pytest.mark.slow
def test_a_tensor_that_is_changed_in_place_under_torch_compile(tmp_path: Path) -> None:
    use(
        tmp_path,
        """
import torch, op
for dynamic in (False, True):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: op.clamp(x, low=0.0) + 1, fullgraph=True, dynamic=dynamic)
    for size, due in {4: 1.0, 3: 0.0}.items():
        x = torch.full((size,), -1.0)
        assert (compiled(x) - 1).tolist() == x.tolist() == [due] * size, (size, dynamic)
for size in (4, 3):
    torch.library.opcheck(op._operator, (torch.zeros(size), 0.0), test_utils=("test_schema", "test_faketensor"))
""",
        CLAMP,
        "def run(x, *, low, out):\n    x.fill_({mark})\n",
    )


def test_the_leaders_on_single_workloads_are_known(tmp_path: Path) -> None:
    speeds = {"even": (1.5, 1.5), "small first": (2.0, 1.2), "large first": (1.1, 1.9)}
    with StoreBuilder(tmp_path / "run.db") as run:
        for source, (small, large) in speeds.items():
            proposal = run.propose(f"// {source}\nvoid run() {{}}\n")
            right = run.evaluation(proposal.candidate, speedup=1.5)
            timings = (make_timing("small", small), make_timing("large", large))
            run.store.commit(proposal.step, replace(right, timings=timings))
        run.add("// wrong\nvoid run() {}\n", speedup=None)
        names = {ranked.candidate.candidate.source[3:].partition("\n")[0]: ranked for ranked in run.store.best(9)}
        best = names["even"].candidate.candidate
        others = {names[name].candidate.candidate.id for name in ("small first", "large first")}
        assert set(leaders(run.store, besides=best)) == others
        assert set(leaders(run.store, besides=replace(best, language="triton"))) == set()
