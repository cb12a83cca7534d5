"""The views of a running search, fed with events and snapshots."""

import io
import math
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from evokernel.cli.display.curve import drawn
from evokernel.cli.display.live import JudgedLine, LiveView, PlainView, make_view
from evokernel.cli.display.panel import PanelState, panel
from evokernel.cli.display.rates import SessionRates
from evokernel.cli.display.screen import Screen, wrapped
from evokernel.cli.display.snapshot import IslandState, Snapshot
from evokernel.records.candidate import Candidate, Proposal
from evokernel.records.evaluation import Evaluation, EvaluationKey, Mode, Stage, Status
from evokernel.records.evaluation import Fidelity as EvaluationBudget
from evokernel.records.events import Notice, ProposalCommitted, ResultCommitted
from evokernel.records.fitness import Fitness
from evokernel.records.leader import LeaderChange
from evokernel.records.run import Progress
from tests.support.goldens import compare_golden
from tests.support.stores import make_timing

EVIL = "[bold red]gotcha[/] \x1b[2J \u202eabc\n second line"


class Terminal(io.StringIO):
    """Says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def console(*, width: int = 80, height: int = 40, terminal: bool = False) -> Console:
    file = Terminal() if terminal else io.StringIO()
    plain = {"color_system": None, "markup": False, "emoji": False, "highlight": False}
    return Console(file=file, width=width, height=height, force_terminal=terminal, **plain)  # type: ignore[arg-type]


def output(of: Console) -> str:
    assert isinstance(of.file, io.StringIO)
    return of.file.getvalue()


def make_proposal(rationale: str = "tile: by 8", operator: str = "rewrite") -> Proposal:
    return Proposal(Candidate("// x\n", "cpp"), 3, "builders", operator, 0, rationale=rationale)


def judged(proposal: Proposal, *, improved: bool = True) -> ResultCommitted:
    key = EvaluationKey("p", "t", "d", "e", "1", Mode.WORKER, EvaluationBudget.QUICK)
    evaluation = Evaluation(key, proposal.candidate.id, Status.OK, Stage.QUICK, timings=(make_timing("w", 2.0),))
    change = leader(proposal.rationale, operator=proposal.operator, candidate=proposal.candidate.id)
    return ResultCommitted(proposal, evaluation, 5, change if improved else None, False)


def leader(why: str, *, operator: str = "rewrite", candidate: str = "0123456789abcdef") -> LeaderChange:
    fitness = Fitness(math.log(1.96), math.log(2.0))
    return LeaderChange(
        5, 0.0, candidate, "p", operator, "builders", why, Mode.WORKER, EvaluationBudget.QUICK, fitness, 5
    )


def snapshot(
    *, islands: int = 3, remaining: float | None = 0.5, improvements: int = 5, why: str = EVIL, **more: Any
) -> Snapshot:
    found = leader(why)
    return Snapshot(
        progress=Progress(120, 60.0, 0.25, 7, 1.5, 0.6),
        remaining=remaining,
        results=120,
        correct=90,
        in_flight=3,
        best="0123456789abcdef",
        mode="worker",
        over_seed=41.2,
        baselines={"torch": 1.12},
        islands=tuple(IslandState(f"island-{n}", n, None if n == 0 else 1.0 + n, 4) for n in range(islands)),
        curve=((1, 0.03), (10, 0.4), (60, 0.9), (113, 1.12)),
        improvements=(found,) * improvements,
        **more,
    )


def state(view: Snapshot, *, note: str = "migration: 2 elites settled", title: str = f"gemm {EVIL}") -> PanelState:
    return PanelState(
        title=title,
        snapshot=view,
        elapsed_s=65,
        left_s=None if view.halted else 61,
        rate=2.34,
        valid_share=0.75,
        note=Notice(note),
    )


@pytest.mark.parametrize("width", [30, 60, 80, 120, 200])
@pytest.mark.parametrize("remaining", [0.5, None])
def test_the_panel_fits_any_width(width: int, remaining: float | None) -> None:
    target = console(width=width)
    target.print(panel(state(snapshot(remaining=remaining), note="long " * 80), width=width, height=40))
    assert max(len(line) for line in output(target).splitlines()) <= width
    assert "\x1b" not in output(target)


@pytest.mark.parametrize("width", [80, 200])
def test_the_panel_says_what_matters(width: int) -> None:
    target = console(width=width)
    target.print(panel(state(snapshot()), width=width, height=40))
    text = output(target)
    for expected in ("50%", "about 1 min 01 s left", "41.20x seed", "1.12x torch", "60% of the floor", "worker mode",
                     "island-2", "120 judged", "2.3/s", "[bold red]gotcha[/]", "$0.25", "migration: 2"):  # fmt: skip
        assert expected in text
    side_by_side = [line for line in text.splitlines() if "island-0" in line and "gotcha" in line]
    assert bool(side_by_side) == (width == 200)


@pytest.mark.parametrize(("priced", "said"), [(False, "cost unknown"), (True, "$0.00")])
def test_the_panel_does_not_take_an_unknown_cost_for_zero(priced: bool, said: str) -> None:
    target = console(width=120)
    view = replace(snapshot(priced=priced), progress=Progress(120, 60.0, 0.0, 7, 1.5, 0.6, tokens=300, calls=1))
    target.print(panel(state(view), width=120, height=40))
    assert said in output(target)


def test_a_panel_with_nothing_yet() -> None:
    target = console()
    empty = Snapshot(progress=Progress(0, 0.0, 0.0, 0, 0.0, None), remaining=1.0)
    target.print(panel(state(empty, note=""), width=80, height=40))
    assert "no correct kernel yet" in output(target)


def test_many_islands_on_a_low_terminal() -> None:
    for height in range(8, 40):
        target = console(height=height)
        target.print(panel(state(snapshot(islands=9)), width=80, height=height))
        assert len(output(target).rstrip("\n").splitlines()) < height or height < 12
    assert "island-8" in output(target)
    low = console(height=20)
    low.print(panel(state(snapshot(islands=9)), width=80, height=20))
    shown = sum(f"island-{number} " in output(low) for number in range(9))
    assert 0 < shown < 9
    assert f"{9 - shown} more" in output(low)


def test_plain_lines() -> None:
    target, now = console(), [0.0]
    view = PlainView(target, title="gemm", clock=lambda: now[0])
    with view:
        view.hear(ProposalCommitted(make_proposal()))
        view.hear(judged(make_proposal()))
        view.hear(judged(make_proposal("nothing"), improved=False))
        view.hear(Notice(EVIL, warning=True))
        for second in range(25):
            now[0] = float(second)
            view.tick(snapshot(remaining=1 - second / 100))
    lines = output(target).splitlines()
    assert lines[0].endswith("gemm")
    assert "new best 2.00x (at least 1.96x, worker mode)" in lines[1]
    assert "rewrite: tile: by 8" in lines[1]
    assert "nothing" not in output(target)
    assert "warning: [bold red]gotcha[/] [2J abc second line" in lines[2]
    assert sum("judged" in line for line in lines) == 2
    assert "about 1 min 20 s left" in lines[-1]
    assert "/min" in lines[-1] or "/s" in lines[-1]
    now[0] = 60.0
    view.tick(snapshot(remaining=0.0))
    last = output(target).splitlines()[-1]
    assert last.endswith("budget used: finishing, and measuring the best anew")
    assert "/min" not in last
    now[0] = 90.0
    view.tick(snapshot(remaining=0.7, finishing=True))  # everything is tried, and some of the budget is left
    last = output(target).splitlines()[-1]
    assert last.endswith(", finishing, and measuring the best anew")
    assert "left" not in last
    assert "/min" not in last
    before = output(target)
    now[0] = 110.0
    view.tick(snapshot(remaining=0.7, finishing=True))
    assert output(target) == before  # minutes of measuring: once is enough


def test_a_followed_run_has_its_own_time_and_rate() -> None:
    target, now = console(width=200), [1000.0]
    taken = snapshot(remaining=0.9)
    followed = replace(taken, state="running", progress=replace(taken.progress, seconds=47.0))
    view = PlainView(target, title="gemm", clock=lambda: now[0])
    view.follow(followed)
    with view:
        view.hear(JudgedLine(right=True, age_s=3.0, old=True))
        view.tick(followed)
    title, line = output(target).splitlines()
    assert title.split() == ["47", "s", "gemm"]
    assert line.strip().startswith("47 s")
    assert ", 1.3/min, " in line


def test_a_new_best_below_the_last_one_says_why() -> None:
    target = console(width=200)
    view = PlainView(target, title="t", clock=lambda: 0.0)
    for value, low in ((0.81, 0.72), (0.76, 0.74), (0.78, 0.77), (0.77, 0.70)):
        change = replace(leader("why"), fitness=Fitness(math.log(low), math.log(value)))
        view.hear(JudgedLine(True, change))
    said = [line.partition("(")[2].partition(")")[0] for line in output(target).splitlines()]
    assert said == [
        "at least 0.72x, worker mode",
        "at least 0.74x, worker mode; surer than 0.81x",
        "at least 0.77x, worker mode",
        "at least 0.70x, worker mode; 0.78x did not hold when measured longer",
    ]


def test_a_search_that_is_told_to_stop_foretells_no_end() -> None:
    now = [0.0]
    target = console(width=200)
    view = PlainView(target, title="t", clock=lambda: now[0])
    for left in (0.9, 0.8, 0.7):
        now[0] += 20.0
        view.hear(judged(make_proposal(), improved=False))
        view.tick(snapshot(remaining=left, stopping=left == 0.7))
    lines = output(target).splitlines()
    assert "left" in lines[-2]
    assert "left" not in lines[-1]
    assert lines[-1].endswith("stopping: finishing what is in flight")


def test_plain_lines_end_when_the_terminal_goes() -> None:
    target = console()
    view = PlainView(target, title="gemm")
    view.gone = True
    view.hear(Notice("unheard"))
    assert output(target) == ""


def test_the_live_view_restores_the_terminal() -> None:
    target = console(terminal=True)
    with LiveView(target, title="gemm") as view:
        view.hear(ProposalCommitted(make_proposal()))
        view.hear(judged(make_proposal(EVIL)))
        view.hear(Notice(EVIL, warning=True))
        view.tick(snapshot())
    text = output(target)
    assert text.index("\x1b[?25l") < text.index("\x1b[?25h")
    assert "[bold red]gotcha[/]" in text
    assert "\u202e" not in text


def test_the_view_fits_where_output_goes() -> None:
    assert isinstance(make_view(console(terminal=True), title=""), LiveView)
    assert isinstance(make_view(console(), title=""), PlainView)


def test_a_log_with_colours_and_a_dumb_terminal_get_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(make_view(Console(file=io.StringIO()), title=""), PlainView)
    assert isinstance(make_view(Console(file=Terminal()), title=""), LiveView)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make_view(Console(file=Terminal()), title=""), PlainView)


def test_what_stood_in_more_columns_is_erased_in_more_lines() -> None:
    assert wrapped([80, 80, 30, 0], 80) == 0
    assert wrapped([80, 80, 30, 0], 40) == 2
    assert wrapped([80, 81], 40) == 3
    target = console(terminal=True)
    screen = Screen(target)
    screen.start()
    screen.draw(Text("x" * 80 + "\n" + "y" * 80))
    target.width = 40
    before = len(output(target))
    screen.draw(Text("narrow"))
    # Two lines of the terminal became four: two are erased for having been wrapped, and two for the display itself.
    assert output(target)[before:].split("narrow")[0].count("\x1b[2K") == 5
    screen.stop()


@pytest.mark.parametrize(("rows", "expected"), [(1, ["▁▁▁▁▅▅▅▅██"]), (2, ["    ▁▁▁▁██", "▁▁▁▁████" + "██"])])
def test_the_curve_climbs_on_a_log_scale(rows: int, expected: list[str]) -> None:
    assert drawn([(1, 1.0), (5, 10.0), (9, 100.0)], until=10, columns=10, rows=rows) == expected


def test_a_curve_of_one_kernel_is_a_line() -> None:
    assert drawn([(6, 2.0)], until=10, columns=10, rows=1) == ["     ▁▁▁▁▁"]
    assert drawn([], until=10, columns=10, rows=2) == ["", ""]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50)])
@pytest.mark.parametrize("halted", ["", "the search was killed; `evokernel evolve` goes on with it"])
def test_the_panel_looks_like_this(width: int, height: int, halted: str) -> None:
    watched: dict[str, Any] = {"task": "gemm", "state": "killed" if halted else "running", "halted": halted}
    view = snapshot(islands=4, why="tile: split the loop over k by 8", **watched)
    target = console(width=width, height=height)
    target.print(panel(state(view, title="gemm, runs/gemm.db"), width=width, height=height))
    compare_golden(f"panel_{width}_{watched['state']}.txt", output(target))


def test_pace() -> None:
    pace = SessionRates()
    for second in range(120):
        pace.result(float(second), valid=second % 4 == 0)
    assert pace.per_second(119.0, since=0.0) == pytest.approx(1.0, rel=0.05)
    assert pace.valid_share() == pytest.approx(0.25, abs=0.02)
    assert pace.left_s(0.0, 0.9) is None
    assert pace.left_s(10.0, 0.8) == pytest.approx(80.0)
    assert pace.left_s(10.0, None) is None
    assert pace.left_s(10.0, 0.0) is None
    assert SessionRates().valid_share() is None
    assert SessionRates().per_second(0.0, since=0.0) == 0.0
