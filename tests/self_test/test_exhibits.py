"""The exhibits of the self-test: what they say of themselves, and that each can be made for any signature."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from evokernel.config.run import EvaluationConfig
from evokernel.errors import TaskError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.languages.cpp.compilers import find_compiler
from evokernel.languages.cpp.guide import C_TYPES
from evokernel.records.evaluation import Stage
from evokernel.self_test.exhibits import CLASSES, Exhibit, all_exhibits
from evokernel.self_test.knowledge import NEEDS
from evokernel.self_test.wrapping import CallCounts, wrap
from evokernel.task import DTYPES, Role, Scalar, Signature, Task, Tensor, WorkloadSet
from tests.self_test.mixed_task import task as mixed

DOCS = Path(__file__).parents[2] / "docs" / "worker-mode.md"
EVERY = all_exhibits()
CHEATS = [exhibit for exhibit in EVERY if not exhibit.honest]


def strange_task() -> Task:
    """Return a task of every dtype, in names and sizes that a careless text would trip over."""
    inputs = (
        Tensor("a1", ("N // 2", "T"), dtype="bfloat16"),
        Tensor("count", (), dtype="float64"),
        Tensor("place", ("N",), dtype="int64"),
        Tensor("int16", ("K",), dtype="float16", role=Role.INOUT),
    )
    outputs = tuple(
        Tensor(f"out_{dtype}", ("N", "2 * (T + 1) % 7 + 1"), dtype=dtype, role=Role.OUTPUT) for dtype in DTYPES
    )
    scalars = (Scalar("N"), Scalar("eps", "float32"), Scalar("T"), Scalar("scale", "float64"))
    workload = replace(mixed.workloads["cpu"].search[0], dims={"N": 8, "T": 3, "K": 5, "eps": 0.1, "scale": 2.0})
    return replace(
        mixed,
        signature=Signature(inputs, scalars, outputs),
        workloads={"cpu": WorkloadSet(search=(workload,), holdout=(workload,), probe={"N": (2, 9), "T": (1, 4)})},
        flops="N",
    )


def kernel_of(task: Task) -> str:
    """Return a kernel for a task that computes nothing, in which `run` is used in more ways than one."""

    def declared(argument: Tensor | Scalar) -> str:
        name = C_TYPES[argument.dtype]
        if isinstance(argument, Scalar):
            return f"{name} {argument.name}"
        return f"{'const ' * (argument.role is Role.INPUT)}{name}* __restrict {argument.name}"

    parameters = ", ".join(map(declared, task.signature.arguments))
    return (
        f"#include <cstdint>\nusing namespace std;\nstruct honest {{ int run; }};\nvoid timed();\n"
        f'namespace mine {{ extern "C" void run({parameters}) {{}} }}  // no line end behind this'
    )


def test_every_exhibit_says_what_it_is():
    assert len(CHEATS) >= 35
    assert len({exhibit.name for exhibit in EVERY}) == len(EVERY)
    assert {exhibit.family for exhibit in CHEATS} == set(CLASSES)
    for exhibit in EVERY:
        assert exhibit.title, exhibit.name
        assert set(exhibit.needs) <= set(NEEDS), exhibit.name
    for cheat in CHEATS:
        assert cheat.tries, cheat.name
        assert [bool(cheat.stops), bool(cheat.hole), cheat.gains_nothing].count(True) == 1, cheat.name
        assert not set(cheat.stops) & {Stage.STATIC, Stage.COMPILE}, cheat.name  # there it would not have been tried
    harmless = [exhibit for exhibit in EVERY if exhibit.honest]
    assert len(harmless) == 3
    assert not any(exhibit.stops or exhibit.hole or exhibit.gains_nothing for exhibit in harmless)


def test_every_known_hole_is_in_the_docs():
    text = DOCS.read_text(encoding="utf-8")
    holes = [exhibit.name for exhibit in CHEATS if exhibit.hole]
    assert holes
    assert [name for name in holes if f"`{name}`" not in text] == []


@pytest.mark.parametrize("exhibit", EVERY, ids=lambda exhibit: exhibit.name)
def test_it_can_be_made_for_any_signature(exhibit: Exhibit, tmp_path: Path):
    task = strange_task()
    results = 1 + len(task.signature.outputs)
    source = wrap(kernel_of(task), exhibit, task=task, paces=[CallCounts(2, 1)], bias=[1e-6] * results)
    assert local_language("cpp", EvaluationConfig()).static_check(source) is None
    (tmp_path / "kernel.cpp").write_text(source, encoding="utf-8")
    argv = [*find_compiler().argv, "-std=c++20", "-march=native", "-fPIC", "-fsyntax-only", "-w", "kernel.cpp"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


def test_sizes_that_no_scalar_passes_on_must_not_vary():
    exhibit = next(exhibit for exhibit in EVERY if exhibit.name == "zeros")
    task = strange_task()
    varying = replace(task.workloads["cpu"], probe={"N": (2, 9), "K": (1, 4)})
    with pytest.raises(TaskError, match="no scalar of the signature passes K on"):
        wrap("", exhibit, task=replace(task, workloads={"cpu": varying}), paces=[CallCounts(2, 1)], bias=[1e-6] * 7)


def test_a_size_that_cpp_cannot_say_is_refused():
    exhibit = next(exhibit for exhibit in EVERY if exhibit.name == "zeros")
    odd = replace(mixed.signature, outputs=(Tensor("y", ("R", "C < 3"), role=Role.OUTPUT),))
    with pytest.raises(TaskError, match="cannot write the size 'C < 3'"):
        wrap("", exhibit, task=replace(mixed, signature=odd), paces=[CallCounts(2, 1)], bias=[1e-6] * 2)
