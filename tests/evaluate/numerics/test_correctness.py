"""Honest kernels pass and cheats fail, over tasks, distributions and shapes; feedback says what an author needs."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evokernel.evaluate.numerics.arrays import bits, store
from evokernel.evaluate.numerics.correctness import alike_calls, judge_output, judge_timed
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.references import native_answer
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.records.evaluation import Status
from evokernel.task import (
    DISTRIBUTIONS,
    DTYPES,
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
from tests.evaluate.kernels import fill_poison

F = torch.nn.functional
POISON = 0x7FF97FCA7FD37FE5
f32 = np.float32


def differing_calls(expected, actual, due, **options):
    """Return the numbers of the calls that are not plainly alike."""
    alike = alike_calls(expected, actual, due, among=range(len(actual[0])), **options)
    return [number for number, right in enumerate(alike.tolist()) if not right]


MATRIX = (Tensor("x", ("R", "C")),)


def make(name, reference, *, inputs=MATRIX, outputs=(("R", "C"),), precision=None, dtype="float32"):
    workload = Workload("96x768", {"R": 96, "C": 768})
    return Task(
        name=name,
        reference=reference,
        signature=Signature(
            inputs=inputs,
            scalars=(Scalar("R"), Scalar("C")),
            outputs=tuple(Tensor(f"y{index}", shape, dtype, Role.OUTPUT) for index, shape in enumerate(outputs)),
        ),
        workloads={"cpu": WorkloadSet(search=(workload,), holdout=(workload,), probe={"R": (1, 37), "C": (1, 300)})},
        flops="R * C",
        precision=precision or Precision(reduction="C"),
    )


def layernorm_reference(x, g, b, **_):
    return F.layer_norm(x, x.shape[1:], g, b)


SUM = Precision(reduction="C", exact_on_integers=True)
TASKS = {
    "gemm": load_task("gemm"),
    "softmax": load_task("softmax"),
    "layernorm": make(
        "layernorm", layernorm_reference, inputs=(Tensor("x", ("R", "C")), Tensor("g", ("C",)), Tensor("b", ("C",)))
    ),
    "gelu": make("gelu", lambda x, **_: F.gelu(x), precision=Precision()),
    "rowsum": make("rowsum", lambda x, **_: x.sum(1), outputs=(("R",),), precision=SUM),
    "cumsum": make("cumsum", lambda x, **_: x.cumsum(1), precision=SUM),
    "add": make(
        "add",
        lambda x, y, **_: x + y,
        inputs=(Tensor("x", ("R", "C")), Tensor("y", ("R", "C"))),
        precision=Precision(exact_on_integers=True),
    ),
    "two": make("two", lambda x, **_: (x.sum(1), torch.softmax(x, 1)), outputs=(("R",), ("R", "C"))),
    "int32": make(
        "int32",
        lambda x, y, **_: x * y + x,
        inputs=(Tensor("x", ("R", "C"), "int32"), Tensor("y", ("R", "C"), "int32")),
        precision=Precision(exact_on_integers=True),
        dtype="int32",
    ),
}
SHAPES: dict[str, list[tuple[int, ...]]] = {
    "gemm": [(61, 83, 179), (1, 1, 193), (64, 96, 512)],
    "*": [(37, 299), (1, 700), (64, 512), (3, 1), (1, 1)],
}


def workloads(name):
    keys = ("M", "N", "K") if name == "gemm" else ("R", "C")
    for shape in SHAPES.get(name, SHAPES["*"]):
        yield Workload("x".join(map(str, shape)), dict(zip(keys, shape, strict=True)))


# ---------------------------------------------------------------------------------------- emulated precision


def mantissa(x, bits):
    """Round float32 to `bits` explicit mantissa bits: 10 are those of TF32, 7 those of bfloat16."""
    word = np.ascontiguousarray(x, f32).view(np.uint32).astype(np.uint64)
    drop = 23 - bits
    odd = (word >> np.uint64(drop)) & np.uint64(1)
    word = (word + np.uint64((1 << (drop - 1)) - 1) + odd) & ~np.uint64((1 << drop) - 1)
    return word.astype(np.uint32).view(f32)


def tf32(x):
    return mantissa(x, 10)


def bf16(x):
    return mantissa(x, 7)


# ---------------------------------------------------------------------------------------- kernels, all in float32


def sequential(x):
    total = np.zeros(x.shape[0], f32)
    for column in range(x.shape[1]):
        total = total + x[:, column]
    return total


def tree(x):
    while x.shape[1] > 1:
        if x.shape[1] % 2:
            x = np.concatenate([x, np.zeros((x.shape[0], 1), f32)], 1)
        x = x[:, ::2] + x[:, 1::2]
    return x[:, 0]


def blocked(x, block=64):
    return sequential(np.stack([sequential(x[:, i : i + block]) for i in range(0, x.shape[1], block)], 1))


def gemm_sequential(a, b):
    c = np.zeros((a.shape[0], b.shape[1]), f32)
    for k in range(a.shape[1]):
        c += np.outer(a[:, k], b[k])
    return c


def gemm_split(a, b, parts=8):
    pieces = np.array_split(np.arange(a.shape[1]), parts)
    return sum((a[:, p] @ b[p] for p in pieces), np.zeros((a.shape[0], b.shape[1]), f32))


def gemm_three_products(a, b):
    al, bl = a - bf16(a), b - bf16(b)
    return bf16(a) @ bf16(b) + al @ bf16(b) + bf16(a) @ bl + al @ bl


def softmax(x, total=sequential, shift=True, low=lambda e: e):
    with np.errstate(all="ignore"):
        e = low(np.exp(x - x.max(1, keepdims=True) if shift else x))
        return e / total(e)[:, None]


def online(x, block=32):
    peak, total = np.full(x.shape[0], -np.inf, f32), np.zeros(x.shape[0], f32)
    for start in range(0, x.shape[1], block):
        part = x[:, start : start + block]
        new = np.maximum(peak, part.max(1))
        total = total * np.exp(peak - new) + np.exp(part - new[:, None]).sum(1, dtype=f32)
        peak = new
    return np.exp(x - peak[:, None]) / total[:, None]


def normalise(x, mean, variance, g, b):
    return (x - mean[:, None]) / np.sqrt(variance + f32(1e-5))[:, None] * g + b


def layernorm(x, g, b, total=sequential):
    mean = total(x) / f32(x.shape[1])
    return normalise(x, mean, total((x - mean[:, None]) ** 2) / f32(x.shape[1]), g, b)


def welford(x, g, b):
    mean, moment = np.zeros(x.shape[0], f32), np.zeros(x.shape[0], f32)
    for i in range(x.shape[1]):
        delta = x[:, i] - mean
        mean = mean + delta / f32(i + 1)
        moment = moment + delta * (x[:, i] - mean)
    return normalise(x, mean, moment / f32(x.shape[1]), g, b)


def one_pass(x, g, b):
    n = f32(x.shape[1])
    mean = sequential(x) / n
    with np.errstate(invalid="ignore"):
        return normalise(x, mean, sequential(x * x) / n - mean * mean, g, b)


def half_norm(x, g, b):
    return normalise(x, x[:, ::2].mean(1, dtype=f32), x[:, ::2].var(1, dtype=f32), g, b)


def gelu(x):
    return (x * f32(0.5) * (1 + torch.erf(torch.from_numpy(x / f32(np.sqrt(2)))).numpy())).astype(f32)


def gelu_tanh(x):
    with np.errstate(over="ignore"):
        return (0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))).astype(f32)


def block_scan(x, block=32):
    parts, offset = [], np.zeros((x.shape[0], 1), f32)
    for start in range(0, x.shape[1], block):
        scan = np.cumsum(x[:, start : start + block], 1, dtype=f32)
        parts.append(scan + offset)
        offset = offset + scan[:, -1:]
    return np.concatenate(parts, 1)


def skip(x, part=64):
    keep = x.shape[1] - max(1, x.shape[1] // part)
    return np.concatenate([x[:, :keep], np.zeros_like(x[:, keep:])], 1)


def edit(y, place, value):
    y = y.clone() if isinstance(y, torch.Tensor) else np.array(y)
    y[place] = value
    return y


def last(y, value):
    return edit(y, (-1,) * y.ndim, value)


def cumsum(x):
    return np.cumsum(x, 1, dtype=f32)


def lost_carry(x):
    return np.concatenate([cumsum(x[:, :-8]), cumsum(x[:, -8:])], 1)


def no_shift(x):
    return softmax(x, shift=False)


def reciprocal(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e * (1 / tree(e))[:, None]


def gemm_half_sum(a, b):
    parts = ((a[:, k : k + 8] @ b[k : k + 8]).astype(np.float16) for k in range(0, a.shape[1], 8))
    return sum(parts, np.float16(0)).astype(f32)


# fmt: off
HONEST: dict[str, dict[str, Any]] = {
    "gemm": {
        "sequential": gemm_sequential, "split-K": gemm_split, "blas": lambda a, b: a @ b, "bf16x3": gemm_three_products,
        "reversed": lambda a, b: gemm_sequential(a[:, ::-1], b[::-1]),
    },
    "softmax": {
        "sequential": softmax, "tree": lambda x: softmax(x, tree), "blocked": lambda x: softmax(x, blocked),
        "online": online, "reciprocal": reciprocal,
    },
    "layernorm": {
        "sequential": layernorm, "tree": lambda x, g, b: layernorm(x, g, b, tree), "welford": welford,
        "blocked": lambda x, g, b: layernorm(x, g, b, blocked),
    },
    "gelu": {"erf": gelu},
    "rowsum": {"sequential": sequential, "tree": tree, "split": blocked, "reversed": lambda x: sequential(x[:, ::-1])},
    "cumsum": {"sequential": cumsum, "block scan": block_scan},
    "add": {"plain": lambda x, y: x + y, "swapped": lambda x, y: y + x},
    "two": {"sequential": lambda x: (sequential(x), softmax(x)), "tree": lambda x: (tree(x), online(x))},
    "int32": {"plain": lambda x, y: x * y + x, "factored": lambda x, y: x * (y + 1)},
}
CHEATS: dict[str, dict[str, Any]] = {
    "gemm": {
        "tf32": lambda a, b: tf32(a) @ tf32(b), "bf16": lambda a, b: bf16(a) @ bf16(b), "float16 sum": gemm_half_sum,
        "skip K/64": lambda a, b: skip(a) @ b, "half": lambda a, b: 2 * (a[:, ::2] @ b[::2]),
        "one element": lambda a, b: last(a @ b, 1), "zero tail": lambda a, b: skip(a @ b),
    },
    "softmax": {
        "bf16 inside": lambda x: softmax(x, low=bf16), "tf32 inside": lambda x: softmax(x, low=tf32),
        "skip C/64": lambda x: softmax(x, lambda e: sequential(skip(e))), "one element": lambda x: last(softmax(x), 0),
        "half row": lambda x: softmax(x, lambda e: 2 * tree(e[:, ::2])), "no max-subtract": no_shift,
        "cut small": lambda x: np.where(softmax(x) < 1e-4, 0, softmax(x)),
    },
    "layernorm": {
        "one pass": one_pass, "half row": half_norm, "bf16 inside": lambda x, g, b: layernorm(bf16(x), g, b),
        "tf32 gain": lambda x, g, b: layernorm(x, tf32(g), b), "no bias": lambda x, g, b: layernorm(x, g, 0 * b),
        "one element": lambda x, g, b: last(layernorm(x, g, b), 0),
    },
    "gelu": {
        "tanh": gelu_tanh, "bf16": lambda x: bf16(gelu(x)), "relu": lambda x: np.maximum(x, 0),
        "sigmoid": lambda x: x / (1 + np.exp(np.minimum(-f32(1.702) * x, 80))),
    },
    "rowsum": {
        "skip C/64": lambda x: sequential(skip(x)), "tf32": lambda x: sequential(tf32(x)),
        "bf16": lambda x: sequential(bf16(x)), "half": lambda x: 2 * tree(x[:, ::2]),
    },
    "cumsum": {"bf16": lambda x: cumsum(bf16(x)), "tf32": lambda x: cumsum(tf32(x)), "lost carry": lost_carry},
    "add": {
        "bf16": lambda x, y: bf16(x) + bf16(y), "tf32": lambda x, y: tf32(x + y), "first": lambda x, y: x,
        "one element": lambda x, y: last(x + y, 1.5),
    },
    "two": {
        "first only": lambda x: (sequential(x), np.zeros_like(x)), "second only": lambda x: (0 * tree(x), softmax(x)),
        "bf16": lambda x: (sequential(x), bf16(softmax(x))),
    },
    "int32": {
        "zeros": lambda x, y: 0 * x, "no add": lambda x, y: x * y, "one element": lambda x, y: last(x * y + x, 7),
        "int8": lambda x, y: (x * y + x).astype(np.int8).astype(np.int32),
    },
}
# fmt: on


def outputs_of(kernel, inputs):
    """Return what a kernel in NumPy makes of tensors."""
    plain = {name: array.numpy() for name, array in inputs.items()}
    with np.errstate(all="ignore"):
        result = kernel(**plain)
    return [torch.from_numpy(np.asarray(y)) for y in (result if isinstance(result, tuple) else (result,))]


def stored(task, arrays):
    return [store(y, t.dtype) for y, t in zip(arrays, task.signature.outputs, strict=True)]


def cases(name):
    for workload in workloads(name):
        for distribution in DISTRIBUTIONS:
            inputs = draw(TASKS[name], workload, distribution, np.random.default_rng(0))
            yield inputs, expect(TASKS[name], workload, inputs, distribution=distribution)


@pytest.mark.parametrize("name", TASKS)
def test_honest_kernels_pass_on_every_case_and_cheats_fail_on_some(name):
    task, wrong, caught = TASKS[name], [], Counter[str]()
    for inputs, expected in cases(name):
        for kind, kernel in HONEST[name].items():
            finding = judge_output(expected, stored(task, outputs_of(kernel, inputs)), poison=POISON)
            if finding is not None:
                wrong.append(f"{kind}: {finding.feedback}")
        for kind, kernel in CHEATS[name].items():
            answers = stored(task, outputs_of(kernel, inputs))
            caught[kind] += judge_output(expected, answers, poison=POISON) is not None
    assert not wrong
    assert [kind for kind in CHEATS[name] if not caught[kind]] == []


def single(distribution="normal", name="rowsum", dims=None, seed=0):
    task = TASKS[name]
    workload = Workload("the shape", dims or {"R": 96, "C": 768})
    inputs = draw(task, workload, distribution, np.random.default_rng(seed))
    return task, workload, inputs, expect(task, workload, inputs, distribution=distribution)


def test_no_max_subtract_passes_where_it_is_right_and_is_told_infinities_elsewhere():
    kernel = CHEATS["softmax"]["no max-subtract"]
    for distribution in ("normal", "integers01"):
        _, _, inputs, expected = single(distribution, "softmax")
        assert judge_output(expected, outputs_of(kernel, inputs)) is None
    _, _, inputs, expected = single("offset", "softmax")
    assert judge_output(expected, outputs_of(kernel, inputs)).status is Status.NONFINITE


@pytest.mark.parametrize("seed", range(40))
def test_a_sum_of_one_row_near_zero_is_judged_by_its_condition(seed):
    _, _, inputs, expected = single(dims={"R": 1, "C": 1100}, seed=seed)
    for kernel in HONEST["rowsum"].values():
        assert judge_output(expected, outputs_of(kernel, inputs)) is None


def one_by_one(terms):
    """Add up the last axis one by one, in fp32."""
    return torch.from_numpy(np.cumsum(terms.numpy(), axis=1, dtype=np.float32)[:, -1:])


def test_plain_sums_of_squares_of_wide_numbers_pass():
    task = load_task(str(Path(__file__).parents[2] / "museum" / "tasks" / "layernorm.py"))
    workload, rng = task.workloads["cpu"].search[1], np.random.default_rng(5)
    for _ in range(40):
        inputs = draw(task, workload, "wide", rng)
        x, columns = inputs["x"], workload.dims["C"]
        off = x - one_by_one(x) / columns
        scale = torch.rsqrt(one_by_one(off * off) / columns + workload.dims["eps"])
        answer = off * scale * inputs["gain"] + inputs["shift"]
        finding = judge_output(expect(task, workload, inputs, distribution="wide"), [answer])
        assert finding is None, finding


@pytest.mark.parametrize(("factor", "right"), [(0.0, True), (1.0, True), (-1e6, False)])
def test_results_below_all_normal_numbers_may_become_zero(factor, right):
    task = make("tiny", lambda x, **_: torch.log1p(torch.exp(-x)))
    workload = Workload("5x7", {"R": 5, "C": 7})
    inputs = {"x": torch.full((5, 7), 95.0)}
    expected = expect(task, workload, inputs, distribution="normal")
    answer = (factor * torch.log1p(torch.exp(-inputs["x"]))).float()
    assert (judge_output(expected, [answer]) is None) == right


def test_unwritten_tail_is_recognised():
    _, _, _, expected = single(name="add")
    actual = expected.outputs[0].native.clone()
    tail = torch.empty_like(actual)
    fill_poison(tail, poison=POISON)
    actual[:, 760:] = tail[:, 760:]
    finding = judge_output(expected, [actual], poison=POISON)
    assert finding.status is Status.UNWRITTEN_OUTPUT
    assert "the last 8 of 768 columns" in finding.feedback
    assert "the shape" in finding.feedback
    hidden = judge_output(expected, [actual], poison=POISON, hidden=True).feedback
    assert "a hidden shape" in hidden
    assert not any(number in hidden for number in ("96", "768", "760", "the shape"))
    assert judge_output(expected, [tail], poison=POISON).share == 1.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("poison", [POISON, 0x7FF87FF97FFA7FFB])
def test_poison_is_found_in_every_dtype(dtype, poison):
    task = make(
        "copy",
        lambda x, **_: ~x if x.dtype == torch.bool else (x.double() / 2).to(x.dtype),
        inputs=(Tensor("x", ("R", "C"), dtype),),
        precision=Precision(),
        dtype=dtype,
    )
    workload = Workload("the shape", {"R": 5, "C": 7})
    inputs = draw(task, workload, "normal", np.random.default_rng(0))
    expected = expect(task, workload, inputs, distribution="normal")
    actual = expected.outputs[0].native.clone()
    assert judge_output(expected, [actual], poison=poison) is None
    blank = torch.empty_like(actual)
    fill_poison(blank, poison=poison)
    bits(actual)[3, 4] = bits(blank)[3, 4]
    assert judge_output(expected, [actual], poison=poison).status is Status.UNWRITTEN_OUTPUT


def first_place(mask):
    return tuple(mask.nonzero()[0].tolist())


def test_nonfinite_values_must_stand_where_the_reference_has_them():
    task = make("log", lambda x, **_: torch.log(x), precision=Precision())
    workload = Workload("the shape", {"R": 4, "C": 64})
    inputs = draw(task, workload, "integers01", np.random.default_rng(0))
    inputs["x"][0, 0] = -1  # NaN; the zeros give -Inf
    expected = expect(task, workload, inputs, distribution="integers01")
    right = expected.outputs[0].native.clone()
    assert judge_output(expected, [right]) is None
    for value in (0.0, np.inf, np.nan):
        place = (0, 0) if not np.isnan(value) else first_place(inputs["x"] == 0)
        assert judge_output(expected, [edit(right, place, value)]).status is Status.NONFINITE
    finding = judge_output(expected, [edit(right, first_place(inputs["x"] == 1), np.nan)])
    assert finding.status is Status.NONFINITE


@pytest.mark.parametrize(
    ("each", "right", "wrong"),
    [
        (
            65.5,
            (65504.0, np.inf),
            (-np.inf, np.nan),
        ),  # 65500 in all: a sum of another order may be past the last number
        (65.625, (65504.0, np.inf), (-np.inf, np.nan, -65504.0)),
        (60.0, (60000.0,), (np.inf, 65504.0)),
        (80.0, (np.inf,), (65504.0, np.nan)),
    ],
)
def test_a_sum_at_the_end_of_the_range_may_be_on_either_side(each, right, wrong):
    matrix = Tensor("x", ("R", "C"), "float16")
    task = make("sum", lambda x, **_: x.sum(1), inputs=(matrix,), outputs=(("R",),), precision=SUM, dtype="float16")
    workload = Workload("w", {"R": 8, "C": 1000})
    inputs = {"x": torch.full((8, 1000), 60.0, dtype=torch.float16)}
    inputs["x"][0] = each
    expected = expect(task, workload, inputs, distribution="offset")
    sums = torch.full((8,), 60000.0, dtype=torch.float16)
    for value in right:
        assert judge_output(expected, [edit(sums, 0, value)]) is None
    for value in wrong:
        assert judge_output(expected, [edit(sums, 0, value)]) is not None


def test_exact_sums_of_integers_are_demanded():
    _, _, _, expected = single("integers01")
    assert expected.outputs[0].exact
    right = expected.outputs[0].native
    finding = judge_output(expected, [edit(right, 3, right[3] * (1 + 2**-20))])
    assert "0/1 inputs must give exact results" in finding.feedback


def test_integers_that_do_not_fit_the_type_are_not_demanded_exactly():
    task = make(
        "half",
        lambda x, **_: x.sum(1),
        inputs=(Tensor("x", ("R", "C"), "float16"),),
        outputs=(("R",),),
        precision=SUM,
        dtype="float16",
    )
    for columns, exact in ((1500, True), (5000, False)):
        workload = Workload("w", {"R": 3, "C": columns})
        inputs = draw(task, workload, "integers01", np.random.default_rng(0))
        assert expect(task, workload, inputs, distribution="integers01").outputs[0].exact is exact


def test_growth_and_lost_precision_are_named():
    _, _, _, expected = single("normal", "cumsum")
    right = expected.outputs[0].high
    drift = torch.full_like(right, 2e-3).cumsum(1)
    assert "growing index" in judge_output(expected, [(right + drift).float()]).feedback
    _, _, inputs, expected = single("normal", "gemm", {"M": 64, "N": 64, "K": 512})
    feedback = judge_output(expected, outputs_of(CHEATS["gemm"]["tf32"], inputs)).feedback
    assert "precision was lost" in feedback
    assert "times the tolerance" in feedback


def test_tf32_is_accepted_only_where_the_task_allows_it():
    loose = make_gemm(Precision(reduction="K", exact_on_integers=True, allow_tf32=True))
    workload = Workload("w", {"M": 64, "N": 64, "K": 768})
    for distribution in DISTRIBUTIONS:
        inputs = draw(loose, workload, distribution, np.random.default_rng(0))
        expected = expect(loose, workload, inputs, distribution=distribution)
        assert judge_output(expected, outputs_of(CHEATS["gemm"]["tf32"], inputs)) is None
        if distribution == "normal":
            assert judge_output(expected, outputs_of(CHEATS["gemm"]["bf16"], inputs)) is not None


def make_gemm(precision):
    gemm = TASKS["gemm"]
    return Task(
        name="loose",
        reference=gemm.reference,
        signature=gemm.signature,
        workloads=gemm.workloads,
        flops=gemm.flops,
        precision=precision,
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_tf32_product_is_accepted_where_few_rows_are_loud(seed):
    loose = make_gemm(Precision(reduction="K", exact_on_integers=True, allow_tf32=True))
    workload = Workload("256x256x256", {"M": 256, "N": 256, "K": 256})
    inputs = draw(loose, workload, "normal", np.random.default_rng(seed))
    inputs["a"][[17, 190]] *= 300
    expected = expect(loose, workload, inputs, distribution="patchwork")
    assert judge_output(expected, outputs_of(CHEATS["gemm"]["tf32"], inputs)) is None
    assert judge_output(expected, outputs_of(CHEATS["gemm"]["bf16"], inputs)) is not None


def test_sixteen_bit_outputs_may_differ_by_a_rounding_but_not_more():
    task = make(
        "bf16", lambda x, **_: torch.softmax(x, 1), inputs=(Tensor("x", ("R", "C"), "bfloat16"),), dtype="bfloat16"
    )
    workload = Workload("w", {"R": 32, "C": 1000})
    inputs = draw(task, workload, "normal", np.random.default_rng(0))
    expected = expect(task, workload, inputs, distribution="normal")
    plain = {"x": inputs["x"].float()}

    def answer(kernel):
        return stored(task, outputs_of(kernel, plain))

    assert judge_output(expected, answer(softmax)) is None
    assert judge_output(expected, answer(lambda x: mantissa(softmax(x), 4))) is not None
    assert judge_output(expected, answer(lambda x: softmax(x, lambda e: sequential(skip(e, 20))))) is not None
    assert judge_timed(expected, answer(softmax), native=native_answer(task, workload, inputs)) is None


@pytest.mark.parametrize("name", [name for name in TASKS if name != "gemm"])
def test_timed_calls_are_judged_against_the_native_answer(name):
    task, workload, inputs, expected = single(name=name)
    fresh = FreshInputs(task, workload, np.random.default_rng(1))
    fresh.fill(inputs, *fresh.draw_windows(1))
    native = native_answer(task, workload, inputs)
    for kernel in HONEST[name].values():
        assert judge_timed(expected, stored(task, outputs_of(kernel, inputs)), native=native, poison=POISON) is None
    finding = judge_timed(expected, [output.native for output in expected.outputs], native=native, hidden=True)
    assert finding.status is Status.NUMERICAL
    assert "a timed call on a hidden shape" in finding.feedback
    broken = [array.clone() for array in native]
    fill_poison(broken[0][:1], poison=POISON)
    assert judge_timed(expected, broken, native=native, poison=POISON).status is Status.UNWRITTEN_OUTPUT


def test_a_sum_of_squares_that_overflows_does_not_widen_the_tolerance():
    task, workload, inputs, _ = single(name="add")
    inputs = {name: array * 1e25 for name, array in inputs.items()}
    expected = expect(task, workload, inputs, distribution="normal")
    native = native_answer(task, workload, inputs)
    assert judge_timed(expected, native, native=native) is None
    assert judge_timed(expected, [native[0] * 1.01], native=native).status is Status.NUMERICAL


def test_arrays_of_another_shape_or_dtype_are_our_own_fault():
    _, _, _, expected = single()
    right = expected.outputs[0].native
    for arrays in ([right, right], [right[:-1]], [right.double()]):
        with pytest.raises(ValueError, match="output"):
            judge_output(expected, arrays)


def batch(name, calls=6, dims=None):
    """Return what is expected, and the outputs of a batch of right calls, as two runners wrote them."""
    task, workload, _, expected = single(name=name, dims=dims)
    inputs = [draw(task, workload, "normal", np.random.default_rng(seed)) for seed in range(calls)]
    native = [native_answer(task, workload, given) for given in inputs]
    due = [torch.stack(outputs) for outputs in zip(*native, strict=True)]
    return expected, [array.clone() for array in due], due


@pytest.mark.parametrize("name", [name for name in TASKS if name != "gemm"])
def test_calls_that_differ_from_another_runner_are_found(name):
    expected, actual, due = batch(name)
    rng = np.random.default_rng(0)
    assert differing_calls(expected, actual, due, share=1.0, rng=rng) == []
    fill_poison(actual[0][2][:1], poison=POISON)
    actual[-1][4] = due[-1][3]
    assert differing_calls(expected, actual, due, share=1.0, rng=rng) == [2, 4]


def test_a_share_of_a_large_output_is_compared_wherever_a_kernel_errs():
    expected, right, due = batch("add", 3, {"R": 256, "C": 1024})
    for place in (0, 150_000, 256 * 1024 - 1):  # the ends are met as often as the middle, or oftener
        actual = [array.clone() for array in right]
        actual[0].view(3, -1)[1, place] += 1
        rng = np.random.default_rng(1)
        caught = [differing_calls(expected, actual, due, share=0.25, rng=rng) for _ in range(80)]
        assert {tuple(found) for found in caught} == {(), (1,)}
        # one call of three is compared as a whole, of the others a quarter: at least 1/3 + 2/3 * 1/5
        assert 0.33 < sum(map(bool, caught)) / 80 < 0.75


def test_a_small_output_is_always_compared_as_a_whole():
    expected, actual, due = batch("softmax", 4, {"R": 64, "C": 1000})
    actual[0][1, -1, -1] += 1
    for seed in range(20):
        assert differing_calls(expected, actual, due, share=0.01, rng=np.random.default_rng(seed)) == [1]
