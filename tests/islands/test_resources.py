"""Needs of limited resources, read from evaluations as the languages' messages put them."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from evokernel.languages.gpu import cuda, triton_messages
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity, Mode, Stage, Status
from islands.resources import resources_of

KEY = EvaluationKey("p", "t", "d", "e", "1", Mode.ARTIFACT, Fidelity.QUICK)
Digest = Callable[[Mapping[str, Any], str], str]


@pytest.mark.parametrize(
    ("digest", "resource"),
    [
        (triton_messages.digest_failure, "shared memory"),
        (triton_messages.digest_failure, "threads"),
        (triton_messages.digest_failure, "tensor memory"),
        (cuda.digest_failure, "shared memory"),
        (cuda.digest_failure, "threads"),
        (cuda.digest_failure, "registers"),
    ],
)
def test_a_message_names_need_and_limit(digest: Digest, resource: str) -> None:
    failure = {"hidden": False, "stage": "resources", "resource": resource, "required": 262144, "limit": 232448}
    text = digest(failure, "BLOCK = 64  # tune: 64 128\n")
    found = Evaluation(KEY, "c", Status.COMPILE_ERROR, Stage.COMPILE, feedback=text)
    assert resources_of(found) == ({resource: 262144.0}, {resource: 232448.0})


def test_what_was_compiled_says_its_shared_memory() -> None:
    compiled = Evaluation(KEY, "c", Status.NUMERICAL, Stage.SMOKE, descriptor={"shared_kib": 48.0})
    assert resources_of(compiled) == ({"shared memory": 49152.0}, {})
    assert resources_of(Evaluation(KEY, "c", Status.TIMEOUT, Stage.SMOKE)) == ({}, {})
