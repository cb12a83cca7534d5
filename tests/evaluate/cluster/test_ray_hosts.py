"""Hosts on a cluster of this machine: our actor and Ray's processes, which are killed; see `toy_host` for the judge."""

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from evokernel.config.run import ConstraintsConfig, EvaluationConfig
from evokernel.doctor.cluster import examine_cluster
from evokernel.doctor.finding import FindingLevel
from evokernel.errors import HarnessError
from evokernel.evaluate.cluster.host import LocalOpening
from evokernel.evaluate.cluster.ray_hosts import RayHosts
from evokernel.protocols import has_hosts
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import EvaluationRequest, Fidelity, Status
from evokernel.records.host_activity import HostActivity
from evokernel.testing.evaluator import SETTINGS, kernel, write_task
from tests.support.fakes import TOY
from tests.support.processes import descendants, take_orphans
from tests.support.toy_host import Death, ToyOpening, send_deaths

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
]
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))  # never one that lies on this machine
        from ray.cluster_utils import Cluster  # Ray reads those variables when it is imported

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "resources": {"evokernel": 3}})
        yield cluster.address
        cluster.shutdown()


def hosts_of(address: str, count: int, **settings: Any) -> RayHosts:
    return RayHosts(EvaluationConfig(hosts="ray", address=address, devices={"CPU": count}, **settings))


def test_doctor_lists_the_nodes(address: str) -> None:
    (found,) = examine_cluster(address)
    assert found.state is FindingLevel.OK, found
    assert found.name.startswith(f"node {socket.gethostname()} ")
    assert found.found.startswith("CPU: 3; ")


def test_killed_hosts_and_nodes_change_nothing() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "cluster.py"), "kills", "--points", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "none lost, none twice" in done.stdout, done.stdout + done.stderr


def test_a_candidate_that_three_hosts_were_lost_on_is_our_fault(address: str, tmp_path: Path):
    async def judge() -> Sequence[HostActivity]:
        async with hosts_of(address, 3).open(ToyOpening(tmp_path)) as evaluator:
            send_deaths(tmp_path, [Death()] * 4)
            with pytest.raises(HarnessError, match="3 hosts were lost"):
                await evaluator.evaluate(EvaluationRequest(Candidate(TOY, "cpp"), "p", Fidelity.QUICK))
            assert has_hosts(evaluator)
            return evaluator.host_activity()

    hosts = asyncio.run(judge())
    assert [(host.queue, host.judged, host.failures) for host in hosts] == [(0, 0, 1)] * 3
    assert all(host.node and "Actor" in host.last_failure for host in hosts)
    assert len(list(tmp_path.glob("taken.*"))) == 3


def test_a_host_judges_as_a_machine_does_and_joins_again_after_its_death(address: str, tmp_path: Path):
    source = kernel()
    opening = LocalOpening(write_task(tmp_path), "cpp", SETTINGS, ConstraintsConfig(), threads=1, profiled=False)

    async def judge() -> list[Any]:
        hosts = hosts_of(address, 1)
        before = descendants()
        async with hosts.open(opening) as evaluator:
            request = EvaluationRequest(Candidate(source, "cpp"), "p", Fidelity.QUICK)
            first = await evaluator.evaluate(request)
            (host,) = hosts.hosts
            os.kill((await host.ask("facts")).process, signal.SIGKILL)
            again = await evaluator.evaluate(request)
        return [first, again, descendants() - before]

    take_orphans(True)  # what outlives a killed host
    try:
        first, again, left = asyncio.run(judge())
    finally:
        take_orphans(False)
    assert (first.status, again.status) == (Status.OK, Status.OK), again.feedback
    assert first.key == again.key
    assert not left
