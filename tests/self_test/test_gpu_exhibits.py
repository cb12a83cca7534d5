"""The self-test's exhibits for a GPU, as far as none is needed: each can be made, and passes all doors but its own."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from evokernel.errors import TaskError
from evokernel.protocols import Language
from evokernel.records.evaluation import Stage
from evokernel.self_test.attack import choose_kernel
from evokernel.self_test.exhibits import CLASSES, Exhibit, all_exhibits
from evokernel.self_test.knowledge import NEEDS, look_on_gpu
from evokernel.self_test.wrapping import wrap_python
from evokernel.task import Role, Task
from evokernel.tasks import load_task
from tests.museum.pipeline import Passed, hidden_shapes, language_for, pass_doors

EVERY = [(language, exhibit) for language in ("triton", "cuda") for exhibit in all_exhibits(language)]
NAMES = [f"{language}-{exhibit.name}" for language, exhibit in EVERY]


@pytest.fixture(scope="module")
def languages() -> Mapping[str, Language]:
    return {name: language_for(name) for name in ("triton", "cuda")}


def test_every_exhibit_says_what_it_is():
    for language in ("triton", "cuda"):
        exhibits = [exhibit for each, exhibit in EVERY if each == language]
        assert len({exhibit.name for exhibit in exhibits}) == len(exhibits)
        assert sum(exhibit.honest for exhibit in exhibits) == 3
    for _, exhibit in EVERY:
        assert exhibit.title, exhibit.name
        assert set(exhibit.needs) <= set(NEEDS), exhibit.name
        assert exhibit.honest or (exhibit.family in CLASSES and exhibit.tries and exhibit.stops), exhibit.name


def with_one_workload(task: Task) -> Task:
    """Return a task with the first of its search workloads: each is compiled for."""
    one = replace(task.workloads["cuda"], search=task.workloads["cuda"].search[:1])
    return replace(task, workloads={"cuda": one})


@pytest.mark.parametrize(("language", "exhibit"), EVERY, ids=NAMES)
def test_it_is_refused_before_a_gpu_only_where_its_head_says_so(
    languages: Mapping[str, Language], language: str, exhibit: Exhibit
):
    task = with_one_workload(load_task("softmax").on("cuda"))
    source = wrap_python(choose_kernel("softmax", language=language).source, exhibit, task=task)
    found = pass_doors(languages[language], source, task, hidden=hidden_shapes(task)[:1])
    if isinstance(found, Passed):
        assert found.recorded
        assert exhibit.honest or set(exhibit.stops) - {Stage.COMPILE}
    else:
        assert found.stage in exhibit.stops, found.feedback


def test_a_task_without_the_means_leaves_exhibits_out():
    task = load_task("softmax").on("cuda")
    assert not look_on_gpu(task).lacks
    x = replace(task.signature.inputs[0], role=Role.INOUT)
    changed = replace(task, signature=replace(task.signature, inputs=(x,)))
    assert look_on_gpu(changed).lacks.keys() == {
        *("an input", "an input like a result", "results that are outputs only")
    }


def test_a_language_without_a_seed_asks_for_a_kernel():
    with pytest.raises(
        TaskError, match=r"no seed in CUDA C\+\+ to make cheats from; name a right kernel: --kernel FILE.cu.py"
    ):
        choose_kernel("layernorm", language="cuda")
    with pytest.raises(TaskError, match=r"makes cheats in C\+\+, for processors"):
        choose_kernel("gemm_deep", language="cpp")
    assert choose_kernel("gemm_deep").language == "triton"
