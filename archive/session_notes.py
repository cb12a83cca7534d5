"""Notes of a session beside the facts, which no replay reads: diversity of the islands, activity of cluster hosts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from archive.store import Store
from evokernel.records.diversity import IslandDiversity
from evokernel.records.host_activity import HostActivity, HostState

_DIVERSITY = "diversity"
_HOSTS = "hosts"


def write_diversity(store: Store, islands: Mapping[str, IslandDiversity]) -> None:
    """Write the diversity of each island over what was measured before."""
    store.set_meta(_DIVERSITY, json.dumps({name: asdict(each) for name, each in islands.items()}))


def read_diversity(store: Store) -> dict[str, IslandDiversity]:
    """Return the diversity of each island; empty where no session has measured it."""
    stored = json.loads(store.meta(_DIVERSITY) or "{}")
    return {str(name): IslandDiversity(**each) for name, each in stored.items()}


def write_host_activity(store: Store, hosts: Sequence[HostActivity]) -> None:
    """Write what the hosts do over what they did before; nothing where that is the same."""
    text = json.dumps([asdict(host) for host in hosts])
    if text != (store.meta(_HOSTS) or "[]"):
        store.set_meta(_HOSTS, text)


def read_host_activity(store: Store) -> tuple[HostActivity, ...]:
    """Return what each host did last; empty where the last session had no cluster."""
    found = json.loads(store.meta(_HOSTS) or "[]")
    return tuple(HostActivity(**{**each, "state": HostState(each["state"])}) for each in found)
