"""The hosts of a cluster, as `status` and the panel of `watch` show them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from archive.session_notes import read_host_activity, write_host_activity
from evokernel.cli.display.panel import panel
from evokernel.cli.display.snapshot import Snapshot
from evokernel.records.host_activity import HostActivity, HostState
from evokernel.records.run import Progress
from tests.cli.test_live import console, output, state
from tests.cli.test_recent import words
from tests.support.stores import StoreBuilder

GPU = "NVIDIA H100 GPU-0123abcd-0000-0000-0000-000000000000"
READY = HostActivity("node-1", GPU, HostState.READY, 3, 120, 40, 0, "", None)
LOST = HostActivity("node-2", GPU, HostState.LOST, 0, 17, 2, 1, "ActorDiedError: its node was lost", 1.0)


def test_status_shows_the_hosts_of_a_search_at_work(project: Path, call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")
    with StoreBuilder(project / "runs" / "night.db") as built:
        built.seed(speedup=1.0)
        write_host_activity(built.store, [READY, LOST])
        assert read_host_activity(built.store) == (READY, LOST)
        text = words(call("status").output)
        assert f"node-1 {GPU} ready 3 120 40" in text
        assert f"node-2 {GPU} lost 0 17 2 1, " in text
        assert text.endswith("ago: ActorDiedError: its node was lost")
        assert [host["queue"] for host in json.loads(call("status", "--json").output)["hosts"]] == [3, 0]
        built.store.session_end("enough")
        text = words(call("status").output)
        assert f"node-1 {GPU} - - 120 -" in text
        write_host_activity(built.store, [])  # a session without a cluster
    assert "node-1" not in call("status").output


@pytest.mark.parametrize("height", [12, 24, 60])
def test_the_panel_shows_hosts_in_trouble_first(height: int):
    hosts = tuple(replace(READY, node=f"node-{number}") for number in range(10, 80))
    target = console(width=120, height=height)
    target.print(
        panel(state(Snapshot(Progress(5, 1.0, 0.0, 0, 0.0, 1.0), hosts=(*hosts, LOST))), width=120, height=height)
    )
    lines = output(target).splitlines()
    assert len(lines) <= height
    if height > 12:
        listed = [line for line in lines if " node-" in line]
        assert "node-2 0123abcd" in listed[0]
        assert "its node was lost" in listed[0]
        assert len(listed) == 1 or "node-10" in listed[1]
        assert f"{len(hosts) + 1 - len(listed)} more" in output(target)
