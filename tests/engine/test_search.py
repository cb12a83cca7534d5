"""The loop on a real store: budgets, resuming, replay, reuse, final measurements, the inbox, and our own faults."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from archive.journal import ConfigEntry, EvaluationEntry, ResultEntry
from archive.store import Store
from evokernel.cli.display.snapshot import SnapshotTaker
from evokernel.engine.search import Search
from evokernel.errors import ConfigError, HarnessError, RunMismatch
from evokernel.protocols import Operator
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity, Status
from evokernel.records.step import Context, Draft, OperatorKind
from evokernel.report.best import find_best
from evokernel.report.verdicts import MeasurementKind
from tests.support.engine import TASK, Heard, replayed, toy_config, toy_search
from tests.support.fakes import TOY, InstantEvaluator, toy_speed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "toy.db"


def run(path: Path, evaluator: InstantEvaluator, heard: Heard | None = None, **changes: object) -> tuple[str, Search]:
    with Store.open(path, write=True) as store:
        search = toy_search(store, toy_config(**changes), evaluator, heard=heard)
        return asyncio.run(search.run()), search


def test_a_search_finds_the_best_point_and_stops_at_its_budget(path: Path) -> None:
    reason, search = run(path, InstantEvaluator(), budget={"evaluations": 20})
    assert reason == "budget of 20 evaluations used"
    assert search.account.results == 20
    assert search.account.lead is not None
    assert search.account.best_speedup > 0.75
    with Store.open(path, write=False) as store:
        assert store.verify() == []
        assert store.spent().evaluations >= 20


def test_it_ends_when_everything_was_tried(path: Path) -> None:
    reason, search = run(path, InstantEvaluator(), budget={"evaluations": 10_000}, reset_after=None)
    assert reason == "every operator has tried everything it can"
    assert search.account.best_speedup == pytest.approx(1.0, rel=1e-3)


def test_a_view_knows_when_only_the_winner_is_measured(path: Path) -> None:
    seen: set[tuple[bool, bool]] = set()

    def look(request: EvaluationRequest) -> None:
        seen.add((request.budget is Fidelity.FINAL, SnapshotTaker(search, store).snapshot().finishing))

    config = toy_config(budget={"evaluations": 10_000}, reset_after=None)
    with Store.open(path, write=True) as store:
        search = toy_search(store, config, InstantEvaluator(fails=look))
        asyncio.run(search.run())
    assert seen == {(False, False), (True, True)}


def test_a_view_knows_what_earlier_sessions_judged_before_the_search_has_read_it(path: Path) -> None:
    run(path, InstantEvaluator(), budget={"evaluations": 12})
    with Store.open(path, write=True) as store:
        search = toy_search(store, toy_config(budget={"evaluations": 24}), InstantEvaluator())
        shown = SnapshotTaker(search, store).snapshot()
    assert (search.account.results, shown.results, shown.remaining) == (0, 12, 0.5)


def test_replaying_the_store_gives_the_state_of_the_live_run(path: Path) -> None:
    _, search = run(path, InstantEvaluator(), budget={"evaluations": 25})
    heard = Heard()
    run(path, InstantEvaluator(), heard, budget={"evaluations": 25})
    assert not any("another state" in note for note in heard.notes)
    state = replayed(path, toy_config(budget={"evaluations": 25}))
    assert state.fingerprint() == search.state.fingerprint()
    assert state.account == search.account


@pytest.mark.parametrize(("under", "warned"), [("", True), ("other rules", False)])
def test_a_replay_that_ends_elsewhere_under_the_same_rules_is_told(path: Path, under: str, warned: bool) -> None:
    run(path, InstantEvaluator(), budget={"evaluations": 9})
    with Store.open(path, write=True) as store:
        noted = (store.meta("fingerprint") or "").split()
        noted[1] = "0" * 16
        store.set_meta("fingerprint", " ".join([*noted[:2], under or noted[2]]))
    heard = Heard()
    run(path, InstantEvaluator(), heard, budget={"evaluations": 9})
    assert any("another state" in note for note in heard.notes) == warned


def test_going_on_repeats_nothing_and_counts_on(path: Path) -> None:
    first, second = InstantEvaluator(), InstantEvaluator()
    run(path, first, budget={"evaluations": 7})
    heard = Heard()
    reason, search = run(path, second, heard, budget={"evaluations": 15})
    assert reason == "budget of 15 evaluations used"
    assert search.account.results == 15
    asked = [(r.program_hash, r.budget) for r in first.asked + second.asked]
    assert len(asked) == len(set(asked))
    assert any("budget.evaluations changed from 7 to 15" in note for note in heard.notes)
    with Store.open(path, write=False) as store:
        assert [fact.key for fact in store.facts() if isinstance(fact, ConfigEntry)] == ["budget.evaluations"]


def test_work_in_flight_is_judged_again_after_a_crash(path: Path) -> None:
    class Crash(BaseException):
        pass

    def crash_at_ninth(request: EvaluationRequest) -> Exception | None:
        if request in evaluator.asked[8:9]:
            raise Crash
        return None

    evaluator = InstantEvaluator(fails=crash_at_ninth)
    with pytest.raises(Crash):
        run(path, evaluator, budget={"evaluations": 12})
    with Store.open(path, write=False) as store:
        leases = [proposal.step for proposal in store.open_leases()]
        committed = {fact.step for fact in store.facts() if isinstance(fact, ResultEntry)}
    assert leases
    assert not committed & set(leases)
    _, search = run(path, InstantEvaluator(), budget={"evaluations": 12})
    with Store.open(path, write=False) as store:
        steps = [fact.step for fact in store.facts() if isinstance(fact, ResultEntry)]
    assert len(steps) == len(set(steps)) == search.account.results
    assert set(leases) <= set(steps)


def test_times_that_are_the_leaders_own_are_not_measured_longer(path: Path) -> None:
    evaluator = InstantEvaluator(speed=lambda source: 0.5)
    run(path, evaluator)
    assert {request.budget for request in evaluator.asked} == {Fidelity.QUICK}


def test_a_winner_that_fails_on_held_out_inputs_is_barred_and_the_next_is_measured(path: Path) -> None:
    evaluator = InstantEvaluator(holds=lambda source: (toy_speed(source) or 0) < 0.95)
    _, search = run(path, evaluator, budget={"evaluations": 100}, reset_after=None)
    with Store.open(path, write=False) as store:
        finals = [
            f.evaluation
            for f in store.facts()
            if isinstance(f, EvaluationEntry) and f.evaluation.key.budget is Fidelity.FINAL
        ]
    assert [final.status for final in finals] == [Status.HOLDOUT_FAILED, Status.OK, Status.OK]  # the seed's is last
    assert search.account.lead is not None
    assert search.account.lead.candidate == finals[1].candidate_id
    assert replayed(path, toy_config(reset_after=None)).fingerprint() == search.state.fingerprint()


def test_a_winner_that_is_slower_than_its_baseline_is_not_told_as_a_success(path: Path) -> None:
    heard = Heard()
    run(path, InstantEvaluator(speed=lambda source: (toy_speed(source) or 1) / 100), heard)
    assert any("holds on held-out workloads, but is slower than its baseline: 0.0" in note for note in heard.notes)


class Disturbed(InstantEvaluator):
    """Final measurements meet other programs."""

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        found = await super().evaluate(request)
        late = [replace(each, log_speedup=each.log_speedup - 3) for each in found.timings]
        return replace(found, timings=tuple(late)) if request.budget is Fidelity.FINAL else found


@pytest.mark.parametrize("judge", [Disturbed, InstantEvaluator])
def test_a_final_measurement_far_from_the_search_is_doubted(path: Path, judge: type[InstantEvaluator]) -> None:
    run(path, judge(), heard := Heard())
    assert any("in the search, and is" in note for note in heard.notes) == (judge is Disturbed)


def test_a_final_measurement_is_not_paid_for_twice(path: Path) -> None:
    run(path, InstantEvaluator())
    again = InstantEvaluator()
    run(path, again)
    assert again.asked == []


def test_a_seed_that_is_wrong_is_a_clear_error_and_can_be_mended(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no seed of this search is a correct kernel[\s\S]*numerical: wrong"):
        run(path, InstantEvaluator(speed=lambda source: None))


def test_a_seed_that_our_own_machinery_failed_on_is_judged_again_by_the_next_session(path: Path) -> None:
    with pytest.raises(HarnessError, match=r"harness_error: no room"):  # which may pass, and so ends no queue's entry
        run(path, InstantEvaluator(fails=lambda request: HarnessError("no room")))
    reason, search = run(path, InstantEvaluator())
    assert (reason, search.account.results) == ("budget of 12 evaluations used", 12)
    again = InstantEvaluator()
    run(path, again)
    assert again.asked == []
    with Store.open(path, write=False) as store:
        assert store.verify() == []
        assert sum(isinstance(fact, ResultEntry) and fact.proposal.operator == "seed" for fact in store.facts()) == 2


def test_another_task_in_the_same_store_is_refused(path: Path) -> None:
    run(path, InstantEvaluator())
    with pytest.raises(RunMismatch, match=r"--fresh"):
        run(path, InstantEvaluator(), seed=1)


def test_our_own_fault_is_retried_and_never_scored(path: Path) -> None:
    heard = Heard()

    def lose_the_third(request: EvaluationRequest) -> Exception | None:
        programs = list(dict.fromkeys(asked.program_hash for asked in evaluator.asked))
        return HarnessError("lost a worker") if programs.index(request.program_hash) == 2 else None

    evaluator = InstantEvaluator(fails=lose_the_third)
    _, search = run(path, evaluator, heard)
    statuses = [evaluation.status for evaluation in heard.evaluations]
    assert statuses.count(Status.HARNESS_ERROR) == 1
    assert sum("lost a worker" in note for note in heard.notes) == 2
    assert search.account.results == 12


def test_a_machine_that_always_fails_ends_the_search_with_its_reason(path: Path) -> None:
    evaluator = InstantEvaluator(fails=lambda r: HarnessError("no device") if len(evaluator.asked) > 6 else None)
    with pytest.raises(HarnessError, match="no device"):
        run(path, evaluator)


def test_an_operator_that_fails_costs_a_step_and_not_the_search(path: Path) -> None:
    class Clumsy(Operator):
        name, parents, kind = "blend", 1, OperatorKind.RULE

        async def propose(self, context: Context) -> Draft | None:
            raise RuntimeError("butterfingers")

    heard = Heard()
    with Store.open(path, write=True) as store:
        config = toy_config(budget={"evaluations": 18})
        search = toy_search(store, config, InstantEvaluator(), heard=heard, operators={"blend": Clumsy()})
        asyncio.run(search.run())
    assert any("operator blend failed" in note and "butterfingers" in note for note in heard.notes)
    assert search.account.results == 18


def test_a_constraint_that_cannot_be_evaluated_excludes_its_points(path: Path) -> None:
    source = TOY.replace("// tune-where: A * B <= 64", "// tune-where: A * B <= 64 and 12 // (B - 2) > 0")
    with Store.open(path, write=True) as store:
        search = toy_search(store, toy_config(budget={"evaluations": 100}), InstantEvaluator(), source=source)
        asyncio.run(search.run())
    values = {s.values["B"] for siblings in search.state.archipelago.history.siblings.values() for s in siblings}
    assert 2 not in values
    assert 4 in values


def test_a_twin_of_a_refuted_winner_is_refuted_too_and_a_replay_knows_it(path: Path) -> None:
    evaluator = InstantEvaluator(holds=lambda source: (toy_speed(source) or 0) < 0.95)
    run(path, evaluator, budget={"evaluations": 100}, reset_after=None)
    twin = TOY.replace("A = 1;", "A = 8;").replace("B = 3;", "B = 4;").replace("a toy", "a twin")
    Store.inbox_put(path, "source", {"source": twin})
    heard = Heard()
    _, search = run(path, evaluator, heard, budget={"evaluations": 200}, reset_after=None)
    assert all("a twin" not in elite.candidate.source for elite in search.state.archipelago.history.elites.values())
    assert not any("another state" in note for note in heard.notes)


def test_a_seed_that_nothing_beats_is_not_measured_anew(path: Path) -> None:
    evaluator, heard = InstantEvaluator(), Heard()
    with Store.open(path, write=True) as store:
        source = TOY.replace("A = 1;", "A = 8;").replace("B = 3;", "B = 4;")
        asyncio.run(toy_search(store, toy_config(), evaluator, source=source, heard=heard).run())
        best = find_best(store)
    assert not [request for request in evaluator.asked if request.budget is Fidelity.FINAL]
    assert "the seed is still the best: nothing to measure anew" in heard.notes
    assert best is not None
    assert (best.candidate.source, best.kind, best.contender) == (source, MeasurementKind.SEARCH, None)


def test_a_seed_that_is_beaten_is_measured_in_one_process_to_compare_with(path: Path) -> None:
    evaluator = InstantEvaluator()
    run(path, evaluator, budget={"evaluations": 20})
    finals = [request for request in evaluator.asked if request.budget is Fidelity.FINAL]
    assert [(request.candidate.source == TOY, request.processes) for request in finals] == [(False, 0), (True, 1)]
    assert [request.keep_last for request in finals] == [True, False]


def test_a_seed_that_is_hardly_beaten_is_measured_as_thoroughly_as_the_winner(path: Path) -> None:
    evaluator = InstantEvaluator(speed=lambda source: (toy_speed(source) or 1.0) ** 0.1)
    run(path, evaluator, budget={"evaluations": 20})
    finals = [request for request in evaluator.asked if request.budget is Fidelity.FINAL]
    assert [(request.candidate.source == TOY, request.processes) for request in finals] == [(False, 0), (True, 0)]
    assert not any(request.keep_last for request in finals)


def test_a_seed_that_is_left_far_behind_is_compared_by_the_search_alone(path: Path) -> None:
    evaluator = InstantEvaluator(speed=lambda source: 0.1 if source == TOY else toy_speed(source))
    run(path, evaluator, budget={"evaluations": 20})
    finals = [request for request in evaluator.asked if request.budget is Fidelity.FINAL]
    assert [(request.processes, request.keep_last) for request in finals] == [(0, False)]
    with Store.open(path, write=False) as store:
        best = find_best(store)
    assert best is not None
    assert best.over_seed is not None
    assert (best.kind, best.over_seed.kind) == (MeasurementKind.FINAL, MeasurementKind.SEARCH)
    assert best.over_seed.speedup.value > 4


def test_a_kernel_whose_quick_timing_took_as_long_as_a_precise_one_is_not_timed_again(path: Path) -> None:
    def slow(source: str) -> float | None:
        speed = toy_speed(source)
        return speed and speed / 1e3  # ten pairs of a second each

    fast_ones, slow_ones = InstantEvaluator(), InstantEvaluator(speed=slow)
    for number, evaluator in enumerate((fast_ones, slow_ones)):
        run(path.with_suffix(f".{number}.db"), evaluator, budget={"evaluations": 20})
    precise = [[each.budget for each in asked.asked].count(Fidelity.PRECISE) for asked in (fast_ones, slow_ones)]
    assert precise[0] > 0
    assert precise[1] == 0


@pytest.mark.parametrize("sanitized", [True, False])
def test_a_final_measurement_says_how_long_it_takes_and_how_far_it_is(path: Path, sanitized: bool) -> None:
    metrics = {"check_s": 0.5, "time_s": 2.0, "build_s": 3.0, "sanitized": float(sanitized)}

    class Timed(InstantEvaluator):
        async def evaluate(self, request: EvaluationRequest) -> Evaluation:
            if request.after_process is not None and not request.processes:
                request.after_process(1, 3)
            return replace(await super().evaluate(request), metrics=metrics)

    heard = Heard()
    run(path, Timed(), heard, budget={"evaluations": 20})
    said = "\n".join(heard.notes)
    begins = re.search(r"anew in 3 fresh processes, and on held-out workloads: about (21|49) s(.*)\n", said)
    assert begins is not None
    assert begins[2] == ("" if sanitized else ", and what the sanitizers take")
    assert "measured in 1 of 3 fresh processes; about 0 s are left" in said
    assert re.search(
        r"the seed \w+, to compare with, anew in one process, and on held-out workloads: about \d+ s\n", said
    )


def test_no_process_is_kept_for_the_seed_where_further_dtypes_come_in_between(path: Path) -> None:
    offered = replace(TASK.workloads["cpu"], further_dtypes=("float16",))
    evaluator, heard = InstantEvaluator(), Heard()
    with Store.open(path, write=True) as store:
        config = toy_config(budget={"evaluations": 20})
        task = replace(TASK, workloads={"cuda": offered})
        asyncio.run(toy_search(store, config, evaluator, heard=heard, task=task).run())
    assert not any(request.keep_last for request in evaluator.asked)
    assert any("to compare with, anew in 1 fresh process, " in note for note in heard.notes)


def test_a_fault_in_a_final_measurement_leaves_the_next_contender_a_chance(path: Path) -> None:
    finals: list[str] = []

    def lose_first_winner(request: EvaluationRequest) -> Exception | None:
        if request.budget is Fidelity.FINAL and "A = 1;" not in request.candidate.source:
            finals.append(request.candidate.id)
            return HarnessError("lost it") if len(finals) == 1 else None
        return None

    reason, _ = run(path, InstantEvaluator(fails=lose_first_winner))
    assert reason == "budget of 12 evaluations used"
    assert len(finals) == 2


def test_an_inbox_entry_is_taken_in_even_when_nothing_else_is_left_to_try(path: Path) -> None:
    run(path, InstantEvaluator(), budget={"evaluations": 10_000}, reset_after=None)
    Store.inbox_put(path, "source", {"source": TOY.replace("void run()", "void run(void)")})
    Store.inbox_put(path, "source", {"source": "\ud800"})
    heard = Heard()
    _, search = run(path, InstantEvaluator(), heard, budget={"evaluations": 10_000}, reset_after=None)
    assert any("void run(void)" in elite.candidate.source for elite in search.state.archipelago.history.elites.values())


def test_a_source_from_the_inbox_is_judged_on_every_island(path: Path) -> None:
    run(path, InstantEvaluator(), budget={"evaluations": 4})
    source = TOY.replace("A = 1;", "A = 8;").replace("B = 3;", "B = 4;").replace("a toy", "by hand")
    Store.inbox_put(path, "source", {"source": source}, author="ada")
    Store.inbox_put(path, "nonsense", {"x": 1})
    heard = Heard()
    _, search = run(path, InstantEvaluator(), heard, budget={"evaluations": 12})
    assert any("handed in by ada" in note for note in heard.notes)
    assert any("of kind 'nonsense' was left alone: this kind is not known" in note for note in heard.notes)
    assert search.account.lead is not None
    assert "by hand" in search.state.archipelago.history.elites[search.account.lead.candidate].candidate.source
    assert search.state.injected == {}  # what was judged does not wait, so that the next one is found at once


def test_stop_finishes_what_is_in_flight_and_asks_nothing_more(path: Path) -> None:
    evaluator = InstantEvaluator(fails=lambda r: search.stop("SIGINT") if len(evaluator.asked) >= 6 else None)
    with Store.open(path, write=True) as store:
        search = toy_search(store, toy_config(), evaluator)
        assert asyncio.run(search.run()) == "SIGINT"
        assert store.open_leases() == []
    assert all(request.budget is not Fidelity.FINAL for request in evaluator.asked)


class Stuck(InstantEvaluator):
    """Judges a few kernels, and then one for ever."""

    stuck = False

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        if len(self.asked) >= 5 and request.budget is Fidelity.QUICK and not self.stuck:
            self.stuck = True
            await asyncio.Event().wait()
        return await super().evaluate(request)


@pytest.mark.parametrize(("hours", "finish_s"), [(1e-4, 5.0), (80 / 3600, 8.0), (0.08, 20.0), (8.0, 20.0)])
def test_what_is_in_flight_at_the_end_has_a_tenth_of_the_time(path: Path, hours: float, finish_s: float) -> None:
    with Store.open(path, write=True) as store:
        search = toy_search(store, toy_config(budget={"hours": hours}), InstantEvaluator())
    assert search.finish_s == pytest.approx(finish_s)


class StuckAtTheSecondLook(InstantEvaluator):
    """Times every kernel briefly, and none but the seed for longer."""

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        if request.budget is Fidelity.PRECISE and request.candidate.source != TOY:
            await asyncio.Event().wait()
        return await super().evaluate(request)


def test_once_the_time_is_over_a_kernel_that_was_timed_briefly_is_a_contender(path: Path) -> None:
    evaluator, heard = StuckAtTheSecondLook(), Heard()
    with Store.open(path, write=True) as store:
        search = toy_search(store, toy_config(budget={"hours": 1e-4}), evaluator, heard=heard)
        search.finish_s = 0.5
        asyncio.run(search.run())
        best = find_best(store)
        assert list(store.open_leases()) == []
        assert store.verify() == []
    assert best is not None
    assert best.candidate.source != TOY
    assert best.kind is MeasurementKind.FINAL
    assert not any("not judged" in note for note in heard.notes)


def test_once_the_time_is_over_a_kernel_that_takes_long_is_left_to_the_next_session(path: Path) -> None:
    heard = Heard()
    with Store.open(path, write=True) as store:
        search = toy_search(store, toy_config(budget={"hours": 1e-4}), Stuck(), heard=heard)
        search.finish_s = 0.5
        assert asyncio.run(search.run()) == "budget of 0.0001 h used"
        (left,) = (lease.step for lease in store.open_leases())
        assert store.verify() == []
    assert any("1 candidate not judged 0.5 s after the time was over" in note for note in heard.notes)
    run(path, InstantEvaluator(), budget={"evaluations": 1000})
    with Store.open(path, write=False) as store:
        assert list(store.open_leases()) == []
        assert [fact.seq for fact in store.facts() if isinstance(fact, ResultEntry) and fact.proposal.step == left]
