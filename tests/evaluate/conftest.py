"""A judge host for all tests of a session that start judges of a processor, each of which would import torch anew."""

from collections.abc import Iterator

import pytest

from evokernel.evaluate.client.judge_process import JudgeHostClient


@pytest.fixture(scope="session")
def judge_host() -> Iterator[JudgeHostClient]:
    with JudgeHostClient("cpu") as started:
        yield started
