"""The fold over a store's facts is the account that the search itself keeps, and every view says its numbers."""

import asyncio
import random
from pathlib import Path

import pytest

from archive.account import CONTENDERS, JudgedResult, MeasuredProgram, RunAccount
from archive.follower import read_account
from archive.fork import fork
from archive.store import Store
from evokernel.cli.display.following import StoreFollower
from evokernel.cli.display.snapshot import SnapshotTaker
from evokernel.cli.display.watch_json import watch_document
from evokernel.engine.search import Search
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity, Mode, Status
from evokernel.records.fitness import Fitness
from evokernel.report.compare import compare
from evokernel.report.comparison_document import comparison_document
from evokernel.report.documents import status_document
from evokernel.report.page_data import report_document
from evokernel.report.points import leads, points_of
from evokernel.report.status import read_status
from tests.support.engine import replayed, toy_config, toy_search
from tests.support.fakes import WIDE_TOY, InstantEvaluator, toy_speed


class UnevenEvaluator(InstantEvaluator):
    """Calls some kernels wrong, some only in the end, and measures the same one differently each time."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        luck = random.Random(f"{self._seed} {request.program_hash} {request.budget}")
        wrong = luck.random() < (0.4 if request.budget is Fidelity.FINAL else 0.1) and "A = 1;" not in (
            request.candidate.source
        )
        factor = luck.uniform(0.7, 1.5)
        speed = lambda source: None if wrong else (toy_speed(source) or 0.01) * factor
        return await InstantEvaluator(speed).evaluate(request)


def searched(path: Path, seed: int, *, evaluations: int) -> Search:
    """Return a search on a store that has just ended, after as many judged candidates."""
    config = toy_config(budget={"evaluations": evaluations}, seed=seed)
    with Store.open(path, write=True) as store:
        search = toy_search(store, config, UnevenEvaluator(seed), source=WIDE_TOY)
        asyncio.run(search.run())
        live = SnapshotTaker(search, store).snapshot()
    watched = StoreFollower(path).look().snapshot
    assert (live.progress, live.best, live.islands, live.improvements) == (
        watched.progress,
        watched.best,
        watched.islands,
        watched.improvements,
    )
    return search


@pytest.mark.parametrize("seed", range(4))
def test_the_fold_over_the_facts_is_the_account_of_the_search(tmp_path: Path, seed: int) -> None:
    path, config = tmp_path / "a.db", toy_config(budget={"evaluations": 60}, seed=seed)
    search = searched(path, seed, evaluations=40)
    lead = search.account.lead
    assert lead is not None
    Store.inbox_put(path, "ban", {"candidate": lead.candidate})
    search = searched(path, seed, evaluations=60)  # goes on in another session
    with Store.open(path, write=False) as store:
        account = read_account(store)
    assert account == search.account == replayed(path, config).account
    assert account.lead is not None
    assert account.lead.program_hash != lead.program_hash
    assert lead.program_hash in account.barred


@pytest.mark.parametrize("seed", range(4))
def test_every_view_says_the_same_numbers(tmp_path: Path, seed: int) -> None:
    first, second = tmp_path / "a.db", tmp_path / "b.db"
    account = searched(first, seed, evaluations=40).account
    with Store.open(first, write=False) as store:
        fork(first, second, candidate=store.best(1)[0].candidate.candidate.id)
    forked = searched(second, seed, evaluations=10).account
    assert forked.results > forked.evaluations == 10
    for path, expected in ((first, account), (second, forked)):
        lead = expected.lead
        assert lead is not None
        watched = watch_document(StoreFollower(path).look(), path)
        with Store.open(path, write=False) as store, Store.open(second if path == first else first, write=False) as b:
            status, page = status_document(read_status(store)), report_document(store, version="1")["status"]
            compared = comparison_document(compare([store, b]))["runs"][path.stem]
            points = points_of(store)
            ranked = store.best(1)[0]
            changes = [change.operator for change in expected.changes]
            improvements = {row.name: row.improvements for row in read_status(store).operators}
            right = [point for point in points if point.speedup is not None]
        for view in (status, page, watched):
            assert (view["results"], view["correct"]) == (expected.results, expected.correct)
        own = expected.correct - expected.copied_correct
        assert (compared["judged"], compared["correct"]) == (expected.evaluations, own)
        assert {name: changes.count(name) for name in improvements} == improvements
        assert watched["best"]["candidate"] == ranked.candidate.candidate.id == lead.candidate
        assert watched["best"]["low"] == pytest.approx(points[leads(points)[-1]].low)
        assert max(point.low or 0.0 for point in right) == pytest.approx(lead.low)


def test_what_is_far_behind_is_let_go_of_and_the_account_stays_small() -> None:
    account = RunAccount()
    for seq in range(1, 5 * CONTENDERS):
        fitness = Fitness(float(seq % 7), float(seq % 7))
        measured = MeasuredProgram(seq, f"p{seq}", Status.OK, Mode.WORKER, Fidelity.QUICK, fitness)
        account.apply(JudgedResult(seq, 0.0, f"c{seq}", "tune", "one", "", False, measured, {}))
    assert account.lead is not None
    assert (account.results, account.lead.candidate, len(account.changes)) == (5 * CONTENDERS - 1, "c6", 6)
    assert len(account.contenders) <= 2 * CONTENDERS
