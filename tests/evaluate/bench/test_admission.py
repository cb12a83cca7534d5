"""Which tasks are fit to judge kernels, and what an author of an unfit one is told."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from evokernel.errors import TaskError
from evokernel.evaluate.bench.admission import admit
from evokernel.task import (
    ENDS,
    EXTREME,
    SCALED,
    TELLING,
    TINY,
    Precision,
    Role,
    Scalar,
    Signature,
    Task,
    Tensor,
    Workload,
    WorkloadSet,
)
from evokernel.tasks import load_task

F = torch.nn.functional


def make(name, reference, *, inputs=None, outputs=None, scalars=("R", "C"), precision=None, **extra):
    """Build a task over rows R and columns C."""
    dims = {"R": 64, "C": 512, "eps": 1e-5}
    return Task(
        name=name,
        reference=reference,
        signature=Signature(
            inputs=inputs or (Tensor("x", ("R", "C")),),
            scalars=tuple(Scalar(scalar) for scalar in scalars),
            outputs=outputs if outputs is not None else (Tensor("y", ("R", "C"), role=Role.OUTPUT),),
        ),
        workloads={
            "cpu": WorkloadSet(
                search=(Workload("64x512", dims),),
                holdout=(Workload("33x700", {**dims, "R": 33, "C": 700}),),
                probe={"R": (1, 37), "C": (1, 300)},
            )
        },
        flops="R * C",
        precision=precision or Precision(),
        **extra,
    )


def matrix(name, dtype="float32", role=Role.INPUT):
    return Tensor(name, ("R", "C"), dtype, role)


def layernorm(x, g, b, **_):
    return F.layer_norm(x, x.shape[1:], g, b)


def two(x, **_):
    return x.sum(1), torch.softmax(x, 1)


def increment(x, y, **_):
    return x + y


def out(name, *shape, dtype="float32"):
    return Tensor(name, shape, dtype, Role.OUTPUT)


SUM = Precision(reduction="C", exact_on_integers=True)
EXACT = Precision(exact_on_integers=True)
VECTORS = (Tensor("g", ("C",)), Tensor("b", ("C",)))
INDEX = Tensor("index", ("R",), "int64")
FIT = {
    "layernorm": lambda: make(
        "layernorm", layernorm, inputs=(matrix("x"), *VECTORS), precision=Precision(reduction="C")
    ),
    "gelu": lambda: make("gelu", lambda x, **_: F.gelu(x)),
    "rowsum": lambda: make("rowsum", lambda x, **_: x.sum(1), outputs=(out("y", "R"),), precision=SUM),
    "cumsum": lambda: make("cumsum", lambda x, **_: x.cumsum(1), precision=SUM),
    "add": lambda: make(
        "add", increment, inputs=(matrix("x"), matrix("y")), outputs=(out("z", "R", "C"),), precision=EXACT
    ),
    "inplace": lambda: make(
        "inplace",
        lambda x, y, **_: y.add_(x),
        inputs=(matrix("x"), matrix("y", role=Role.INOUT)),
        outputs=(),
        precision=EXACT,
    ),
    "two": lambda: make("two", two, outputs=(out("s", "R"), out("p", "R", "C")), precision=Precision(reduction="C")),
    "int32": lambda: make(
        "int32",
        lambda x, y, **_: x * y + x,
        inputs=(matrix("x", "int32"), matrix("y", "int32")),
        outputs=(out("z", "R", "C", dtype="int32"),),
        precision=EXACT,
    ),
    "intsum": lambda: make(
        "intsum",
        lambda x, **_: x.sum(1, dtype=torch.int32),
        inputs=(matrix("x", "int32"),),
        outputs=(out("z", "R", dtype="int32"),),
        precision=SUM,
    ),
    "float64": lambda: make(
        "float64",
        lambda x, **_: torch.softmax(x, 1),
        inputs=(matrix("x", "float64"),),
        outputs=(out("y", "R", "C", dtype="float64"),),
        precision=Precision(reduction="C"),
    ),
    "bfloat16": lambda: make(
        "bfloat16",
        lambda x, **_: torch.softmax(x, 1),
        inputs=(matrix("x", "bfloat16"),),
        outputs=(out("y", "R", "C", dtype="bfloat16"),),
        precision=Precision(reduction="C"),
    ),
    "float16": lambda: make(
        "float16",
        lambda x, **_: F.gelu(x),
        inputs=(matrix("x", "float16"),),
        outputs=(out("y", "R", "C", dtype="float16"),),
    ),
    "sign": lambda: make("sign", lambda x, **_: x.sign()),
    "total": lambda: make("total", lambda x, **_: x.sum(), outputs=(out("y"),), precision=Precision("R * C", True)),
    "gather": lambda: make(
        "gather", lambda x, index, **_: x[:, index], inputs=(matrix("x"), INDEX), outputs=(out("y", "R", "R"),)
    ),
    "transpose": lambda: make("transpose", lambda x, **_: x.T.contiguous(), outputs=(out("y", "C", "R"),)),
    "rowmax": lambda: make("rowmax", lambda x, **_: x.amax(1), outputs=(out("y", "R"),)),
    "first": lambda: make("first", lambda x, **_: x[:, 0].tanh(), outputs=(out("y", "R"),)),
}


@pytest.mark.parametrize("name", FIT)
@pytest.mark.parametrize("seed", [0, 1])
def test_fit_tasks_are_admitted(name, seed):
    admission = admit(FIT[name](), "cpu", rng=np.random.default_rng(seed))
    assert {"zeros", "ones", "the result for other inputs"} <= set(admission.rejected)
    assert {"the native operation", "fp64 computed, then rounded"} <= set(admission.passed)


@pytest.mark.parametrize("name", ["gemm", "softmax"])
def test_builtin_tasks_are_admitted(name):
    admission = admit(load_task(name), "cpu", rng=np.random.default_rng(0))
    assert "the native operation in chunks" in admission.passed
    assert any("permuted" in name for name in admission.passed)
    assert {"bfloat16 inputs", "float16 inputs", "shuffled elements", "rolled rows"} <= set(admission.rejected)
    assert sum("tail" in name for name in admission.rejected) >= 2


def test_a_reference_that_casts_to_16_bits_takes_inputs_of_16_bits():
    def short(x: torch.Tensor, **_: int) -> torch.Tensor:
        return x.bfloat16().cumsum(1).to(x.dtype)

    admission = admit(make("short", short, precision=SUM), "cpu", rng=np.random.default_rng(0))
    assert {"zeros", "the mean", "shuffled elements"} <= set(admission.rejected)
    assert not {"bfloat16 inputs", "float16 inputs"} & {*admission.rejected, *admission.passed}


UNFIT = {
    "constant": (lambda: make("constant", lambda x, **_: x * 0 + 1), "ignores|ones would pass"),
    "zero": (lambda: make("zero", lambda x, **_: x - x), "zeros would pass|ignores 'x'"),
    "nearly constant": (
        lambda: make("mean", lambda x, **_: (x * 1e-9 + 1).tanh()),
        "would pass as an answer in all of 71 checks",
    ),
    "copy": (lambda: make("copy", lambda x, **_: x.clone()), "x passed through would pass"),
    "copy of a tail": (
        lambda: make("copy", lambda tail, **_: tail.clone(), inputs=(matrix("tail"),)),
        "tail passed through would pass.*only copies",
    ),
    "ignored": (
        lambda: make(
            "ignored",
            lambda x, y, **_: torch.exp(-x * x),
            inputs=(matrix("x"), matrix("y")),
            outputs=(out("z", "R", "C"),),
        ),
        "ignores 'y'",
    ),
    "random": (lambda: make("random", lambda x, **_: x + torch.rand_like(x)), "same inputs"),
    "raises": (lambda: make("raises", lambda x, **_: x @ x), "raised RuntimeError"),
    "keywords": (lambda: make("keywords", lambda x: x), r"raised TypeError.*R, C"),
    "count": (lambda: make("count", two), "must return 1 tensors"),
    "none": (lambda: make("none", lambda x, **_: None), "returned NoneType"),
    "element": (lambda: make("element", lambda x, **_: [3]), "must be a tensor, not int"),
    "shape": (lambda: make("shape", lambda x, **_: x.sum(1)), "has shape"),
    "dtype": (lambda: make("dtype", lambda x, **_: x.double() * 2), "is float64 where float32"),
    "pinned": (lambda: make("pinned", lambda x, **_: x.half() * 2), "do not cast to a fixed float type"),
    "int result": (
        lambda: make(
            "int", lambda x, **_: x.sum(1), inputs=(matrix("x", "int32"),), outputs=(out("y", "R", dtype="int32"),)
        ),
        "is int64 where int32 is needed: cast",
    ),
    "only integers": (
        lambda: make(
            "sum", lambda x, **_: x.sum(1), outputs=(out("y", "R"),), precision=SUM, distributions=("integers01",)
        ),
        "float16 inputs would pass|bfloat16 inputs would pass",
    ),
    "inexact": (
        lambda: make(
            "inexact",
            lambda x, **_: sum(x[:, column] for column in range(x.shape[1]))[:, None] + x,
            precision=Precision(slack=0.1, reduction=1),
        ),
        "Precision.reduction",
    ),
    "empty shape": (
        lambda: make("valid", lambda x, **_: x[:, 3:] * 2, outputs=(out("y", "R", "C - 3"),)),
        "narrow the ranges",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_unfit_tasks_are_refused_with_the_reason(name):
    build, reason = UNFIT[name]
    with pytest.raises(TaskError, match=reason):
        admit(build(), "cpu", rng=np.random.default_rng(3))


def test_each_of_several_outputs_must_matter():
    """A sum over all that cancels: zeros would do for it, though not for the softmax beside it."""

    def apart(x, **_):
        return (x - x).sum(1), torch.softmax(x, 1)

    task = make("two", apart, outputs=(out("s", "R"), out("p", "R", "C")), precision=Precision(reduction="C"))
    with pytest.raises(TaskError, match="right answers but for zeros in s would pass"):
        admit(task, "cpu", rng=np.random.default_rng(3))
    rejected = admit(FIT["two"](), "cpu", rng=np.random.default_rng(3)).rejected
    assert {"right answers but for zeros in s", "right answers but for zeros in p"} <= set(rejected)


def normalised(x, eps, **_):
    return x * torch.rsqrt((x * x).mean(1, keepdim=True) + eps)


@pytest.mark.parametrize(("eps", "shrunk"), [(1e-5, False), (1e-14, True)])
def test_an_epsilon_gets_an_input_that_notices_it(eps, shrunk):
    task = make("rms", normalised, precision=Precision(reduction="64 * C"))
    scalars = (*task.signature.scalars, Scalar("eps", "float32"))
    workloads = task.workloads["cpu"]
    small = tuple(replace(each, dims={**each.dims, "eps": eps}) for each in workloads.search)
    task = replace(
        task,
        signature=replace(task.signature, scalars=scalars),
        workloads={"cpu": replace(workloads, search=small, holdout=small)},
    )
    found = admit(task, "cpu", rng=np.random.default_rng(0))
    assert found.unnoticed == ()
    assert set(found.task.distributions) > {*task.distributions, "patchwork"} if shrunk else True


def test_a_constant_that_no_check_notices_is_named():
    def clamped(x, **_):
        return torch.softmax(x.clamp(max=1e30), 1)

    found = admit(make("clamped", clamped, precision=Precision(reduction="C")), "cpu", rng=np.random.default_rng(0))
    assert found.unnoticed == ("max = 1e+30 of clamp is doubled",)
    assert "no check notices it if max = 1e+30 of clamp is doubled" in found.message


def test_what_running_statistics_alone_show_is_not_named():
    def centred(x, **_):
        torch.zeros((), dtype=torch.int64).add_(1)
        state, ends = x.new_ones(2, x.shape[0]), torch.cat((x.T, -2 * x.T))
        return torch.nn.functional.batch_norm(ends, *state, training=True)[: x.shape[1]].T.contiguous()

    found = admit(make("centred", centred, precision=Precision(reduction="C")), "cpu", rng=np.random.default_rng(0))
    assert found.unnoticed == ()


NARROW = {"inputs": (Tensor("x", ("R", "C"), "int32"),), "outputs": (out("y", "R", dtype="int64"),)}
PLACES = {"outputs": (out("y", "R", "C", dtype="int64"),)}
PLACE = {"outputs": (out("y", "R", dtype="int64"),)}
DIFFERENCES = NARROW | PLACES
ROW_SUMS = {"outputs": (out("y", "R"),), "precision": Precision(reduction="C")}


@pytest.mark.parametrize(
    ("reference", "form", "added"),
    [
        (lambda x, **_: torch.log1p(x.abs()), {}, {"normal/1e2"}),
        (lambda x, **_: torch.expm1(-x.abs()), {}, {"normal/1e2"}),
        (lambda x, **_: torch.nan_to_num(x).sum(1), ROW_SUMS, {"normal/nan"}),
        (lambda x, **_: torch.where(x.isnan(), 0.0, x).sum(1), ROW_SUMS, {"normal/nan"}),
        (lambda x, **_: torch.nansum(x, 1), ROW_SUMS, {"normal/nan"}),
        (lambda x, **_: torch.where(x.isinf(), 0.0, x).sum(1), ROW_SUMS, {"normal/inf"}),
        (lambda x, **_: torch.where(x.isfinite(), x, 0.0).sum(1), ROW_SUMS, {"normal/nan", "normal/inf"}),
        (lambda x, **_: x.sum(1), NARROW, {"normal/large"}),
        (lambda x, **_: x.cumsum(1), NARROW | {"outputs": (out("y", "R", "C", dtype="int64"),)}, {"normal/large"}),
        (lambda x, **_: (x * x).sum(1), NARROW, {"normal/roots"}),  # products that overflow may be anything in C++
        (lambda x, **_: (x.long() * x.long()).sum(1), NARROW, {"normal/factors"}),
        (lambda x, **_: torch.tanh(x), {}, {"normal/1e4"}),
        (lambda x, **_: torch.nn.functional.elu(x), {}, {"normal/1e4"}),
        (lambda x, **_: torch.erf(x), {}, {"normal/1e4"}),
        (lambda x, **_: torch.sinh(x.clamp(-9, 9)), {}, {"normal/1e4"}),
        (lambda x, **_: torch.asinh(x), {}, {"normal/1e4"}),
        (lambda x, **_: torch.atanh(x.clamp(-0.9, 0.9)), {}, {"normal/1e4"}),
        (lambda x, **_: torch.atan(x), {}, {"normal/1e4"}),
        (lambda x, **_: torch.nn.functional.softplus(x), {}, {"normal-10"}),
        (lambda x, **_: torch.nn.functional.logsigmoid(x), {}, {"normal+10"}),
        (lambda x, **_: torch.hypot(x, x.roll(1, 1)), {}, {"normal/1e20"}),
        (lambda x, **_: x.clamp(max=1e5).square(), {}, {"normal*1e5"}),
        (lambda x, **_: torch.fmax(x, x.roll(1, 1)), {}, {"normal/nan"}),
        (lambda x, **_: torch.where(x != x, x.new_ones(1), x).sum(1), ROW_SUMS, {"normal/nan"}),
        (lambda x, **_: torch.where(x.isposinf(), 0.0, x).sum(1), ROW_SUMS, {"normal/+inf"}),
        (lambda x, **_: torch.where(x >= 0.5, x, 0.0), {}, {"normal/coarse"}),
        (lambda x, **_: torch.copysign(x.roll(1, 1), x), {}, {"normal/coarse"}),
        (lambda x, **_: x.round(), {}, {"normal/coarse"}),
        (lambda x, **_: x.floor(), {}, {"normal/coarse"}),
        (lambda x, **_: x.ceil(), {}, {"normal/coarse"}),
        (lambda x, **_: torch.atan2(x, x.roll(1, 1)), {}, {"normal/coarse"}),
        (lambda x, **_: torch.searchsorted(x[0].sort().values, x), PLACES, {"normal/coarse"}),
        (lambda x, **_: torch.bucketize(x, x[0].sort().values, right=True), PLACES, {"normal/coarse"}),
        (lambda x, **_: x.long() - x.roll(1, 1).long(), DIFFERENCES, {"normal/apart"}),
        (lambda x, **_: torch.erfc(x), {}, {"normal+4"}),
        (lambda x, **_: x.sigmoid(), {"distributions": ("normal",)}, {"normal-10"}),
        (lambda x, **_: x.argmax(1), PLACE, {"normal/zeros"}),
        (lambda x, **_: x.min(1).indices, PLACE, {"normal/zeros"}),
        (lambda x, **_: x.argsort(dim=1, stable=True), PLACES, {"normal/zeros"}),
        (lambda x, **_: x.argsort(1), PLACES, set()),
        (lambda x, **_: torch.where(x > 0, x, 0.0), {}, set()),
        (lambda x, **_: torch.softmax(x, 1), {"precision": Precision(reduction="C")}, set()),
    ],
    ids=[
        "log1p",
        "expm1",
        "nan_to_num",
        "isnan",
        "nansum",
        "isinf",
        "isfinite",
        "sum",
        "cumsum",
        "sum of squares",
        "sum of products",
        "tanh",
        "elu",
        "erf",
        "sinh",
        "asinh",
        "atanh",
        "atan",
        "softplus",
        "logsigmoid",
        "hypot",
        "clamp",
        "fmax",
        "not itself",
        "isposinf",
        "threshold",
        "copysign",
        "round",
        "floor",
        "ceil",
        "atan2",
        "searchsorted",
        "bucketize",
        "difference",
        "erfc",
        "sigmoid",
        "argmax",
        "least",
        "stable order",
        "any order",
        "relu",
        "softmax",
    ],
)
def test_an_operation_for_rare_inputs_gets_an_input_that_needs_it(reference, form, added):
    found = admit(make("rare", reference, **form), "cpu", rng=np.random.default_rng(0))
    assert {*found.task.distributions} & {*TELLING} == added
    assert found.unnoticed == ()


@pytest.mark.parametrize("seed", range(4))
def test_a_scalar_that_ordinary_inputs_do_not_show_is_not_left_to_a_patchwork(seed):
    """In five of forty admissions no hidden contents showed a kernel with an epsilon of its own."""
    found = admit(load_task("layernorm").on("cpu"), "cpu", rng=np.random.default_rng(seed))
    assert {*found.task.distributions} & {*SCALED}


def test_nan_is_tried_wherever_nan_of_two_inputs_meet():
    """A draw in which both are NaN somewhere is unfit: with one draw, two of sixty admissions of a task had none."""
    wide = (Workload("16x4096", {"R": 16, "C": 4096}),)
    sizes = WorkloadSet(search=wide, holdout=wide, probe={"R": (15, 18), "C": (4000, 4200)})
    inputs = (Tensor("x", ("R", "C")), Tensor("z", ("R", "C")))
    task = make("larger", lambda x, z, **_: torch.fmax(x, z), inputs=inputs)
    for seed in range(4):
        found = admit(replace(task, workloads={"cpu": sizes}), "cpu", rng=np.random.default_rng(seed))
        assert "normal/nan" in found.task.distributions


def test_zeros_of_both_signs_are_tried_wherever_their_order_matters():
    """It shows where -0.0 comes before 0.0 and nothing is larger: with one draw, one of sixty admissions had none."""
    outputs = (Tensor("y", ("R",), "int64", role=Role.OUTPUT),)
    task = make("first", lambda x, **_: x.argmax(1), outputs=outputs)
    for seed in range(8, 11):  # of 0 to 59 it was 9
        found = admit(task, "cpu", rng=np.random.default_rng(seed))
        assert "normal/zeros" in found.task.distributions, seed


def test_contents_that_the_author_did_not_name_are_left_out_where_the_reference_raises():
    """The clamp asks for NaN, and NaN is no place to count at."""

    def levels(x, **_):
        return torch.bincount((x.abs() + 1e-20).log2().floor().clamp(-30, 9).long().flatten() + 30, minlength=40)

    task = make("levels", levels, outputs=(Tensor("y", (40,), "int64", role=Role.OUTPUT),))
    found = admit(task, "cpu", rng=np.random.default_rng(0))
    assert "normal/nan" not in found.task.distributions
    assert found.passed


@pytest.mark.parametrize(("longest", "added"), [(4096, {"normal/sums"}), (1, set())])
def test_an_activation_of_large_sums_gets_inputs_whose_sums_are_small(longest, added):
    """Of sums of thousands of products few are near 0, where an activation differs from its rough stand-ins."""
    sizes = WorkloadSet(
        search=(Workload("w", {"R": 32, "K": longest, "C": 32}),),
        holdout=(Workload("h", {"R": 33, "K": longest, "C": 31}),),
        probe={"R": (1, 40), "K": (1, 130), "C": (1, 40)},
    )
    inputs = (Tensor("a", ("R", "K"), "bfloat16"), Tensor("b", ("K", "C"), "bfloat16"))
    task = Task(
        name="layer",
        reference=lambda a, b, **_: F.gelu(a @ b),
        signature=Signature(inputs, (Scalar("R"), Scalar("K"), Scalar("C")), (out("y", "R", "C", dtype="bfloat16"),)),
        workloads={"cpu": sizes},
        flops="2 * R * K * C",
        precision=Precision(reduction="K"),
    )
    found = admit(task, "cpu", rng=np.random.default_rng(0))
    assert {*found.task.distributions} & {*TELLING} == added


def test_a_task_on_which_honest_answers_differ_in_equal_rows_gets_no_patchwork():
    def standardised(x, **_):
        return (x - x.mean(1, keepdim=True)) / x.var(1, correction=0, keepdim=True)

    task = make("standardised", standardised, precision=Precision(reduction="C"), distributions=("normal", "offset"))
    workloads = replace(task.workloads["cpu"], probe={"R": (60, 70), "C": (100, 300)})
    found = admit(replace(task, workloads={"cpu": workloads}), "cpu", rng=np.random.default_rng(0))
    assert "patchwork" not in " ".join(found.task.distributions)
    assert "not checked on a patchwork" in found.message


def test_a_task_whose_numbers_blow_up_on_some_patchworks_is_admitted_without_one():
    def forces(x, **_):
        apart = x[:, None] - x[None]
        attraction = (0.09 / (apart.square().sum(-1) + torch.eye(x.shape[0]))) ** 7
        return (attraction.unsqueeze(-1) * apart).sum(1)

    task, small = make("forces", forces, precision=Precision(reduction="R * R")), (Workload("32x4", {"R": 32, "C": 4}),)
    workloads = WorkloadSet(search=small, holdout=small, probe={"R": (20, 60), "C": (4, 6)})
    task = replace(task, workloads={"cpu": workloads})
    with_one = 0
    for seed in range(12, 28):  # refused with two of these, where a later patchwork than the first few is unfit
        found = admit(task, "cpu", rng=np.random.default_rng(seed))
        with_one += "patchwork" in found.task.distributions
    assert 0 < with_one < 16


@pytest.mark.parametrize(
    ("reference", "added"),
    [
        (lambda x, **_: x.abs(), [*ENDS]),
        (lambda x, **_: x / x.abs().sum(1, keepdim=True), ["ends/1"]),
        (lambda x, **_: (x - x.mean()) / x.std(1, keepdim=True), []),
    ],
    ids=["any numbers", "no row of zeros", "no row of equal numbers"],
)
def test_ends_of_one_number_are_added_where_there_is_an_answer(reference, added):
    task = make("ends", reference, precision=Precision(reduction="64 * C"), distributions=("normal",))
    shapes = replace(task.workloads["cpu"], probe={"R": (3, 37), "C": (3, 300)})
    found = admit(replace(task, workloads={"cpu": shapes}), "cpu", rng=np.random.default_rng(0))
    assert [each for each in found.task.distributions if each in ENDS] == added


WHOLE = {"inputs": (Tensor("x", ("R", "C"), "int64"),), "outputs": (out("y", "R", "C", dtype="int64"),)}
SHORTS = {"inputs": (Tensor("x", ("R", "C"), "int32"),), "outputs": (out("y", "R", "C", dtype="int32"),)}
BYTES = {"inputs": (Tensor("x", ("R", "C"), "int8"),), "outputs": (out("y", "R", "C", dtype="int32"),)}
MEANS = {"inputs": (Tensor("x", ("R", "C"), "int64"),), "outputs": (out("y", "R"),)}


@pytest.mark.parametrize(
    ("reference", "form", "added"),
    [
        (lambda x, **_: x.sort(1).values, WHOLE, ["extreme"]),
        (lambda x, **_: x.cumsum(1), WHOLE, []),
        (lambda x, **_: x.abs(), WHOLE, []),
        (lambda x, **_: x.remainder(97), WHOLE, ["extreme"]),
        (lambda x, **_: (x >> 40) & 255, WHOLE, ["extreme"]),
        (lambda x, **_: x << 3, WHOLE, []),
        (lambda x, **_: x.roll(1, 1) // torch.where(x > 0, 3, -1), WHOLE, []),
        (lambda x, **_: x ^ x.roll(1, 1), WHOLE, ["extreme"]),
        (lambda x, **_: x.int() * x.roll(1, 1).int(), SHORTS, []),
        (lambda x, **_: x.sum(1), NARROW, ["extreme"]),
        (lambda x, **_: x.int() * x.roll(1, 1).int(), BYTES, ["extreme"]),
        (lambda x, **_: x.to(torch.get_default_dtype()).mean(1), MEANS, []),
        (lambda x, **_: x.abs(), {}, ["tiny"]),
        (lambda x, **_: x / x.square().sum(1, keepdim=True).square(), {}, []),
    ],
    ids=[
        "sort",
        "sums overflow",
        "abs overflows",
        "remainders",
        "shifts to the right",
        "shifts overflow",
        "quotients overflow",
        "bits",
        "products",
        "sums of half",
        "products of bytes",
        "means",
        "any numbers",
        "underflows",
    ],
)
def test_odd_numbers_are_added_where_nothing_overflows(reference, form, added):
    found = admit(make("odd", reference, **form), "cpu", rng=np.random.default_rng(0))
    assert [each for each in found.task.distributions if each in (EXTREME, TINY)] == added


def test_an_unknown_device_class_names_the_known_ones():
    with pytest.raises(TaskError, match="it has: cpu"):
        admit(FIT["gelu"](), "cuda", rng=np.random.default_rng(0))


def test_what_counts_at_some_sizes_only_is_tried_at_more_of_them():
    """Columns of a product cut to a triangle count where it has as many rows, as few of the sizes drawn have."""

    def lower(a, b, **_):
        return torch.tril(a @ b)

    sizes = WorkloadSet(
        search=(Workload("64x32x128", {"R": 64, "K": 32, "C": 128}),),
        holdout=(Workload("33x31x140", {"R": 33, "K": 31, "C": 140}),),
        probe={"R": (1, 40), "K": (1, 40), "C": (1, 40)},
    )
    task = Task(
        name="lower",
        reference=lower,
        signature=Signature(
            inputs=(Tensor("a", ("R", "K")), Tensor("b", ("K", "C"))),
            scalars=(Scalar("R"), Scalar("K"), Scalar("C")),
            outputs=(out("y", "R", "C"),),
        ),
        workloads={"cpu": sizes},
        flops="2 * R * K * C",
        precision=Precision(reduction="K"),
    )
    for seed in range(4):
        rejected = admit(task, "cpu", rng=np.random.default_rng(seed)).rejected
        assert "the answer without the tail of b along C" in rejected
