"""Python API of a run: `open_store("runs/gemm.db").best()`. It reads the store and never writes it."""

import math
import os
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from archive.lineage import lineage_graph
from archive.store import Store
from evokernel.cli.display.text import stdout
from evokernel.cli.locate import store_path
from evokernel.errors import StoreError
from evokernel.records.candidate import Candidate
from evokernel.records.remarks import Remark, RemarkKind
from evokernel.report.best import BEST, BestKernel, best_kernel, candidate_id, find_best
from evokernel.report.compare import compare
from evokernel.report.frame import candidates_frame, curve_frame
from evokernel.report.lineage import CandidateDetails, LineageStep, portrait, story
from evokernel.report.plots import Plots
from evokernel.report.status import RunFacts, RunStatus, read_status, run_facts

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from evokernel.python.comparison import RunComparison


class Run:
    """A run, read from its store; a context manager for the thread that opened it.

    The search may go on meanwhile: every method returns the state at its call. A candidate is named by its id, the
    beginning of one, `best` or `seed`. Every method may raise `StoreError`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        facts = self.facts
        return f"Run({str(facts.path)!r}: {facts.title} in {facts.language} on {facts.device})"

    def _repr_html_(self) -> str:
        from evokernel.cli.display.tables import best_kernel_tables
        from evokernel.python.comparison import as_html

        best = find_best(self._store)
        return as_html([repr(self), *(best_kernel_tables(best, self.facts) if best else ["no right kernel yet"])])

    @property
    def facts(self) -> RunFacts:
        """Task, language, device, environment, seed and config of the run."""
        return run_facts(self._store)

    def status(self) -> RunStatus:
        """Return counts, cost, operators, models and islands of the run."""
        return read_status(self._store)

    def best(self) -> BestKernel:
        """Return the best kernel with its measurements. Raises `StoreError` where nothing is right yet."""
        return best_kernel(self._store)

    def candidate(self, name: str = BEST) -> Candidate:
        """Return a candidate: `source`, `language`, `id`."""
        return self._store.candidate(self.id_of(name)).candidate

    def portrait(self, name: str = BEST) -> CandidateDetails:
        """Return all facts on a candidate: proposal, provenance, every evaluation."""
        return portrait(self._store, self.id_of(name))

    def story(self, name: str = BEST) -> list[LineageStep]:
        """Return the candidates from the seed to a candidate along first parents."""
        return story(self._store, self.id_of(name))

    def lineage(self, name: str | None = BEST, *, inspirations: bool = False) -> "nx.DiGraph[str]":
        """Return a candidate and its ancestors (with None: all candidates) as a graph from parent to child.

        Nodes carry `step`, `language`, `program_hash` and `fitness`; edges `kind`, `operator`, `island`, `rationale`,
        `predicted_speedup` and `gain`, the speed-up of the child over the parent.
        """
        wanted = None if name is None else self.id_of(name)
        return lineage_graph(self._store, wanted, inspirations=inspirations)

    def write_graphml(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        """Write the lineage of a candidate (with None: of all) as GraphML, with `speedup` in place of the fitness."""
        import networkx as nx

        lineage = self.lineage(name, inspirations=True)
        graph: nx.DiGraph[str] = nx.DiGraph()
        for candidate in lineage:
            fitness = lineage.nodes[candidate]["fitness"]
            speedup = None if fitness is None else math.exp(fitness.log_speedup)
            graph.add_node(candidate, **_known({**lineage.nodes[candidate], "fitness": None, "speedup": speedup}))
        for parent, child in lineage.edges:
            graph.add_edge(parent, child, **_known(lineage.edges[parent, child]))
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            nx.write_graphml(graph, path)
        except OSError as error:
            raise StoreError(f"cannot write {os.fspath(path)}: {error.strerror}") from None

    def compare(self, *others: "Run | str | os.PathLike[str]") -> "RunComparison":
        """Compare with other runs of the task: the verdict, results and costs; it prints as `evokernel compare` does.

        Args:
            others: runs, or the paths of their stores.

        Raises:
            StoreError: no other run is given, or one cannot be read.
        """
        from evokernel.python.comparison import RunComparison

        if not others:
            raise StoreError('compare needs another run, for example run.compare("runs/other.db")')
        with ExitStack() as opened:
            runs = [each if isinstance(each, Run) else opened.enter_context(open_store(each)) for each in others]
            return RunComparison(compare([self._store, *(run._store for run in runs)]))

    def frame(self) -> "pd.DataFrame":
        """Return one row for each judged candidate; docs/python.md describes the columns."""
        return candidates_frame(self._store)

    def curve(self) -> "pd.DataFrame":
        """Return one row for each change of the leader, by evaluations, hours and dollars."""
        return curve_frame(self._store)

    def remarks(self, kinds: Collection[RemarkKind] = tuple(RemarkKind), *, after: int = 0) -> list[Remark]:
        """Return the remarks of these kinds with an id above `after`: migrations, resets, faults, rests of models."""
        return self._store.remarks.all(kinds, after=after)

    def load(
        self, name: str = BEST, *, out: str | os.PathLike[str] | None = None, progress: bool = True
    ) -> Callable[..., Any]:
        """Return a candidate as an operator of PyTorch: the kernel where it was judged, torch everywhere else.

        It is judged anew in fresh processes and written to a folder as `evokernel export` does, unless it is there.

        Args:
            name: the candidate; for the best one, what clearly leads the search since that was measured.
            out: the folder; one beside the store if left out.
            progress: whether to print what a new measurement, which takes minutes, is at.

        Raises:
            NotExported: the kernel fails the new measurement, or cannot be an operator; the message says why.
            TaskError: the task has changed since.
        """
        from evokernel.export.load import load_operator, read_exported

        wanted = self.best().to_export if name == BEST else self.id_of(name)
        path = Path(self.facts.path)
        folder = Path(out) if out is not None else path.with_name(f"{path.stem}-{wanted[:8]}")
        if read_exported(folder) != wanted:
            with ThreadPoolExecutor(1) as pool:  # this thread may have a running event loop
                pool.submit(_export, path, wanted, folder, _say if progress else _keep_quiet).result()
        return load_operator(folder)

    @property
    def plot(self) -> Plots:
        """Plots of the run; each returns its matplotlib axes."""
        return Plots(self._store, self.id_of)

    def id_of(self, name: str) -> str:
        """Return the id for an id, the beginning of one, `best` or `seed`."""
        return candidate_id(self._store, name)


def open_store(path: str | os.PathLike[str]) -> Run:
    """Open the store of a run for reading, by its path or that of its config; the search may be at work.

    Raises:
        StoreError: there is no store at the path, or it cannot be read.
        ConfigError: the config cannot be used.
    """
    return Run(Store.open(store_path(Path(path)), write=False))


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes without those that are None, for which GraphML has no word."""
    return {name: value for name, value in attributes.items() if value is not None}


def _export(path: Path, name: str, folder: Path, notify: Callable[[str], None]) -> None:
    from evokernel.export.export_kernel import export

    with Store.open(path, write=False) as store:
        export(store, name, out=folder, operator=True, notify=notify)


def _say(text: str) -> None:
    """Print a message where progress of a search is printed: a notebook would show stderr as a fault."""
    stdout().print(text, soft_wrap=True)


def _keep_quiet(text: str) -> None:
    """Drop a message."""
