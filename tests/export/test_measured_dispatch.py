"""Two specialists, judged for real at drawn sizes, become one operator."""

import json
from pathlib import Path

import pytest

from archive.store import Store
from evokernel.config.load import parse_config
from evokernel.evaluate.client.evaluate_kernel import judge
from evokernel.export.dispatch import WrongBetween, measure_dispatch
from evokernel.export.dispatch_tree import choose, leaves
from evokernel.export.export_kernel import export
from evokernel.export.size_domain import Dims, size_domain
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Fidelity
from evokernel.rng import stream
from evokernel.tasks import load_task
from evokernel.tasks.at_sizes import at_sizes, write_at_sizes
from tests.support.exports import run_beside, store_run

# Both kernels take their time, so that what else the machine does matters little.
TASK = '''"""y = 2 x, slowly: torch copies x many times."""
import torch
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

def reference(x: torch.Tensor, **_: int) -> torch.Tensor:
    for _ in range(40):
        x = x.clone()
    return 2 * x

def _size(r: int, c: int) -> Workload:
    return Workload(f"{r}x{c}", {"R": r, "C": c})

task = Task(
    name="copied",
    reference=reference,
    signature=Signature(
        (Tensor("x", ("R", "C")),), (Scalar("R"), Scalar("C")), (Tensor("y", ("R", "C"), role=Role.OUTPUT),)
    ),
    workloads={
        "cpu": WorkloadSet(
            (_size(16, 32), _size(16, 512)), (_size(24, 64),), {"R": (1, 9), "C": (1, 9)}, probes=2
        )
    },
    flops="R * C",
    distributions=("normal",),
)
'''
KERNEL = """#include <cstdint>
extern "C" void run(const float* __restrict__ x, int64_t R, int64_t C, float* __restrict__ y) {
    const int64_t repeats = (SLOW ? 20000000 : 1000000) / (R * C);
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
        for (int64_t i = 0; i < R * C; ++i) y[i] = 2 * x[i];
        asm volatile("" ::: "memory");
    }
}
"""
SMALL, LARGE = (Candidate(KERNEL.replace("SLOW", slow), "cpp") for slow in ("C > 128", "C <= 128"))
CONFIG = {
    "budget": {"evaluations": 1},
    "evaluation": {"quick_ms": 2, "precise_ms": 100, "final_ms": 5, "final_processes": 1},
    "islands": [{"name": "one", "operators": {"rewrite": 1}}],
}


@pytest.fixture
def task_file(tmp_path: Path) -> Path:
    path = tmp_path / "copied.py"
    path.write_text(TASK, encoding="utf-8")
    return path


def test_sizes_are_drawn_between_the_workloads_and_no_others(task_file: Path) -> None:
    task = load_task(str(task_file)).on("cpu")
    domain = size_domain(task)
    assert (domain.ranges, domain.others) == ({"R": (16, 24), "C": (32, 512)}, ({},))
    drawn = domain.draw(task, 12, stream(1, 0, "test"))
    assert drawn == domain.draw(task, 12, stream(1, 0, "test"))
    assert len({tuple(dims.items()) for dims in drawn}) == 12
    assert all(16 <= dims["R"] <= 24 and 32 <= dims["C"] <= 512 for dims in drawn)
    assert max(dims["C"] for dims in drawn) > 300
    pairs: list[tuple[Dims, Dims]] = [({"R": 16, "C": 64}, {"R": 16, "C": 256})]
    closer = domain.between(task, pairs, 3, stream(1, 1, "test"))
    assert closer
    assert all(64 < dims["C"] < 256 for dims in closer)
    assert not domain.holds(task, {"R": 24, "C": 10**6})


def test_a_task_is_restated_at_other_sizes_beside_torch_alone(tmp_path: Path, task_file: Path) -> None:
    spec = write_at_sizes(tmp_path, str(task_file), "cpu", [{"R": 17, "C": 40}])
    task = load_task(spec).on("cpu")
    assert [dict(each.dims) for each in task.workloads["cpu"].search] == [{"R": 17, "C": 40}]
    assert task.baselines is None
    gemm = at_sizes("gemm", "cuda", [{"M": 8, "N": 8, "K": 8}]).on("cuda")
    assert list(gemm.baselines or ()) == ["torch"]


@pytest.mark.slow
@pytest.mark.alone
def test_specialists_become_one_operator(tmp_path: Path, task_file: Path) -> None:
    config = parse_config(CONFIG | {"task": str(task_file), "store": "copied.db"}, "the test")
    judged = judge(SMALL, str(task_file), budgets=(Fidelity.PRECISE,), settings=config.evaluation)
    store = tmp_path / "copied.db"
    store_run(store, config, judged)
    task = load_task(config.task).on("cpu")
    both = {"kernel": SMALL, "kernel_other": LARGE}
    stages: list[str] = []
    found = measure_dispatch(task, both, config, sizes=9, accept_from=0.4, seed=0, notify=stages.append)
    more = len(found.measured) - len([*found.domain.workloads(task)]) - 6  # six are drawn first
    assert stages == [f"judging at {more} more sizes, where the answers of neighbours differ"] * (more > 0)
    assert choose(found.tree, {"R": 20, "C": 32}) == "kernel"
    assert choose(found.tree, {"R": 20, "C": 512}) == "kernel_other"

    wrong = Candidate(SMALL.source.replace("i < R * C", "i < R * C - (R > 16 && C > 70)"), "cpp")
    with pytest.raises(WrongBetween, match="failed") as failed:
        measure_dispatch(task, {"kernel": SMALL, "kernel_wrong": wrong}, config, sizes=3, accept_from=0.4, seed=0)
    assert failed.value.module == "kernel_wrong"

    with Store.open(store, write=False) as opened:
        made = export(opened, SMALL.id, out=tmp_path / "taken", sizes=9, accept_from=0.4)
    assert made.dispatch is not None
    assert {leaf.arm for _, leaf in leaves(made.dispatch.tree)} == {"kernel", ""}
    facts = json.loads((tmp_path / "taken" / "provenance.json").read_text(encoding="utf-8"))
    assert facts["dispatch"]["accept_from"] == 0.4
    assert len(facts["dispatch"]["measured"]) >= 9
    assert "Who answers between" in (tmp_path / "taken" / "README.md").read_text(encoding="utf-8")
    run_beside(tmp_path / "taken", """
import op, torch
for columns, kernel in {33: op.kernel, 500: None}.items():
    x = torch.randn(20, columns)
    assert torch.equal(op.copied(x), 2 * x)
    case = op._chosen({"x": x}, {})
    assert (case and case.kernel) is kernel, columns
""", XDG_CACHE_HOME=str(tmp_path))  # fmt: skip
