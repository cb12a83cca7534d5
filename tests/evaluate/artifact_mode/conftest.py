"""The stand-in's host, and a runner on it."""

from collections.abc import Iterator

import pytest

from evokernel.evaluate.artifact_mode.runner_pool import ArtifactRunner
from tests.evaluate.artifact_mode.stand_in_runner import StandInHost


@pytest.fixture
def host() -> Iterator[StandInHost]:
    """Yield a host, and see to it that every process it started was asked how it ended."""
    made = StandInHost()
    yield made
    for process in made.processes.values():
        process.kill()
        process.wait()
    assert not made.processes


@pytest.fixture
def runner(host: StandInHost) -> Iterator[ArtifactRunner]:
    with ArtifactRunner(host, spin=False) as made:
        made.wait_ready()
        yield made
