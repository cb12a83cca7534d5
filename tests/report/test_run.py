"""The public Python API: tables, graphs and plots of a run."""

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import networkx as nx
import pytest

import evokernel
from archive.fork import fork
from archive.store import Store
from evokernel import Run, open_store
from evokernel.errors import StoreError
from evokernel.records.candidate import Usage
from evokernel.records.evaluation import Status
from evokernel.records.remarks import RemarkKind
from evokernel.report.frame import COLUMNS
from tests.support.stores import IDENTITY, StoreBuilder, fill_store

mpl.use("agg")
CONFIG = """\
islands:
- {name: builders, niches: {axes: {vector_bits: [128.0, 256.0], spills: [1.0]}}}
- {name: tuners, niches: {axes: {code_bytes: [1024.0]}}}
"""


@pytest.fixture
def ids(tmp_path: Path) -> dict[str, str]:
    return fill_store(tmp_path / "a.db")


@pytest.fixture
def run(tmp_path: Path, ids: dict[str, str]) -> Iterator[Run]:
    with open_store(tmp_path / "a.db") as opened:
        yield opened
    plt.close("all")


def test_best_and_candidates(run: Run, ids: dict[str, str]) -> None:
    assert run.best().candidate.id == ids["best"]
    assert "int fast" in run.candidate(ids["best"][:8]).source
    assert run.candidate("seed").id == ids["seed"]
    assert run.portrait().gain == pytest.approx(6.0)
    assert [chapter.candidate for chapter in run.story()] == [ids["seed"], ids["tiled"], ids["best"]]
    assert run.status().correct == 3
    assert repr(run.status()).startswith("RunStatus(gemm: ")
    assert len(repr(run.status())) < 400
    assert run.facts.task == "gemm"
    assert "gemm in cpp" in repr(run)
    assert repr(run.best()).startswith(f"BestKernel({ids['best']}: Speedup(value=")
    assert len(repr(run.best())) < 500


def test_a_config_names_its_store_in_python_too(ids: dict[str, str], tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text(
        f"task: gemm\nstore: {tmp_path / 'a.db'}\nbudget: {{evaluations: 1}}\n"
        "islands: [{name: one, operators: {tune: 1}}]\n"
    )
    with open_store(config) as run:
        assert run.best().candidate.id == ids["best"]


def test_frame_has_a_row_for_each_judged_candidate(run: Run, ids: dict[str, str]) -> None:
    frame = run.frame()
    assert list(frame.columns) == [*COLUMNS, "descriptor_vector_bits"]
    assert list(frame["id"]) == [ids[name] for name in ("seed", "tiled", "wrong", "best")]
    rows: Any = frame.set_index("id").loc
    best, wrong = rows[ids["best"]], rows[ids["wrong"]]
    assert best["speedup"] == pytest.approx(6.0)
    assert best["low"] < best["speedup"] < best["high"]
    assert best["fitness"] == pytest.approx(math.log(best["low"]))
    assert (best["holdout"], best["final_speedup"]) == ("passed", pytest.approx(4.9))
    assert best["gain"] == pytest.approx(6.0)
    assert best["parents"] == (ids["tiled"], ids["seed"])
    assert best["device_s"] == pytest.approx(1.0)  # judged twice, 0.5 s each
    assert best["floor_share"] == pytest.approx(0.6)
    assert (wrong["status"], wrong["feedback"]) == ("numerical", "output differs by 3.5 at [0, 1]")
    assert math.isnan(wrong["speedup"])


def test_what_failed_later_is_no_success_in_the_frame(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "b.db") as builder:
        liar = builder.add("// liar\n", speedup=9.0)
        ours = builder.add("// ours\n", speedup=None, status=Status.HARNESS_ERROR)
        builder.final(liar, speedup=None)
    with open_store(tmp_path / "b.db") as run:
        frame: Any = run.frame().set_index("id")
        assert frame.loc[liar, "status"] == "holdout_failed"
        assert math.isnan(frame.loc[liar, "fitness"])
        assert frame.loc[ours, "status"] == "harness_error"
        with pytest.raises(StoreError, match="no correct kernel yet"):
            run.best()


def test_calls_say_what_a_candidate_cost(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "b.db") as builder:
        seed = builder.seed()
        builder.call(cost_usd=0.25)
        builder.call(cost_usd=0.5)
        asked = builder.add("// asked\n", speedup=1.0, parents=(seed,), usage=Usage("small", 1, 1, 9.0))
        told = builder.add("// told\n", speedup=2.0, parents=(seed,), usage=Usage("elsewhere", 10, 5, 0.125))
    with open_store(tmp_path / "b.db") as run:
        frame = run.frame().set_index("id")
        assert tuple(frame.loc[asked, ["model", "calls", "tokens", "cost_usd"]]) == ("small", 2, 600, 0.75)
        assert tuple(frame.loc[told, ["model", "calls", "tokens", "cost_usd"]]) == ("elsewhere", 0, 15, 0.125)
        assert list(frame["dollars"]) == pytest.approx([0.0, 0.75, 0.875])
        assert list(frame["evaluations"]) == [1, 2, 3]


def test_hours_leave_out_the_pauses_between_sessions(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "b.db") as builder:
        builder.seed()
        builder.store.database.execute("UPDATE journal SET at = at + 10")
        builder.store.session_end("enough", seconds=3600.0)
        builder.store.session_start()
        builder.store.database.execute("UPDATE sessions SET started = started + 90000 WHERE id = 2")
        builder.add("// later\n", speedup=2.0)
        builder.store.database.execute("UPDATE journal SET at = at + 91800 WHERE session = 2")
        builder.store.session_end("enough", seconds=3600.0)
    with open_store(tmp_path / "b.db") as run:
        assert list(run.frame()["hours"]) == pytest.approx([10 / 3600, 1.5], abs=1e-3)


def test_what_a_fork_brought_along_is_in_the_frame_and_cost_nothing(tmp_path: Path, ids: dict[str, str]) -> None:
    fork(tmp_path / "a.db", tmp_path / "new.db", candidate=ids["best"])
    with open_store(tmp_path / "new.db") as run:
        frame = run.frame().set_index("id")
        assert ids["best"] in frame.index
        assert frame["origin"].str.len().min() > 0
        assert set(frame["hours"]) == {0.0}
    with Store.open(tmp_path / "new.db", write=True) as store:
        store.begin_run(replace(IDENTITY, task="another", task_hash="b" * 16))
    with open_store(tmp_path / "new.db") as run:
        assert run.frame().empty  # nothing of it was judged for this task


def test_curve(run: Run, ids: dict[str, str]) -> None:
    curve = run.curve()
    assert list(curve["id"]) == [ids["seed"], ids["tiled"], ids["best"]]
    assert curve["speedup"].iloc[-1] == pytest.approx(6.0)
    assert list(curve["evaluations"]) == [1, 2, 4]
    assert (curve["high"] > curve["speedup"]).all()


def test_lineage_is_a_graph_from_parent_to_child(run: Run, ids: dict[str, str]) -> None:
    family = run.lineage()
    assert nx.is_directed_acyclic_graph(family)
    assert set(family) == {ids["seed"], ids["tiled"], ids["best"]}
    assert family.edges[ids["tiled"], ids["best"]]["operator"] == "tune"
    assert set(run.lineage(None)) == set(ids.values())


def test_a_plot_that_is_not_there_is_answered_with_those_that_are(run: Run) -> None:
    with pytest.raises(AttributeError, match=r"no plot 'nothing'; there are: fitness, lineage, family, "):
        getattr(run.plot, "nothing")  # noqa: B009 - mypy refuses the attribute
    assert not hasattr(run.plot, "_repr_html_")


@pytest.mark.parametrize("by", ["evaluations", "hours", "dollars"])
def test_fitness_plot(run: Run, by: str) -> None:
    ax = run.plot.fitness(by=by)  # type: ignore[arg-type]
    assert by.removesuffix("s") in ax.get_xlabel()
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"builders", "tuners", "leader", "wrong", "fastest baseline"} <= set(texts)
    leader = next(line for line in ax.lines if line.get_label() == "leader")
    heights: Any = leader.get_ydata()
    assert list(heights)[-1] == pytest.approx(6.0)
    assert by != "evaluations" or all(tick == round(tick) for tick in ax.get_xticks())


@pytest.mark.parametrize(("speedup", "drawn"), [(3.0, True), (1.5, False)])
def test_a_limit_far_above_the_leader_does_not_flatten_the_plot(tmp_path: Path, speedup: float, drawn: bool) -> None:
    with StoreBuilder(tmp_path / "b.db") as builder:
        builder.add("// b", speedup=speedup, parents=(builder.seed(),))
    with open_store(tmp_path / "b.db") as run:
        ax = run.plot.fitness()
    told = next(text.get_text() for text in ax.get_legend().get_texts() if "limit" in text.get_text())
    assert told == f"device's limit (10x{'' if drawn else ', far above'})"
    assert (ax.get_ylim()[1] >= 10) == drawn


def test_plots_draw_on_the_axes_they_are_given(run: Run) -> None:
    _, places = plt.subplots(2)
    assert run.plot.lineage(ax=places[0]) is places[0]
    assert run.plot.operators(places[1]) is places[1]
    assert {label.get_text() for label in places[1].get_yticklabels()} == {"rewrite", "tune", "seed"}


def test_family_plot_has_every_candidate_and_the_line_of_the_best(run: Run, ids: dict[str, str]) -> None:
    ax = run.plot.family()
    drawn: Any = ax.collections
    born, wrong, right = drawn
    assert [len(born.get_paths()), len(wrong.get_offsets()), len(right.get_offsets())] == [3, 1, 3]
    steps: Any = ax.lines[0].get_xdata()
    assert list(steps) == [0, 1, 3]


def test_islands_plot_ends_at_the_best_of_each(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "b.db") as builder:
        seed = builder.seed()
        builder.add("// a", speedup=2.0, parents=(seed,), island="builders")
        builder.store.remarks.add(RemarkKind.MIGRATION, "builders to tuners", step=1)
        builder.add("// b", speedup=3.0, parents=(seed,), island="tuners")
    with open_store(tmp_path / "b.db") as run:
        ax = run.plot.islands()
        lines: Any = ax.lines
        ends = {str(line.get_label()): [*line.get_ydata()][-1] for line in lines}
        assert (ends["builders"], ends["tuners"]) == (pytest.approx(2.0), pytest.approx(3.0))
        assert "migration" in ends
        with pytest.raises(StoreError, match="expected evaluations, hours, dollars, got 'days'"):
            run.plot.islands(by="days")  # type: ignore[arg-type]


def test_a_comparison_and_a_run_show_themselves(run: Run, tmp_path: Path) -> None:
    fill_store(tmp_path / "b.db", crowned=False)
    with open_store(tmp_path / "b.db") as other:
        compared = run.compare(other)
    assert [side.name for side in compared.found.sides] == ["a", "b"]
    for text in (repr(compared), compared._repr_html_()):
        assert "gemm" in text
        assert "judged" in text
    assert compared._repr_html_().startswith("<pre")
    assert "4.90x" in run._repr_html_()
    by_path = run.compare(str(run.facts.path.parent / "b.db"))
    assert [side.name for side in by_path.found.sides] == ["a", "b"]
    with pytest.raises(StoreError, match="compare needs another run"):
        run.compare()


def test_graphml_is_read_back_with_speedups(run: Run, ids: dict[str, str], tmp_path: Path) -> None:
    run.write_graphml(tmp_path / "new" / "family.graphml")
    graph = nx.read_graphml(tmp_path / "new" / "family.graphml")
    assert set(graph) == set(ids.values())
    assert graph.nodes[ids["best"]]["speedup"] == pytest.approx(6.0)
    assert "speedup" not in graph.nodes[ids["wrong"]]
    assert graph.edges[ids["tiled"], ids["best"]]["operator"] == "tune"
    with pytest.raises(StoreError, match="cannot write"):
        run.write_graphml(tmp_path)


def test_lineage_plot(run: Run, ids: dict[str, str]) -> None:
    ax = run.plot.lineage(ids["best"][:8])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["seed", "rewrite", "tune"]
    assert [text.get_text() for text in ax.texts] == [ids[name][:8] for name in ("seed", "tiled", "best")]
    (lines,) = ax.collections[:1]
    assert len(lines.get_paths()) == 3  # the best has two parents


def test_names_that_look_like_formulas_are_drawn_as_they_are(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "b.db") as builder:
        seed = builder.seed()
        builder.add("// odd\n", speedup=2.0, parents=(seed,), operator="$\\frac$", island="_$x^$<b>")
    with open_store(tmp_path / "b.db") as run:
        for ax in (run.plot.fitness(), run.plot.lineage(), run.plot.operators()):
            ax.figure.savefig(tmp_path / "out.png")
            assert (tmp_path / "out.png").stat().st_size > 5000
    plt.close("all")


def test_niches_are_binned_as_the_config_says(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "b.db") as builder:
        builder.store.set_meta("config", CONFIG)
        builder.seed(speedup=0.5)
        builder.add("// other\n", speedup=2.0, island="tuners")
    with open_store(tmp_path / "b.db") as run, pytest.raises(StoreError, match="niches are drawn by two"):
        run.plot.niches()  # no candidate has any but vector_bits
    with StoreBuilder(tmp_path / "b.db", begin=False) as builder:
        builder.store.database.execute('UPDATE evaluations SET descriptor = \'{"vector_bits":512,"spills":0}\'')
        builder.store.database.execute(
            'UPDATE evaluations SET descriptor = \'{"vector_bits":128,"spills":7}\' WHERE seq = 2'
        )
    with open_store(tmp_path / "b.db") as run:
        ax = run.plot.niches(x="vector_bits")
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("vector_bits", "spills")
        assert [label.get_text() for label in ax.get_xticklabels()] == ["below 128", "128 to 256", "256 and up"]
        cells = {text.get_position(): text.get_text() for text in ax.texts}
        assert cells == {(2, 0): "0.5x\n1", (1, 1): "2x\n1"}
        with pytest.raises(StoreError, match="no niches by 'warps'; there are vector_bits, spills"):
            run.plot.niches(x="warps")
        with pytest.raises(StoreError, match="no island 'nowhere'"):
            run.plot.niches(island="nowhere")
    plt.close("all")


def test_reading_changes_nothing(tmp_path: Path, ids: dict[str, str]) -> None:
    before = (tmp_path / "a.db").read_bytes()
    with open_store(tmp_path / "a.db") as run:
        run.frame()
        run.curve()
    assert (tmp_path / "a.db").read_bytes() == before


def test_importing_evokernel_costs_nothing() -> None:
    program = (
        "import json, sys, evokernel; before = sorted(sys.modules); from evokernel import open_store;"
        "print(json.dumps([m for m in ('pandas', 'matplotlib', 'networkx', 'torch') if m in sys.modules]"
        " + [m for m in ('archive', 'evokernel.report') if m in before]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'open_stores'"):
        evokernel.open_stores  # noqa: B018
    with pytest.raises(StoreError, match="there is no store at"):
        open_store("nowhere.db")


def test_without_pandas_it_says_what_to_install(tmp_path: Path, ids: dict[str, str]) -> None:
    program = "import sys; sys.modules['pandas'] = None; from evokernel import open_store; open_store('a.db').frame()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "StoreError: this view of a run needs pandas" in done.stderr
    assert "pip install -e '.[notebook]'" in done.stderr
