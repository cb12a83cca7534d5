"""Topology: a directed graph over island names; elites migrate along its edges."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import networkx as nx

Graph: TypeAlias = "nx.DiGraph[str]"


def ring(names: Sequence[str]) -> Graph:
    """Let each island send to the next, the last to the first."""
    return _graph(names, [(name, names[(index + 1) % len(names)]) for index, name in enumerate(names)])


def star(names: Sequence[str]) -> Graph:
    """Let the first island exchange with every other, both ways."""
    hub, *rest = names
    return _graph(names, [edge for name in rest for edge in ((hub, name), (name, hub))])


def full(names: Sequence[str]) -> Graph:
    """Let every island send to every other."""
    return _graph(names, [(a, b) for a in names for b in names])


def routed(names: Sequence[str], routes: Mapping[str, Iterable[str]]) -> Graph:
    """Let each island send to those that are listed for it."""
    return _graph(names, [(source, target) for source, targets in routes.items() for target in targets])


def _graph(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> Graph:
    graph: Graph = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(edge for edge in edges if edge[0] != edge[1])
    return graph


TOPOLOGIES: dict[str, Callable[[Sequence[str]], Graph]] = {"ring": ring, "star": star, "full": full}
