"""The hosts of a cluster in a config."""

from typing import Any

import pytest
from pydantic import ValidationError

from evokernel.config.changes import may_change
from evokernel.config.run import EvaluationConfig


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"hosts": "ray"}, "devices of one model"),
        ({"hosts": "ray", "devices": {"H100": 8, "A100": 2}}, "devices of one model"),
        ({"devices": {"H100": 8}}, "add hosts: ray"),
        ({"hosts": "ray", "devices": {"CPU": 1}, "expert": "k.cpp"}, "expert"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], said: str):
    with pytest.raises(ValidationError, match=said):
        EvaluationConfig(**wrong)


def test_a_run_may_move_to_a_cluster_and_back():
    moved = EvaluationConfig(hosts="ray", devices={"H100": 8}).on("cuda")
    assert moved.devices == {"H100": 8}
    assert all(may_change(f"evaluation.{key}", ["one"]) for key in ("hosts", "address", "devices.H100"))
