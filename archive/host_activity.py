"""Activity of the hosts of a cluster, as a session last saw it: a note beside the facts, which no replay reads."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from archive.store import Store
from evokernel.records.host_activity import HostActivity, HostState

KEY = "hosts"


def write_host_activity(store: Store, hosts: Sequence[HostActivity]) -> None:
    """Write what the hosts do over what they did before; nothing where that is the same."""
    text = json.dumps([asdict(host) for host in hosts])
    if text != (store.meta(KEY) or "[]"):
        store.set_meta(KEY, text)


def read_host_activity(store: Store) -> tuple[HostActivity, ...]:
    """Return what each host did last; empty where the last session had no cluster."""
    found = json.loads(store.meta(KEY) or "[]")
    return tuple(HostActivity(**{**each, "state": HostState(each["state"])}) for each in found)
