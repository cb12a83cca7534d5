"""The whole evaluator on a GPU, in both modes: right kernels are measured, wrong ones get their status."""

import asyncio
from pathlib import Path

import pytest

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.memory.device_arena import device_spacing
from evokernel.evaluate.memory.segments import Buffer, SegmentLayout
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity, Mode, Stage, Status
from evokernel.task import Role

TASK = str(Path(__file__).parent / "scale_task.py")
MODULE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < N
    {body}


def run(x, R, C, y):
    {host}
    kernel[(triton.cdiv(R * C, 1024),)](x, y, R * C, 1024)
"""
RIGHT = "tl.store(y + i, 2 * tl.load(x + i, mask=mask) + 1, mask=mask)"
LIVE = "type(x) is torch.Tensor"
UNRECORDABLE = "torch.empty(2, 2, device=x.device)[:, 0].fill_(0)"
# Where the same elements of the next copy of the buffers lie, in bytes: anybody can read how they are laid out.
NEXT = {
    name: SegmentLayout.of(
        [Buffer(name, (1024, 1024), "float32", role)], sets=1, spacing=device_spacing(2 << 20)
    ).stride
    for name, role in (("x", Role.INPUT), ("y", Role.OUTPUT))
}

ON_THE_DEVICE = {
    "illegal address": (
        MODULE.format(body="tl.store(y + i.to(tl.int64) * 1000000007, 1.0)", host="pass"),
        Status.DEVICE_FAULT,
    ),
    "write to an input": (MODULE.format(body="tl.store(x + i, 0.0, mask=mask)", host="pass"), Status.DEVICE_FAULT),
    "device assert": (
        MODULE.format(body="tl.device_assert(i < 0)\n    " + RIGHT, host="pass").replace(
            "triton.jit", "triton.jit(debug=True)"
        ),
        Status.DEVICE_FAULT,
    ),
    "hang": (
        MODULE.format(
            body="while tl.load(x, volatile=True) < 1e38:\n        tl.store(y + i, 1.0, mask=mask)", host="pass"
        ),
        Status.TIMEOUT,
    ),
    "out of bounds": (
        MODULE.format(body=RIGHT + "\n    tl.store(y + N + i % 8, 3.0)", host="pass"),
        Status.OUT_OF_BOUNDS,
    ),
    "nothing written": (
        MODULE.format(body="tl.store(y + i, 1.0, mask=mask & (i < 0))", host="pass"),
        Status.UNWRITTEN_OUTPUT,
    ),
    "work for the next call": (
        MODULE.format(
            body=f"ahead = 2 * tl.load(x + i + {NEXT['x'] // 4}, mask=mask) + 1\n"
            f"    tl.store(y + i + {NEXT['y'] // 4}, ahead, mask=mask)\n    {RIGHT}",
            host="pass",
        ),
        None,
    ),
    "wrong number": (MODULE.format(body=RIGHT.replace("+ 1,", "+ 1.01,"), host="pass"), Status.NUMERICAL),
}
ON_THE_HOST = {
    "shared memory": (
        MODULE.format(
            body="a = tl.arange(0, 256)[:, None] * 256 + tl.arange(0, 256)[None, :]\n"
            "    acc = tl.zeros((256, 256), tl.float32)\n"
            "    for k in tl.range(0, N, 256, num_stages=4):\n"
            "        acc = tl.dot(tl.load(x + a + k), tl.load(x + a + k + 1), acc)\n"
            "    tl.store(y + a, acc)",
            host="pass",
        ),
        Status.COMPILE_ERROR,
    ),
    "host exception": (MODULE.format(body=RIGHT, host=f"assert not ({LIVE}), 'boom'"), Status.HOST_EXCEPTION),
    "wrong output shape": (
        MODULE.format(body=RIGHT, host="y.copy_(torch.empty_like(x)[:, :0])"),
        Status.HOST_EXCEPTION,
    ),
    "ends the process": (
        MODULE.format(body=RIGHT, host=f"if {LIVE}:\n        raise SystemExit(3)"),
        Status.HOST_EXCEPTION,
    ),
    "torch computes when it is live": (
        MODULE.format(body=RIGHT, host=f"if {LIVE}:\n        return y.copy_(x * 2 + 1)"),
        Status.HOST_EXCEPTION,
    ),
    "the wait is taken away": (
        MODULE.format(body=RIGHT, host="torch.cuda.synchronize = print"),
        Status.STATIC_REJECT,
    ),
}
TRICKS = frozenset({"host exception", "ends the process", "torch computes when it is live"})
"""What a candidate's host code does where there is a GPU; in artifact mode it never runs there."""


def in_a_worker(source: str) -> str:
    """Return the source with something in it that cannot be recorded, so that it is run in a worker."""
    head, run, body = source.partition("def run(x, R, C, y):\n")
    return f"{head}{run}    {UNRECORDABLE}\n{body}"


@pytest.fixture(scope="module", params=["artifact", "worker"])
def judged(request: pytest.FixtureRequest) -> tuple[str, dict[str, Evaluation]]:
    """Every source judged by one evaluator, a right one before and after the wrong ones."""
    sources = {"right": MODULE.format(body=RIGHT, host="pass")}
    sources |= {name: source for name, (source, _) in (ON_THE_DEVICE | ON_THE_HOST).items()}
    sources["right again"] = sources["right"] + "\n\nAGAIN = 1\n"
    if request.param == "worker":
        sources = {name: in_a_worker(source) for name, source in sources.items()}
    return request.param, asyncio.run(_judge(sources))


async def _judge(sources: dict[str, str], budget: Fidelity = Fidelity.QUICK) -> dict[str, Evaluation]:
    settings = EvaluationConfig(quick_ms=20, timeout_s=5, gpus=1).on("cuda")
    language = local_language("triton", settings)
    async with open_evaluator(TASK, language, settings=settings) as evaluator:
        found = {}
        for name, source in sources.items():
            request = EvaluationRequest(Candidate(source, "triton"), language.program_hash(source), budget)
            found[name] = await evaluator.evaluate(request)
        return found


def test_right_kernels_are_measured(judged: tuple[str, dict[str, Evaluation]]) -> None:
    mode, found = judged
    first, again = found["right"], found["right again"]
    assert first.ok, first.feedback
    assert first.key.mode is Mode(mode)
    assert ("cannot be recorded" in first.feedback) == (mode == "worker")
    assert 1 < first.timings[0].candidate_us < 100
    assert again.ok, again.feedback


@pytest.mark.parametrize("name", ON_THE_DEVICE)
def test_a_bad_kernel_is_a_result(name: str, judged: tuple[str, dict[str, Evaluation]]) -> None:
    mode, found = judged
    evaluation, due = found[name], ON_THE_DEVICE[name][1]
    assert not evaluation.ok or (due is None and mode == "worker"), evaluation.feedback
    if due is not None:
        assert evaluation.status is due, evaluation.feedback
        assert evaluation.feedback


@pytest.mark.parametrize("name", ON_THE_HOST)
def test_bad_host_code_is_a_result_and_tricks_do_nothing(name: str, judged: tuple[str, dict[str, Evaluation]]) -> None:
    mode, found = judged
    if mode == "artifact" and name in TRICKS:
        assert found[name].ok, found[name].feedback
    else:
        assert found[name].status is ON_THE_HOST[name][1], found[name].feedback


@pytest.mark.parametrize(
    "wrong",
    ["C == 1 < R", "R > 40 and C < 300", "C > 64 and C % 64 == 7", "R == 7 * 41 or C == 7 * 41"],
    ids=["one column", "short rows", "one tail", "a size of its own"],
)
def test_a_winner_meets_shapes_that_a_search_may_not(wrong: str) -> None:
    source = MODULE.format(body=RIGHT, host="pass").replace("x, y, R * C,", f"x, y, R * C - ({wrong}),")
    (found,) = asyncio.run(_judge({"winner": source}, Fidelity.FINAL)).values()
    assert not found.ok
    assert found.stage is Stage.CORRECTNESS, found.feedback
