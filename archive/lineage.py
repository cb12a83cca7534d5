"""Lineage of candidates. It is that of the proposal that brought a candidate in, so the graph has no cycles."""

import math
from typing import TYPE_CHECKING

from archive.store import Store
from archive.summary import program_fitness
from evokernel.records.fitness import Fitness

if TYPE_CHECKING:
    import networkx as nx


def ancestors(store: Store, candidate_id: str, *, inspirations: bool = False) -> set[str]:
    """Return the ids of all ancestors, without the candidate itself."""
    kinds = "('parent', 'inspiration')" if inspirations else "('parent')"
    rows = store.database.rows(
        "WITH RECURSIVE reached(id) AS (VALUES (?) UNION SELECT e.candidate FROM reached "
        "JOIN candidates c ON c.id = reached.id JOIN parents e ON e.step = c.born "
        f"WHERE e.kind IN {kinds}) SELECT id FROM reached",
        (candidate_id,),
    )
    return {row["id"] for row in rows} - {candidate_id}


def main_line(store: Store, candidate_id: str) -> list[str]:
    """Return the line of first parents, from the root to the candidate itself."""
    rows = store.database.rows(
        "WITH RECURSIVE line(id, generation) AS (VALUES (?, 0) UNION ALL "
        "SELECT e.candidate, line.generation + 1 FROM line JOIN candidates c ON c.id = line.id "
        "JOIN parents e ON e.step = c.born AND e.ordinal = 0 AND e.kind = 'parent') "
        "SELECT id FROM line ORDER BY generation DESC",
        (candidate_id,),
    )
    return [row["id"] for row in rows]


def lineage_graph(store: Store, candidate_id: str | None = None, *, inspirations: bool = False) -> "nx.DiGraph[str]":
    """Return the family of a candidate (its ancestors and itself), or of all, as a graph from parent to child.

    Nodes carry `step`, `language`, `program_hash` and `fitness` (a `Fitness`, or None). Edges carry `kind`,
    `operator`, `island`, `rationale`, `predicted_speedup` and `gain`: the speed-up of the child over the parent, None
    where either has none.
    """
    import networkx as nx  # costs 0.1 s to import, and most readers draw no graph

    wanted = (
        None if candidate_id is None else {candidate_id} | ancestors(store, candidate_id, inspirations=inspirations)
    )
    graph: nx.DiGraph[str] = nx.DiGraph()
    fitness: dict[str, Fitness | None] = {}
    for row in store.database.rows("SELECT id, language, program_hash, born FROM candidates ORDER BY rowid"):
        if wanted is not None and row["id"] not in wanted:
            continue
        program = row["program_hash"]
        if program not in fitness:
            fitness[program] = program_fitness(store.database, program)
        graph.add_node(
            row["id"], step=row["born"], language=row["language"], program_hash=program, fitness=fitness[program]
        )
    _add_edges(store, graph, inspirations)
    return graph


def further_parents(store: Store) -> list[tuple[str, str, str]]:
    """Return child, parent and kind (`parent` or `inspiration`) of every edge but those from first parents."""
    rows = store.database.rows(
        "SELECT c.id, e.candidate, e.kind FROM candidates c JOIN parents e ON e.step = c.born "
        "WHERE e.ordinal > 0 OR e.kind <> 'parent' ORDER BY c.rowid, e.kind DESC, e.ordinal"
    )
    return [(row["id"], row["candidate"], row["kind"]) for row in rows]


def _add_edges(store: Store, graph: "nx.DiGraph[str]", inspirations: bool) -> None:
    rows = store.database.rows(
        "SELECT e.candidate AS parent, c.id AS child, e.kind, p.operator, p.island, p.rationale, p.predicted_speedup "
        "FROM candidates c JOIN proposals p ON p.step = c.born JOIN parents e ON e.step = c.born "
        "ORDER BY c.rowid, e.ordinal DESC"  # a candidate that is parent and inspiration both stays a parent
    )
    for row in rows:
        parent, child = row["parent"], row["child"]
        if parent in graph and child in graph and (inspirations or row["kind"] == "parent"):
            details = {name: row[name] for name in ("kind", "operator", "island", "rationale", "predicted_speedup")}
            before, after = graph.nodes[parent]["fitness"], graph.nodes[child]["fitness"]
            graph.add_edge(parent, child, **details, gain=_gain(before, after))


def _gain(before: Fitness | None, after: Fitness | None) -> float | None:
    return None if before is None or after is None else math.exp(after.log_speedup - before.log_speedup)
