"""A search on a Ray cluster whose hosts and nodes are killed, and the load of an engine with many hosts.

`python benchmarks/cluster.py kills [--points 50] [--in-flight 8] [--seed 0]`
`python benchmarks/cluster.py slots [--hosts 8] [--slots 8] [--rate 4] [--seconds 60]`

Nodes are simulated by Ray on this machine. Engine, store, leases and actors are the shipped ones; only the judge in an
actor is replaced by one that answers after a while. Programs depend on nothing but their step, so a search without a
cluster has to find the same by step. With `--in-flight 1` the order of facts has to be the same, too.

`kills`: at each point one host or two, or their nodes, get SIGKILL at a moment of a candidate that is drawn. The next
point waits until all hosts are back; Ctrl-C leaves out the rest. `slots`: hosts that judge several candidates
at once at a steady pace; what is measured is the pace that the engine keeps up, and the processor time that it takes.
"""

import argparse
import asyncio
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from archive.journal import ResultEntry  # noqa: E402
from archive.store import Store  # noqa: E402
from benchmarks.loop import AtOnce, Marks, config_of, search_on  # noqa: E402
from evokernel.config.run import EvaluationConfig, RunConfig  # noqa: E402
from evokernel.engine.search import Search  # noqa: E402
from evokernel.evaluate.cluster.ray_hosts import CPU_HOSTS, RayHosts  # noqa: E402
from evokernel.records.events import Event, ResultCommitted  # noqa: E402
from tests.support.toy_host import Death, ToyOpening, send_deaths  # noqa: E402

NODES = 3
JUDGED_S = 0.4
"""Time of one candidate where hosts are killed, in s."""
LOOK_S = 0.1
NO_END = 1_000_000


class SimulatedCluster:
    """Nodes of a cluster on this machine."""

    def __init__(self, *, nodes: int, hosts_each: int = 1) -> None:
        from ray.cluster_utils import Cluster

        self._nodes = nodes
        self._node = {"num_cpus": 0, "resources": {CPU_HOSTS: hosts_each}}
        # Ray's own clean-up at exit needs the main thread, where the engine is.
        self._cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}, shutdown_at_exit=False
        )
        self.address: str = self._cluster.address

    def fill(self) -> None:
        """Start nodes in place of those that have died; one that does not come up is for the next call."""
        for node in list(self._cluster.worker_nodes):
            if not node.remaining_processes_alive():
                self._cluster.remove_node(node, allow_graceful=False)
        while len(self._cluster.worker_nodes) < self._nodes:
            try:
                self._cluster.add_node(wait=False, **self._node)
            except Exception as error:  # noqa: BLE001 - Ray has no class for it; on a busy machine its daemons run into time-outs
                print(f"a node did not start: {error}", file=sys.stderr)
                return

    def shutdown(self) -> None:
        """End every process of the cluster."""
        self._cluster.shutdown()


@contextmanager
def cluster(*, nodes: int, hosts_each: int = 1) -> Iterator[SimulatedCluster]:
    """Run a cluster that accepts only who has its token."""
    token = {"PYTHONPATH": str(ROOT), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    # A busy machine starts nodes slowly, and Ray would have hosts yield to everything else.
    patience = {"RAY_raylet_start_wait_time_s": "90", "RAY_worker_niceness": "0"}
    os.environ.update(token | patience)  # Ray reads them when it is imported
    made = SimulatedCluster(nodes=nodes, hosts_each=hosts_each)
    try:
        made.fill()
        yield made
    finally:
        made.shutdown()


class Killer:
    """Kills hosts and nodes at points, one after the other."""

    def __init__(self, nodes: SimulatedCluster, folder: Path, *, points: int, rng: random.Random) -> None:
        self.killed = {"host": 0, "node": 0}
        """How many of each were killed."""
        self.passed = 0
        """Points that are over."""
        self._nodes = nodes
        self._folder = folder
        self._left = points
        self._rng = rng

    async def kill(self, search: Search) -> None:
        """Pass all points, then stop the search; Ctrl-C leaves out those that are left."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._leave_out)
        await self._until(self._all_up)
        while self._left > 0:
            deaths = [self._death() for _ in range(self._rng.choice((1, 1, 1, 2)))]
            send_deaths(self._folder, deaths)
            await self._until(lambda: not list(self._folder.glob("death.*")))
            await self._until(lambda: not any(map(is_alive, self._pids("taken.*"))))
            await self._until(self._all_up)
            self._left -= 1
            self.passed += 1
        search.stop("no point is left")

    def _leave_out(self) -> None:
        self._left = 0

    def _death(self) -> Death:
        node = self._rng.random() < 0.5
        self.killed["node" if node else "host"] += 1
        return Death(node, after_s=self._rng.uniform(0, 1.2 * JUDGED_S))

    def _pids(self, pattern: str) -> list[int]:
        return [int(path.suffix[1:]) for path in self._folder.glob(pattern)]

    def _all_up(self) -> bool:
        return sum(map(is_alive, self._pids("host.*"))) == NODES

    async def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            await asyncio.to_thread(self._nodes.fill)
            await asyncio.sleep(LOOK_S)


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def facts_of(store: Store, *, ordered: bool) -> list[tuple[Any, ...]]:
    """Return the results by step: what was judged and the verdict; `ordered`, by time, with their origins."""
    found = [fact for fact in store.facts() if isinstance(fact, ResultEntry)]
    rows = []
    for fact in found if ordered else sorted(found, key=lambda each: each.step):
        made, verdict = fact.proposal, fact.evaluation
        origin = (made.island, made.operator, made.parents) if ordered else ()
        rows.append((fact.step, made.candidate.id, verdict.status, verdict.timings, verdict.feedback, *origin))
    return rows


def check(store: Store, *, in_flight: int) -> list[tuple[Any, ...]]:
    """Return the facts; raise `SystemExit` unless the store is sound and every step came once."""
    wrong, leases, rows = store.verify(), store.open_leases(), facts_of(store, ordered=in_flight == 1)
    steps = sorted(row[0] for row in rows)
    twice = store.database.rows("SELECT candidate FROM evaluations GROUP BY candidate, key_digest HAVING count(*) > 1")
    if wrong or leases or steps != list(range(1, len(rows) + 1)) or twice:
        raise SystemExit(f"{wrong[:3]}, {len(leases)} leases, {len(twice)} judged twice, {len(rows)} results")
    return rows


def kills(points: int, in_flight: int, seed: int) -> str:
    """Return the figures of a search whose hosts are killed; raise `SystemExit` for a difference from a local one."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="evokernel-cluster-") as name, cluster(nodes=NODES) as nodes:
        folder = Path(name)
        opening = ToyOpening(folder, AtOnce(), seconds=JUDGED_S)
        killer = Killer(nodes, folder, points=points, rng=random.Random(seed))
        config = config_of(NO_END).model_copy(update={"in_flight": in_flight})
        with Store.open(folder / "cluster.db", write=True) as store:
            hosts = RayHosts(settings(nodes.address, NODES), in_flight=in_flight)
            search = search_on(store, config, Marks([]), evaluator=hosts.open(opening))
            asyncio.run(both(search, killer))
            found = check(store, in_flight=in_flight)
        left = [pid for pid in map(int, (path.suffix[1:] for path in folder.glob("host.*"))) if is_alive(pid)]
        same = local(folder, config, len(found))
        if left or found != same:
            different = [pair for pair in zip(found, same, strict=True) if pair[0] != pair[1]]
            raise SystemExit(f"{left} hosts left; {len(different)} facts differ, such as {different[:1]}")
    killed = " and ".join(f"{count} {name}s" for name, count in killer.killed.items())
    return (
        f"{killer.passed} points, {killed} killed: {len(found)} results with {in_flight} in flight, none lost, none "
        f"twice, all as without a cluster; {time.monotonic() - began:.0f} s"
    )


def local(folder: Path, config: RunConfig, count: int) -> list[tuple[Any, ...]]:
    """Return the facts of as many candidates without a cluster."""
    config = config.model_copy(update={"budget": config_of(count).budget})
    with Store.open(folder / "local.db", write=True) as store:
        asyncio.run(search_on(store, config, Marks([])).run())
        return check(store, in_flight=config.in_flight)


async def both(search: Search, killer: Killer) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(killer.kill(search))
        group.create_task(search.run())


def settings(address: str, hosts: int) -> EvaluationConfig:
    """Return the settings of a search on processors of a cluster."""
    return EvaluationConfig(hosts="ray", address=address, devices={"CPU": hosts})


class Pace:
    """Listener that measures results and processor time of this process over a window, then stops the search."""

    def __init__(self, after: int, seconds: float) -> None:
        self.search: Search | None = None
        self.results, self.seconds, self.cores = 0, 0.0, 0.0
        self._after = after
        self._wanted_s = seconds
        self._count = 0
        self._began: tuple[float, float] | None = None

    def hear(self, event: Event) -> None:
        if not isinstance(event, ResultCommitted):
            return
        self._count += 1
        now = (time.monotonic(), time.process_time())
        if self._began is None:
            if self._count == self._after:
                self._began = now
            return
        self.results, self.seconds = self._count - self._after, now[0] - self._began[0]
        self.cores = (now[1] - self._began[1]) / self.seconds
        if self.seconds >= self._wanted_s and self.search:
            self.search.stop("measured")


def slots(hosts: int, slots: int, rate: float, seconds: float) -> str:
    """Return the pace of a search on hosts with several slots each, and the processor time of its engine."""
    most = hosts * slots
    in_flight = most + most // 2  # a host has the next candidates before it ends the last
    with tempfile.TemporaryDirectory(prefix="evokernel-cluster-") as name, cluster(nodes=1, hosts_each=hosts) as nodes:
        folder = Path(name)
        opening = ToyOpening(folder, AtOnce(), seconds=1 / rate, slots=slots)
        pace = Pace(after=4 * most, seconds=seconds)
        config = config_of(NO_END).model_copy(update={"in_flight": in_flight})
        with Store.open(folder / "slots.db", write=True) as store:
            placed = RayHosts(settings(nodes.address, hosts), in_flight=in_flight)
            pace.search = search_on(store, config, Marks([]), evaluator=placed.open(opening), listeners=[pace])
            asyncio.run(pace.search.run())
            check(store, in_flight=in_flight)
    return (
        f"{most} slots in {hosts} processes at {rate:g} candidates a second each ({most * rate:g} a second): "
        f"{pace.results / pace.seconds:.0f} a second over {pace.seconds:.0f} s, the engine took {pace.cores:.2f} cores "
        f"({1000 * pace.cores * pace.seconds / pace.results:.1f} ms a candidate)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    killed = parts.add_parser("kills")
    killed.add_argument("--points", type=int, default=50)
    killed.add_argument("--in-flight", type=int, default=8)
    killed.add_argument("--seed", type=int, default=0)
    loaded = parts.add_parser("slots")
    loaded.add_argument("--hosts", type=int, default=8)
    loaded.add_argument("--slots", type=int, default=8)
    loaded.add_argument("--rate", type=float, default=4.0)
    loaded.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    if given.part == "kills":
        print(kills(given.points, given.in_flight, given.seed))
    else:
        print(slots(given.hosts, given.slots, given.rate, given.seconds))


if __name__ == "__main__":
    main()
