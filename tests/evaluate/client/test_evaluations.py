"""What is in the hash of a task, and which earlier hashes stand for the same one."""

import hashlib
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import create_model

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.client.earlier_tasks import _ON_A_PROCESSOR, earlier_texts
from evokernel.evaluate.client.evaluations import identify
from evokernel.records.evaluation import EvaluatorIdentity
from evokernel.tasks import builtin_tasks, task_hash

HELLO = {"device": "d", "sheet": {}, "sandbox": "none", "baseline_us": {}}
NAMES = st.from_regex(r"[a-z][a-z_]{2,12}", fullmatch=True).filter(lambda name: not hasattr(EvaluationConfig, name))
VALUES = st.one_of(st.booleans(), st.integers(), st.text(max_size=5), st.none())


def identity(settings: EvaluationConfig, *, task: str = "gemm", device: str = "cpu") -> EvaluatorIdentity:
    language: Any = SimpleNamespace(environment="e")
    return identify(HELLO, task, language=language, settings=settings, threads=1, device=device)


@given(name=NAMES.filter(lambda name: name not in EvaluationConfig.model_fields), default=VALUES, other=VALUES)
def test_a_setting_of_a_later_release_is_another_task_only_where_it_is_used(
    name: str, default: Any, other: Any
) -> None:
    fields: dict[str, Any] = {name: (Any, default)}
    later = create_model("Later", __base__=EvaluationConfig, **fields)
    before, after = identity(EvaluationConfig(quick_ms=7)), identity(later(quick_ms=7))
    assert (after.task_hash, after.earlier_task_hashes) == (before.task_hash, before.earlier_task_hashes)
    assert (identity(later(**{name: other})).task_hash == identity(later()).task_hash) == (default == other)


@pytest.mark.parametrize("name", ["quick_ms", "precise_ms", "final_ms", "timeout_s", "memory_mib", "final_processes"])
def test_a_setting_of_the_first_release_is_always_in_the_hash(name: str) -> None:
    plain = EvaluationConfig()
    changed = plain.model_copy(update={name: getattr(plain, name) + 1})
    assert identity(changed).task_hash != identity(plain).task_hash


def test_the_recipe_of_the_hash_is_the_first_releases() -> None:
    rest = (
        '{"quick_ms":60.0,"precise_ms":250.0,"final_ms":1000.0,"final_processes":3,"timeout_s":20.0,"memory_mib":4096}'
    )
    settings = EvaluationConfig(quick_ms=60.0, precise_ms=250.0, final_ms=1000.0, timeout_s=20.0)
    for text, recorded in (("e22c01ffbe2e17f3", "4a051451b1511874"), (task_hash("gemm"), identity(settings).task_hash)):
        assert hashlib.sha256(f"{text} 1 {rest}".encode()).hexdigest()[:16] == recorded
    assert "4a051451b1511874" in identity(settings).earlier_task_hashes


def test_earlier_texts_are_named_for_texts_of_today_only() -> None:
    """A failure here says that a task changed: compare it with its earlier text, and say whether it is the same."""
    assert _ON_A_PROCESSOR.keys() <= {task_hash(name) for name in builtin_tasks()}


@pytest.mark.parametrize("task", builtin_tasks())
def test_on_a_gpu_another_text_is_another_task(task: str) -> None:
    assert earlier_texts(task_hash(task), device="cuda") == ()
    assert identity(EvaluationConfig(), task=task, device="cuda").earlier_task_hashes == frozenset()
