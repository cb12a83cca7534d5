import math
import random

import networkx as nx
import pytest

from archive.lineage import ancestors, lineage_graph, main_line
from evokernel.records.evaluation import Status
from tests.archive import records as making
from tests.archive.records import bad, candidate, good, propose, result


def ident(name):
    return candidate(name).id


def test_lineage_equals_that_of_networkx_on_random_graphs(store):
    rng = random.Random(1)
    graph: nx.DiGraph[int] = nx.DiGraph()
    sparse: nx.DiGraph[int] = nx.DiGraph()
    for step in range(1, 121):
        known = list(range(max(1, step - 15), step))
        parents = rng.sample(known, min(len(known), rng.choice([0, 1, 1, 2])))
        inspirations = rng.sample(known, min(len(known), rng.choice([0, 0, 2])))
        for each in (graph, sparse):
            each.add_node(step)
            each.add_edges_from((parent, step) for parent in parents)
        graph.add_edges_from((other, step) for other in inspirations)
        propose(store, step, parents=tuple(map(ident, parents)), inspirations=tuple(map(ident, inspirations)))
    names = {step: ident(step) for step in range(1, 121)}
    for step in range(1, 121, 7):
        assert ancestors(store, names[step]) == {names[n] for n in nx.ancestors(sparse, step)}
        assert ancestors(store, names[step], inspirations=True) == {names[n] for n in nx.ancestors(graph, step)}
    drawn = lineage_graph(store, inspirations=True)
    assert nx.is_directed_acyclic_graph(drawn)
    assert set(drawn.edges) == {(names[a], names[b]) for a, b in graph.edges}
    family = lineage_graph(store, names[120])
    assert set(family) == {names[120]} | {names[n] for n in nx.ancestors(sparse, 120)}


def test_a_candidate_proposed_again_makes_no_cycle(store):
    result(store, 1)
    result(store, 2, parents=(ident(1),))
    propose(store, 3, 1, parents=(ident(2),))
    store.commit(3, good(1), reused_from=1)
    assert ancestors(store, ident(1)) == set()
    assert main_line(store, ident(2)) == [ident(1), ident(2)]
    assert nx.is_directed_acyclic_graph(lineage_graph(store))
    assert [made.step for made in store.proposals_of(ident(1))] == [1, 3]
    assert store.proposal_of(ident(2)).parents == (ident(1),)


def test_the_main_line_follows_first_parents(store):
    result(store, 1)
    result(store, 2)
    result(store, 3, parents=(ident(2), ident(1)))
    result(store, 4, inspirations=(ident(3),))
    result(store, 5, parents=(ident(3),))
    assert main_line(store, ident(5)) == [ident(2), ident(3), ident(5)]
    assert main_line(store, ident(4)) == [ident(4)]
    assert main_line(store, making.candidate("unknown").id) == [making.candidate("unknown").id]


def test_edges_carry_the_gain(store):
    result(store, 1, 0.0)
    result(store, 2, math.log(2.0), parents=(ident(1),), operator="rewrite", rationale="unroll", predicted_speedup=1.5)
    propose(store, 3, parents=(ident(2),))
    store.commit(3, bad(3, Status.TIMEOUT))
    graph = lineage_graph(store)
    edge = graph.edges[ident(1), ident(2)]
    assert edge["gain"] == pytest.approx(2.0)
    assert (edge["operator"], edge["rationale"], edge["predicted_speedup"]) == ("rewrite", "unroll", 1.5)
    assert graph.edges[ident(2), ident(3)]["gain"] is None
    assert graph.nodes[ident(3)]["fitness"] is None
