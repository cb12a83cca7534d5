"""Input generators of a task in the sandbox: what they make, and what an author of a bad one is told."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from evokernel.errors import HarnessError, TaskError
from evokernel.evaluate.build.confined_generators import ConfinedGenerator, confine_generators
from evokernel.evaluate.numerics.generated_inputs import GeneratedInputs, check_generators, generate
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.task import Role, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks import load_task

SPEC = """
import os
import time
from pathlib import Path

import numpy as np
import torch

import helper
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

HERE = Path(__file__).parent


def pair(sizes, seed):
    rng = np.random.default_rng(seed)
    return {"order": helper.order(rng, sizes["N"]), "scale": rng.normal(size=sizes["N"])}


def alone(sizes, seed):
    return torch.randint(0, sizes["N"], (sizes["N"],), generator=torch.Generator().manual_seed(seed))


def same(sizes, seed):
    return torch.randint(0, sizes["N"], (sizes["N"],))


def any_seed(sizes, seed):
    return np.random.default_rng().integers(0, sizes["N"], sizes["N"])


def beyond(sizes, seed):
    return torch.full((sizes["N"],), sizes["N"])


def negative(sizes, seed):
    return torch.full((sizes["N"],), -1)


def shape(sizes, seed):
    return torch.zeros(sizes["N"] + 1, dtype=torch.int64)


def kind(sizes, seed):
    return torch.zeros(sizes["N"], dtype=torch.int32)


def named(sizes, seed):
    return {"another": torch.zeros(sizes["N"], dtype=torch.int64)}


def nothing(sizes, seed):
    return None


def raises(sizes, seed):
    raise KeyError("rows")


def writes(sizes, seed):
    (HERE / "left behind").write_text("here")


def ends(sizes, seed):
    os._exit(3)


OWN = (alone, same, any_seed, beyond, negative, shape, kind, named, nothing, raises, writes, ends)
N = {"N": 40}
task = Task(
    name="generated",
    reference=lambda **_: None,
    signature=Signature(
        inputs=(
            Tensor("order", ("N",), "int32", below="N", generator=pair),
            Tensor("scale", ("N",), "float32", generator=pair),
            *(Tensor(each.__name__, ("N",), "int64", below="N", generator=each) for each in OWN),
            Tensor("x", ("N",)),
        ),
        scalars=(Scalar("N"),),
        outputs=(Tensor("y", ("N",), role=Role.OUTPUT),),
    ),
    workloads={"cpu": WorkloadSet((Workload("w", N),), (Workload("h", N),), {"N": (1, 9)}, dtype="bfloat16")},
    flops="N",
)
"""
HELPER = """
def order(rng, size):
    return rng.permutation(size).astype("int32")
"""
WORKLOAD = Workload("w", {"N": 40})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("generated")
    made.chmod(0o755)
    (made / "task.py").write_text(SPEC)
    (made / "helper.py").write_text(HELPER)
    return made


@pytest.fixture(scope="module")
def task(folder: Path) -> Task:
    spec = str(folder / "task.py")
    return confine_generators(load_task(spec).on("cpu"), spec)


def only(task: Task, *names: str) -> Task:
    """Return the task with some of its inputs."""
    inputs = tuple(tensor for tensor in task.signature.inputs if tensor.name in names)
    return replace(task, signature=replace(task.signature, inputs=inputs))


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def test_a_generator_makes_several_tensors_that_fit_and_floats_in_the_dtype_of_the_device(task: Task) -> None:
    pair, drawn = only(task, "order", "scale", "x"), rng()
    first, second = (draw(pair, WORKLOAD, "wide", drawn) for _ in range(2))
    assert list(first) == ["order", "scale", "x"]
    assert (first["order"].dtype, first["scale"].dtype) == (torch.int32, torch.bfloat16)
    assert sorted(first["order"].tolist()) == list(range(40))
    assert not torch.equal(first["order"], second["order"])
    check_generators(pair, WORKLOAD, drawn)


def test_a_task_may_lie_in_a_folder_that_only_its_owner_can_enter(folder: Path, tmp_path: Path) -> None:
    for file in folder.glob("*.py"):
        (tmp_path / file.name).write_text(file.read_text())
    tmp_path.chmod(0o700)
    spec = str(tmp_path / "task.py")
    confined = only(confine_generators(load_task(spec).on("cpu"), spec), "order", "scale")
    made = generate(confined, WORKLOAD, rng(), device="cpu")
    assert sorted(made["order"].tolist()) == list(range(40))


def test_one_tensor_needs_no_dict(task: Task) -> None:
    assert set(generate(only(task, "alone"), WORKLOAD, rng(), device="cpu")) == {"alone"}


BAD = {
    "same": "gives the same contents for two seeds",
    "any_seed": "gives other contents for the same seed",
    "beyond": "values from 40 to 40 with {'N': 40}; declared are 0 to 39",
    "negative": "values from -1 to -1",
    "shape": "returned 'shape' of shape [41]; declared is [40]",
    "kind": "returned 'kind' as torch.int32; declared is int64",
    "named": "must return a dict of the tensors named, but returned ['another']",
    "nothing": "returned 'nothing' as NoneType",
    "raises": "raised KeyError: 'rows'",
    "writes": "Error: [Errno",
    "ends": "exited with 3",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_generator_is_refused_by_admission_with_a_reason(task: Task, folder: Path, name: str) -> None:
    with pytest.raises(TaskError) as caught:
        check_generators(only(task, name), WORKLOAD, rng())
    assert name in str(caught.value)
    assert BAD[name] in str(caught.value)
    assert not (folder / "left behind").exists()


def test_nothing_calls_a_generator_in_this_process(task: Task, folder: Path) -> None:
    (confined,) = only(task, "alone").signature.generators
    assert isinstance(confined, ConfinedGenerator)
    with pytest.raises(TaskError, match="sandbox"):
        confined({"N": 40}, 1)
    with pytest.raises(HarnessError, match="not confined"):
        generate(only(load_task(str(folder / "task.py")), "alone"), WORKLOAD, rng(), device="cpu")


def test_timed_calls_get_contents_that_never_came_before(task: Task) -> None:
    pair = only(task, "order", "scale", "x")
    fresh = FreshInputs(pair, WORKLOAD, rng())
    windows = [window for _ in range(3) for window in fresh.draw_windows(50)]
    seen = {tuple(window["order"].values.tolist()) for window in windows}
    assert len(seen) == 150
    buffers = {t.name: torch.zeros(2, 40, dtype=getattr(torch, t.dtype)) for t in pair.signature.inputs}
    fresh.fill_sets(buffers, windows[:2])
    assert torch.equal(buffers["order"][1], windows[1]["order"].values)


class Slow:
    """A source that makes one content at a time, and takes longer for it than a batch may wait."""

    def __init__(self, cost_s: float) -> None:
        self.cost_s = cost_s
        self.made = 0
        self.earlier: dict[str, list[dict[str, torch.Tensor]]] = {}

    def __call__(self, sizes: Mapping[str, int], seed: int) -> None:
        raise AssertionError

    def contents(self, sizes, seeds, *, tensors, budget_s):
        time.sleep(self.cost_s)
        self.made += 1
        return [{tensor.name: torch.full((sizes["N"],), self.made) for tensor in tensors}]


def contents_of(source: Slow, workload: Workload = WORKLOAD) -> GeneratedInputs:
    tensor = Tensor("x", ("N",), "int64", generator=source)
    made = Task(
        name="slow",
        reference=lambda **_: None,
        signature=Signature((tensor,), (), (Tensor("y", ("N",), role=Role.OUTPUT),)),
        workloads={"cpu": WorkloadSet((WORKLOAD,), (WORKLOAD,), {})},
        flops="N",
    )
    return GeneratedInputs(made, workload, rng(), device="cpu")


def test_of_a_slow_generator_contents_come_again_and_the_oldest_first() -> None:
    found = contents_of(Slow(0.0))
    batches = [sorted(int(content["x"][0]) for content in found.draw(3)) for _ in range(6)]
    assert batches == [[1, 1, 1], [1, 2, 2], [1, 2, 3], [2, 3, 4], [1, 4, 5], [2, 3, 6]]


def test_the_next_candidate_first_gets_what_earlier_ones_had_and_it_has_not_seen() -> None:
    source = Slow(0.0)
    for _ in range(4):
        contents_of(source).draw(1)
    assert sorted(int(content["x"][0]) for content in contents_of(source).draw(5)) == [1, 2, 3, 4, 5]
    other = contents_of(source, Workload("other", {"N": 3}))
    assert [len(content["x"]) for content in other.draw(2)] == [3, 3]


@pytest.mark.parametrize(("cost_s", "least", "most"), [(0.012, 4, 8), (0.2, 4, 4)])
def test_a_batch_has_no_more_calls_than_new_contents_but_for_very_slow_generators(cost_s, least, most) -> None:
    found = contents_of(Slow(cost_s))
    found.draw(3)
    assert least <= found.affordable <= most


def test_inputs_without_a_generator_limit_no_batch(task: Task) -> None:
    assert FreshInputs(only(task), WORKLOAD, rng()).affordable > 1000


def test_a_very_slow_generator_is_not_waited_for_in_every_batch() -> None:
    source = Slow(0.3)
    found = contents_of(source)
    for _ in range(12):
        found.draw(2)
    assert 4 <= source.made < 12


def test_a_generator_is_for_inputs() -> None:
    with pytest.raises(TaskError, match="inputs"):
        Tensor("y", ("N",), role=Role.OUTPUT, generator=lambda sizes, seed: None)
