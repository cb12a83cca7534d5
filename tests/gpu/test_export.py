"""An exported operator on a GPU: the kernel where it was judged, torch elsewhere, and how programs call both."""

from pathlib import Path

import pytest

from archive.store import Store
from evokernel.config.load import parse_config
from evokernel.evaluate.client.evaluate_kernel import judge
from evokernel.export.export_kernel import export
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Fidelity
from evokernel.tasks import load_task
from tests.support.exports import run_beside, store_run

TASK = str(Path(__file__).parent / "softmax_task.py")
USE = """
import torch, kernel, op
from op import small_softmax as softmax
from reference import reference

SHAPES = list(op.KERNELS)
ROWS, COLUMNS = SHAPES[0]
run, calls = kernel.run, []


def noted(*arguments):
    calls.append(torch.cuda.current_stream())
    run(*arguments)


kernel.run = noted


def draw(*shape, dtype=torch.float32, device="cuda"):
    return torch.randn(shape, device=device).to(dtype)


def misaligned(rows, columns):
    return draw(rows * columns + 1)[1:].view(rows, columns)


def check(found, x):
    "Compare with fp64; the results are as small as 1e-6, which torch's own tolerance for fp32 does not see."
    closer = {"rtol": 1e-5, "atol": 1e-7} if x.dtype is torch.float32 else {}
    torch.testing.assert_close(found, reference(x.double()).to(x.dtype), **closer)


def by_kernel(x):
    "Whether the kernel answered; whoever did must be right."
    before = len(calls)
    check(softmax(x), x)
    return len(calls) == before + 1
"""


@pytest.fixture(scope="module", params=["triton", "cuda"])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plain softmax in a language, taken from a run as a user takes it."""
    folder, language = tmp_path_factory.mktemp("export"), request.param
    config = parse_config(
        {
            "task": TASK,
            "device": "cuda",
            "language": language,
            "budget": {"evaluations": 1},
            "evaluation": {"quick_ms": 20, "precise_ms": 60, "final_ms": 100, "final_processes": 1},
            "islands": [{"name": "one", "operators": {"rewrite": 1}}],
        },
        "the test",
    ).on("cuda")
    seed = Candidate(load_task(TASK).seeds[language].read_text(encoding="utf-8"), language)
    judged = judge(seed, TASK, budgets=(Fidelity.QUICK,), settings=config.evaluation)
    assert judged.ok, judged.last.feedback
    store_run(folder / "run.db", config, judged)
    with Store.open(folder / "run.db", write=False) as store:
        made = export(store, seed.id, out=folder / "taken")
    assert "op.py" in made.files, made.no_operator
    return made.folder


def use(exported: Path, script: str) -> str:
    return run_beside(exported, USE + script)


def test_the_kernel_answers_on_each_verified_shape(exported: Path) -> None:
    use(
        exported,
        """
assert len(SHAPES) >= 2
for shape in SHAPES:
    x = draw(*shape)
    assert op._chosen({"x": x}, {}).kernel is kernel, shape
    assert by_kernel(x), shape
""",
    )


def test_torch_answers_everywhere_else(exported: Path) -> None:
    use(
        exported,
        """
others = [draw(ROWS, COLUMNS + 1), draw(COLUMNS, ROWS), draw(1, 1), draw(ROWS, COLUMNS, device="cpu")]
others += [draw(ROWS, COLUMNS, dtype=dtype) for dtype in (torch.float16, torch.bfloat16, torch.float64)]
for x in others:
    assert op._chosen({"x": x}, {}) is None, (x.shape, x.dtype, x.device)
    assert not by_kernel(x), (x.shape, x.dtype, x.device)
""",
    )


def test_gradients_are_those_of_torch(exported: Path) -> None:
    use(
        exported,
        """
x, weights = draw(ROWS, COLUMNS).requires_grad_(), draw(ROWS, COLUMNS)
other = x.detach().clone().requires_grad_()
(softmax(x) * weights).sum().backward()
(torch.softmax(other, dim=1) * weights).sum().backward()
torch.testing.assert_close(x.grad, other.grad, rtol=1e-5, atol=1e-7)
assert x.grad.any() and not calls
with torch.no_grad():
    assert by_kernel(x)
assert by_kernel(x.detach())
""",
    )


def test_any_layout_is_right_and_left_as_it_was(exported: Path) -> None:
    use(
        exported,
        """
for rows, columns in SHAPES:
    wide = draw(rows, 2 * columns)
    strided = [draw(columns, rows).T, wide[:, ::2], wide[:, columns:], draw(1, columns).expand(rows, columns)]
    assert not any(x.is_contiguous() for x in strided)
    shifted = misaligned(rows, columns)
    assert shifted.is_contiguous() and shifted.data_ptr() % 16
    for place, x in enumerate([*strided, shifted]):
        before = x.clone()
        assert by_kernel(x), place
        assert torch.equal(x, before), place
""",
    )


def test_it_works_under_torch_compile(exported: Path) -> None:
    use(
        exported,
        """
def around(x):
    return softmax(x * 2) * 3


def check_compiled(compiled, x):
    due = reference(2 * x.double()) * 3
    torch.testing.assert_close(compiled(x), due.float(), rtol=1e-5, atol=1e-7)


compiled = torch.compile(around, fullgraph=True)
for shape in SHAPES:
    before = len(calls)
    check_compiled(compiled, draw(*shape))
    assert len(calls) == before + 1, shape
before = len(calls)
check_compiled(compiled, draw(ROWS, COLUMNS + 1))
assert len(calls) == before
torch._dynamo.reset()
compiled = torch.compile(around, fullgraph=True, mode="reduce-overhead")
for _ in range(4):  # it warms up, captures, and replays
    check_compiled(compiled, draw(ROWS, COLUMNS))
""",
    )


def test_it_can_be_captured_and_replayed_on_other_inputs(exported: Path) -> None:
    use(
        exported,
        """
for x in (draw(ROWS, COLUMNS), misaligned(ROWS, COLUMNS)):
    softmax(x)  # compiles and loads the kernel, which cannot be captured
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = softmax(x)
    before = len(calls)
    for _ in range(3):
        x.normal_()
        graph.replay()
        check(found, x)
    assert len(calls) == before
""",
    )


def test_it_runs_on_the_current_stream(exported: Path) -> None:
    use(
        exported,
        """
x, stream = torch.zeros(ROWS, COLUMNS, device="cuda"), torch.cuda.Stream()
assert by_kernel(x)
for _ in range(3):
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # whoever does not wait for this stream reads what x was before
        x.normal_()
        found = softmax(x)
    assert calls[-1] == stream
    stream.synchronize()
    check(found, x)
""",
    )


def test_it_works_in_a_thread_that_has_not_used_the_gpu(exported: Path) -> None:
    use(
        exported,
        """
from concurrent.futures import ThreadPoolExecutor

x = draw(ROWS, COLUMNS)
assert by_kernel(x)
with ThreadPoolExecutor(1) as pool:
    found = pool.submit(softmax, x).result()
    torch.cuda.synchronize()
assert len(calls) == 2
check(found, x)
""",
    )


def test_the_exported_test_passes(exported: Path) -> None:
    assert "right on 3 workloads" in run_beside(exported, "import test_kernel\ntest_kernel.main()\n")
