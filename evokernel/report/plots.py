"""Plots of a run. Each method draws on given axes, or on new ones, and returns them."""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from archive.lineage import lineage_graph, main_line
from archive.store import Store
from archive.views.candidate_tables import operators_by_candidate
from archive.views.progress_axis import By
from evokernel.errors import StoreError
from evokernel.records.candidate import EVERYWHERE
from evokernel.records.remarks import RemarkKind
from evokernel.report import niche_grid
from evokernel.report.best import find_best
from evokernel.report.exchanges import exchanges_of
from evokernel.report.frame import candidates_frame, curve_frame, needed
from evokernel.report.points import lanes, leads, points_of
from evokernel.report.status import read_status

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable

_SIZE = (8.0, 4.5)  # inches
_TITLES: Mapping[By, str] = {
    "evaluations": "evaluations",
    "hours": "hours of searching",
    "dollars": "dollars for models",
}
_QUIET = "0.55"
_EXCHANGES: Mapping[RemarkKind, str] = {RemarkKind.MIGRATION: "tab:cyan", RemarkKind.RESET: "tab:red"}
_MOST_NAMED = 30
_MANY = 500
_WIDE, _VERY_WIDE = 3.0, 100.0
_NEAR = 5.0
"""The device's limit is drawn up to so many times the leader's speed-up: farther away it would flatten all the rest."""


class Plots:
    """The plots of one run.

    Args:
        store: opened for reading.
        id_of: returns the id of a candidate by id, beginning of one, `best` or `seed`.
    """

    def __init__(self, store: Store, id_of: Callable[[str], str]) -> None:
        self._store = store
        self._id_of = id_of

    if not TYPE_CHECKING:  # which would take every name for a plot

        def __getattr__(self, name):
            there = ", ".join(each for each in vars(Plots) if not each.startswith("_"))
            raise AttributeError(f"there is no plot {name!r}; there are: {there}", name=name, obj=self)

    def fitness(self, ax: "Axes | None" = None, *, by: By = "evaluations") -> "Axes":
        """Draw the speed-up of the leader and of every right candidate; wrong ones are marked at the bottom.

        The band below the leader reaches to the low end of its 95 % interval, which is its fitness. The line at 1 is
        the fastest baseline of each workload, the upper one the device's physical limit for the leader; where that is
        far above, only the legend tells it.
        """
        _refuse_unknown(by)
        frame, curve, ax = candidates_frame(self._store), curve_frame(self._store), _axes(ax)
        for island, rows in frame[frame["speedup"] > 0].groupby("island"):
            label = "handed in" if island == EVERYWHERE else _plain(str(island))
            ax.scatter(rows[by], rows["speedup"], s=14, alpha=0.6, label=label, zorder=2)
        wrong = frame[frame["speedup"].isna()][by]
        if len(wrong):
            ax.plot(wrong, [0.015] * len(wrong), "x", color=_QUIET, transform=ax.get_xaxis_transform(), label="wrong")
        if len(curve):
            end = max(float(frame[by].max()), float(curve[by].max()))
            x, speedup, low = ([*curve[name]] for name in (by, "speedup", "low"))
            x, speedup, low = [*x, end], [*speedup, speedup[-1]], [*low, low[-1]]
            ax.step(x, speedup, where="post", color="black", linewidth=1.5, label="leader", zorder=3)
            ax.fill_between(x, low, speedup, step="post", color="black", alpha=0.15, linewidth=0)
        ax.axhline(1.0, color=_QUIET, linestyle="--", linewidth=1, label="fastest baseline")
        self._ceiling(ax)
        _scale(ax)
        _whole(ax, by)
        ax.set(xlabel=_TITLES[by], ylabel="speed-up over the fastest baseline")
        ax.legend(fontsize="small", loc="best" if len(frame) < _MANY else "lower right")  # slow with many points
        return ax

    def _ceiling(self, ax: "Axes") -> None:
        best = find_best(self._store)
        if best is not None and best.floor_share:
            limit = best.speedup.value / best.floor_share
            far = limit > _NEAR * best.speedup.value
            label = f"device's limit ({limit:.3g}x{', far above' if far else ''})"
            at = math.nan if far else limit  # a line at no number is in the legend alone
            ax.axhline(at, color=_QUIET, linestyle=":", linewidth=1, label=label)

    def lineage(self, name: str = "best", ax: "Axes | None" = None) -> "Axes":
        """Draw a candidate and its ancestors: speed-up by step, a line from each parent, coloured by operator.

        The line of first parents is drawn strong. A candidate without a fitness has failed, and lies at the bottom.
        """
        wanted = self._id_of(name)
        graph, line, ax = lineage_graph(self._store, wanted), main_line(self._store, wanted), _axes(ax)
        known = {node: graph.nodes[node]["fitness"] for node in graph}
        speedups = {node: math.exp(fitness.log_speedup) for node, fitness in known.items() if fitness is not None}
        bottom = min(speedups.values(), default=1.0) / 2
        places = {node: (graph.nodes[node]["step"], speedups.get(node, bottom)) for node in graph}
        strong = set(pairwise(line))
        lines = [
            (places[parent], places[child]) for parent, child in graph.edges
        ]  # steps grow, so time runs to the right
        colours = ["black" if edge in strong else _QUIET for edge in graph.edges]
        ax.add_collection(
            needed("matplotlib.collections").LineCollection(lines, colors=colours, linewidths=1, zorder=1)
        )
        made_by = operators_by_candidate(self._store)
        for operator in dict.fromkeys(made_by[node] for node in graph):
            at = [places[node] for node in graph if made_by[node] == operator]
            steps, heights = zip(*at, strict=True)
            ax.scatter(steps, heights, s=40, label=_plain(operator), zorder=2)
        for node in line if len(line) <= _MOST_NAMED else (line[0], line[-1]):
            ax.annotate(node[:8], places[node], xytext=(4, -10), textcoords="offset points", fontsize="x-small")
        _scale(ax)
        ax.margins(x=0.12)
        ax.set(xlabel="step", ylabel="speed-up over the fastest baseline", title=f"how {wanted[:8]} came about")
        ax.legend(fontsize="small", loc="lower right")
        return ax

    def family(self, ax: "Axes | None" = None) -> "Axes":
        """Draw every candidate by its step, beside its kin, coloured by speed-up; the line of the best is drawn strong.

        A cross is a wrong one. Lines lead from first parents.
        """
        points, ax = points_of(self._store), _axes(ax)
        places = {point.candidate: (point.step, lane) for point, lane in zip(points, lanes(points), strict=True)}
        best, size = find_best(self._store), 14 if len(points) < _MANY else 4
        line = [places[name] for name in main_line(self._store, best.candidate.id)] if best else []
        born = [[places[point.parent], places[point.candidate]] for point in points if point.parent in places]
        lines = needed("matplotlib.collections").LineCollection
        ax.add_collection(lines(born, colors=_QUIET, linewidths=0.5, alpha=0.6, zorder=1))
        ax.plot([x for x, _ in line], [y for _, y in line], color="tab:red", zorder=4)
        wrong = [places[point.candidate] for point in points if point.speedup is None]
        ax.scatter([x for x, _ in wrong], [y for _, y in wrong], s=size, marker="x", lw=0.7, color=_QUIET, zorder=2)
        right = [(*places[point.candidate], point.speedup) for point in points if point.speedup is not None]
        if right:
            steps, heights, speedups = zip(*right, strict=True)
            span = min(speedups), max(speedups)
            colours = needed("matplotlib.colors").LogNorm(*span)
            dots = ax.scatter(steps, heights, s=size, c=speedups, cmap="viridis", norm=colours, zorder=3)
            _colour_bar(ax, dots, span)
        ax.set(xlabel="step", yticks=[], title=f"{len(points)} candidates beside their kin; red: the line of the best")
        return ax

    def islands(self, ax: "Axes | None" = None, *, by: By = "evaluations") -> "Axes":
        """Draw the best speed-up of each island over what was spent, with a tick for each exchange and each restart."""
        _refuse_unknown(by)
        points, ax = points_of(self._store), _axes(ax)
        end = max((getattr(point, by) for point in points), default=0)
        for row in read_status(self._store).islands:
            led = [points[at] for at in leads(points, island=row.name)]
            if led:
                x, y = [getattr(point, by) for point in led], [point.speedup or 0.0 for point in led]
                ax.step([*x, end], [*y, y[-1]], where="post", linewidth=1.5, label=_plain(row.name))
        for kind, colour in _EXCHANGES.items():
            at = [each.spent[by] for each in exchanges_of(self._store) if each.kind is kind]
            if at:
                ax.plot(at, [0.02] * len(at), "|", color=colour, transform=ax.get_xaxis_transform(), label=kind.value)
        ax.axhline(1.0, color=_QUIET, linestyle="--", linewidth=1, label="fastest baseline")
        _scale(ax)
        _whole(ax, by)
        ax.set(xlabel=_TITLES[by], ylabel="best speed-up of the island")
        ax.legend(fontsize="small", loc="lower right")
        return ax

    def niches(self, ax: "Axes | None" = None, *, x: str = "", y: str = "", island: str = "") -> "Axes":
        """Draw the best speed-up in each cell of two measured descriptors.

        Args:
            ax: where to draw.
            x: a descriptor on the axes of the islands' niches; the one with the most bins in use if left out.
            y: another one; the next if left out.
            island: only the candidates of this island; of all if left out.

        Raises:
            StoreError: the run has no such descriptor, or fewer than two.
        """
        cells = niche_grid.grid(
            candidates_frame(self._store), niche_grid.axes(self._store, island), x=x, y=y, island=island
        )
        ax = _axes(ax)
        colours = needed("matplotlib.colors").LogNorm(*cells.span)
        picture = ax.imshow(cells.best, origin="lower", aspect="auto", cmap="viridis", norm=colours)
        for row, column, speedup, count in cells.cells():
            dark = float(colours(speedup)) < 0.6
            ax.text(
                column, row, f"{speedup:.3g}x\n{count}", ha="center", va="center", fontsize="small",
                color="white" if dark else "black",
            )  # fmt: skip
        ax.set_xticks(range(len(cells.columns)), cells.columns, fontsize="small")
        ax.set_yticks(range(len(cells.rows)), cells.rows, fontsize="small")
        ax.set(xlabel=cells.x, ylabel=cells.y, title="best speed-up and number of right candidates by niche")
        _colour_bar(ax, picture, cells.span)
        return ax

    def operators(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the results of each operator: right and wrong candidates, unusable replies, and its best gain."""
        rows, ax = [*reversed(read_status(self._store).operators)], _axes(ax)
        left = [0] * len(rows)
        parts: dict[str, tuple[str, list[int]]] = {
            "right": ("tab:green", [row.correct for row in rows]),
            "wrong": ("tab:red", [row.results - row.correct for row in rows]),
            "unusable reply": (_QUIET, [row.unusable for row in rows]),
            "insight": ("tab:blue", [row.insights for row in rows]),
        }
        names = [_plain(row.name) for row in rows]
        for label, (colour, widths) in parts.items():
            if any(widths):
                ax.barh(names, widths, left=left, color=colour, label=label)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        for place, (row, end) in enumerate(zip(rows, left, strict=True)):
            gain = f" best gain {row.best_gain:.3g}x" if row.best_gain is not None else ""
            ax.annotate(gain, (end, place), va="center", fontsize="small")
        ax.set(xlabel="steps", xlim=(0, 1.3 * max(left, default=1)))
        ax.legend(fontsize="small", loc="lower right")
        return ax


def _axes(given: "Axes | None") -> "Axes":
    if given is not None:
        return given
    _, made = needed("matplotlib.pyplot").subplots(figsize=_SIZE, layout="constrained")
    return made  # type: ignore[no-any-return]


def _colour_bar(ax: "Axes", colours: "ScalarMappable", span: tuple[float, float]) -> None:
    """Explain colours of speed-ups by their two ends."""
    bar = ax.figure.colorbar(colours, ax=ax, label="speed-up")
    bar.set_ticks([*span], labels=[f"{value:.3g}x" for value in span], minor=False)
    bar.set_ticks([], minor=True)


def _refuse_unknown(by: str) -> None:
    if by not in _TITLES:
        raise StoreError(f"by: expected {', '.join(_TITLES)}, got {by!r}")


def _scale(ax: "Axes") -> None:
    """Label speed-ups, on a logarithmic axis where they are far apart."""
    ticker, (low, high) = needed("matplotlib.ticker"), sorted((ax.dataLim.y0, ax.dataLim.y1))
    label = ticker.FuncFormatter(lambda value, _: f"{value:.4g}x")
    if 0 < low * _WIDE < high:
        ax.set_yscale("log")
        ax.yaxis.set_minor_locator(ticker.LogLocator(subs=(2, 5)))
        ax.yaxis.set_minor_formatter(label if high < low * _VERY_WIDE else ticker.NullFormatter())
    ax.yaxis.set_major_formatter(label)


def _whole(ax: "Axes", by: By) -> None:
    """Put ticks at whole numbers where evaluations are counted."""
    if by == "evaluations":
        ax.xaxis.set_major_locator(needed("matplotlib.ticker").MaxNLocator("auto", integer=True))


def _plain(text: str) -> str:
    """Return a name as a label that matplotlib shows as it is: no formula, no leading underscore."""
    return text.replace("$", r"\$").lstrip("_") or "unnamed"
