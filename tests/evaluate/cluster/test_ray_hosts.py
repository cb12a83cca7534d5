"""Hosts on a cluster of this machine: our actor and Ray's processes, which are killed; see `toy_host` for the judge."""

import asyncio
import os
import secrets
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from archive.store import Store
from evokernel.config.run import ConstraintsConfig, EvaluationConfig
from evokernel.errors import HarnessError
from evokernel.evaluate.cluster.host import LocalOpening
from evokernel.evaluate.cluster.ray_hosts import RayHosts
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import EvaluationRequest, Fidelity, Status
from evokernel.testing.evaluator import SETTINGS, kernel, write_task
from tests.support.engine import toy_config, toy_search
from tests.support.fakes import TOY, InstantEvaluator
from tests.support.processes import descendants
from tests.support.toy_host import ToyOpening

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


def steps_of(store: Store) -> list[tuple[Any, ...]]:
    sql = (
        "SELECT step, proposals.candidate, status FROM results JOIN proposals USING (step) "
        "JOIN evaluations ON evaluations.seq = evaluation ORDER BY results.seq"
    )
    return [tuple(row) for row in store.database.rows(sql)]


def test_killed_hosts_change_nothing(address: str, tmp_path: Path):
    found, config = [], toy_config(in_flight=1, budget={"evaluations": 20})
    for name in ("local", "cluster"):
        with Store.open(tmp_path / f"{name}.db", write=True) as store:
            opening = ToyOpening(tmp_path, of=4, times=1)
            evaluator = InstantEvaluator() if name == "local" else hosts_of(address, 2).open(opening)
            asyncio.run(toy_search(store, config, evaluator).run())
            found.append(steps_of(store))
    assert found[0] == found[1]
    assert len(found[0]) == 20
    assert len(list(tmp_path.glob("*.[0-9]*"))) >= 2, "no host was killed"


def test_a_candidate_that_three_hosts_were_lost_on_is_our_fault(address: str, tmp_path: Path):
    async def judge() -> None:
        async with hosts_of(address, 3).open(ToyOpening(tmp_path, of=1, times=9)) as evaluator:
            await evaluator.evaluate(EvaluationRequest(Candidate(TOY, "cpp"), "p", Fidelity.QUICK))

    with pytest.raises(HarnessError, match="3 hosts were lost"):
        asyncio.run(judge())
    assert len(list(tmp_path.iterdir())) == 3


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

    first, again, left = asyncio.run(judge())
    assert (first.status, again.status) == (Status.OK, Status.OK), again.feedback
    assert first.key == again.key
    assert not left
