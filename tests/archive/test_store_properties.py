"""The store gives back what it was given: any record, any order of operations, however often it is reopened."""

import math
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from archive.journal import ConfigEntry, EmptyStep, EvaluationEntry, InboxEntry, InsightEntry, ResultEntry, StopEntry
from archive.store import NoCandidate, Store
from evokernel.records.candidate import Candidate, Proposal, Usage
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity, Mode, Stage, Status
from evokernel.records.llm import CallStatus, Insight, InsightKind, Message, ModelCall, ModelCallResult, Origin
from evokernel.records.timing import Limit, Speedup, Timing, Verdict

words = st.text(max_size=20)
any_text = st.text(st.characters(exclude_categories=()), max_size=20)  # lone surrogates too
ids = st.text("0123456789abcdef", min_size=16, max_size=16)
finite = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=0, exclude_min=True)
odd = st.floats()
column = odd.map(lambda x: x + 0.0)  # a REAL column holds no -0.0
counts = st.integers(0, 2**53)
numbers = st.dictionaries(any_text, odd, max_size=4)
timings = st.builds(
    Timing,
    workload=any_text,
    baseline=any_text,
    weight=odd,
    candidate_us=positive,
    baseline_us=positive,
    log_speedup=finite,
    log_error=odd,
    pairs=counts,
    verdict=st.sampled_from(Verdict),
    floor_us=st.none() | odd,
    limit=st.none() | st.sampled_from(Limit),
)
keys = st.builds(
    EvaluationKey,
    program_hash=ids,
    task_hash=words,
    device=words,
    environment=words,
    evaluator_version=words,
    mode=st.sampled_from(Mode),
    budget=st.sampled_from(Fidelity),
)


@st.composite
def evaluations(draw, candidate_id):
    status = draw(st.sampled_from(Status))
    return Evaluation(
        key=draw(keys),
        candidate_id=candidate_id,
        status=status,
        stage=draw(st.sampled_from(Stage)),
        timings=tuple(draw(st.lists(timings, min_size=1, max_size=3))) if status is Status.OK else (),
        panel=draw(st.dictionaries(any_text, st.builds(Speedup, odd, odd, odd), max_size=3)),
        descriptor=draw(numbers),
        metrics=draw(numbers),
        feedback=draw(words),
        artifact_hash=draw(ids | st.just("")),
        stopped_early=draw(st.booleans()),
        duration_s=draw(column),
        sandbox=draw(words),
    )


usages = st.builds(Usage, words, counts, counts, column, column)


def same(one, other):
    return repr(one) == repr(other)  # unlike ==, this holds for NaN, and tells -0.0 from 0.0


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_records_come_back_as_they_were(data):
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "run.db", write=True) as store:
        parent = Proposal(Candidate("parent", "cpp"), 1, "a", "seed", 0)
        store.propose(parent, program_hash="p", skeleton="s")
        made = Proposal(
            candidate=Candidate(data.draw(words), data.draw(words)),
            step=2,
            island=data.draw(words),
            operator=data.draw(words),
            asked_seq=data.draw(counts),
            parents=(parent.candidate.id,) * data.draw(st.integers(0, 2)),
            inspirations=(parent.candidate.id,) * data.draw(st.integers(0, 2)),
            rationale=data.draw(words),
            predicted_speedup=data.draw(st.none() | column.filter(lambda x: not math.isnan(x))),
            usage=data.draw(usages),
        )
        verdict = data.draw(evaluations(made.candidate.id))
        store.propose(made, program_hash=verdict.key.program_hash, skeleton="s")
        assert same(store.open_leases(), [parent, made])
        store.commit(2, verdict)
        (fact,) = store.facts()
        assert same(fact.proposal, made)
        assert same(fact.evaluation, verdict)
        found = store.find_evaluation(verdict.key)
        assert (found is None) == (verdict.status is Status.HARNESS_ERROR)
        assert found is None or same(found.evaluation, verdict)
        assert store.verify() == []
        store.counts()


@settings(max_examples=25, deadline=None)
@given(any_text)
def test_any_text_can_be_stored(text):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.db"
        with Store.open(path, write=True) as store:
            store.propose(
                Proposal(Candidate("x", "cpp"), 1, text, text, 0, rationale=text, usage=Usage(text)),
                program_hash="p",
                skeleton="s",
            )
            store.record_no_candidate(NoCandidate(2, text, text, 0, text))
            store.record_insight(NoCandidate(3, text, text, 0), Insight(InsightKind.LESSON, text, text))
            call = ModelCall(Origin(4, text, text), 0, text, text, (Message("user", text),), {text: text}, 0, 0, 0.0)
            store.calls.end(store.calls.begin(call), ModelCallResult(CallStatus.FAILED, text, Usage(text)))
            Store.inbox_put(path, text, {text: text}, author=text)
            (entry,) = store.take_inbox()
            assert entry.payload == {text: text}
            store.edit_config([(text, text, text)], config=text)
            store.set_meta("x", text)
            store.session_start()
            store.session_end(text)
            assert len(list(store.facts())) == 5
            assert len(list(store.calls.all())) == 1
            assert store.verify() == []


operations = st.sampled_from(
    [
        "propose",
        "propose",
        "commit",
        "commit",
        "reuse",
        "barren",
        "insight",
        "call",
        "remeasure",
        "inbox",
        "edit",
        "stop",
        "skip",
        "reopen",
    ]
)


class Model:
    """What a store should hold, kept in plain lists."""

    def __init__(self):
        self.facts, self.flying, self.tried, self.step = [], [], [], 1
        self.missing, self.learned, self.called = [], [], []


def key_of(candidate):
    return EvaluationKey("p" + candidate.id[:4], "t", "d", "e", "1", Mode.WORKER, Fidelity.QUICK)


def verdict_of(candidate, n):
    return Evaluation(key_of(candidate), candidate.id, Status.NUMERICAL, Stage.SMOKE, feedback=str(n))


def apply(store, path, model, operation, n):
    seq = len(model.facts) + 1
    if operation == "propose":
        parents = tuple(model.tried[-(n % 3) :]) if model.tried and n % 3 else ()
        used = tuple(model.learned[-(n % 2) :]) if n % 2 else ()
        made = Proposal(Candidate(str(n), "cpp"), model.step, "main", "tune", seq - 1, parents, insights=used)
        store.propose(made, program_hash=key_of(made.candidate).program_hash, skeleton="s")
        model.flying.append(made)
        model.tried.append(made.candidate.id)
        model.step += 1
    elif operation in ("commit", "reuse") and model.flying:
        made = model.flying.pop(n % len(model.flying))
        stored = store.find_evaluation(key_of(made.candidate)) if operation == "reuse" else None
        verdict = stored.evaluation if stored else verdict_of(made.candidate, n)
        assert store.commit(made.step, verdict, reused_from=stored.seq if stored else None) == seq
        judged_seq = stored.seq if stored else seq
        model.facts.append(ResultEntry(seq, 0.0, made, verdict.key.program_hash, "s", verdict, judged_seq, ""))
    elif operation in ("barren", "insight", "call"):
        apply_without_candidate(store, model, operation, n)
    elif operation == "remeasure" and model.tried:
        verdict = verdict_of(store.candidate(model.tried[n % len(model.tried)]).candidate, n)
        assert store.add_evaluation(verdict) == seq
        model.facts.append(EvaluationEntry(seq, 0.0, verdict, ""))
    elif operation == "inbox":
        number = Store.inbox_put(path, "hint", n, author="me")
        (entry,) = store.take_inbox()
        model.facts.append(InboxEntry(seq, 0.0, number, "hint", n, "me", entry.created))
    elif operation == "edit":
        store.edit_config([("x", None, n)], config="{}")
        model.facts.append(ConfigEntry(seq, 0.0, "x", None, n))
    elif operation == "stop":
        store.session_start()
        store.session_end(str(n))
        model.facts.append(StopEntry(seq, 0.0, str(n)))
    elif operation == "skip":
        model.missing.append(model.step)
        model.step += 1


def apply_without_candidate(store, model, operation, n):
    seq = len(model.facts) + 1
    if operation == "barren":
        no_candidate = NoCandidate(model.step, "tune", "main", seq - 1, str(n), exhausted=n % 2 == 0)
        assert store.record_no_candidate(no_candidate) == seq
        model.facts.append(EmptyStep(seq, 0.0, no_candidate))
    elif operation == "insight":
        no_candidate = NoCandidate(model.step, "plan", "main", seq - 1)
        about = model.tried[-1] if model.tried else ""
        insight = Insight(InsightKind.STRATEGY, str(n), "how", about, n / 4, tuple(model.learned[:2]))
        assert store.record_insight(no_candidate, insight) == seq
        model.facts.append(InsightEntry(seq, 0.0, no_candidate, insight))
        model.learned.append(seq)
    elif operation == "call":  # for a step that never comes
        store.calls.begin(ModelCall(Origin(model.step, "main", "plan"), 0, "think", "m", (), {}, n, 1, 0.0))
        model.missing.append(model.step)
        model.called.append(model.step)
    model.step += 1


def check(store, model):
    assert [replace(fact, at=0.0) for fact in store.facts()] == model.facts
    assert store.open_leases() == sorted(model.flying, key=lambda made: made.step)
    assert [stored.call.origin.step for stored in store.calls.all()] == model.called
    skipped = [step for step in model.missing if step < store.next_step()]
    assert store.missing_steps() == skipped
    assert store.last_seq() == len(model.facts)
    middle = len(model.facts) // 2
    assert [fact.seq for fact in store.facts(after=middle)] == list(range(middle + 1, len(model.facts) + 1))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(operations, st.integers(0, 12)), max_size=40))
def test_any_sequence_of_operations_gives_the_same_facts_after_reopening(plan):
    with tempfile.TemporaryDirectory() as folder:
        path, model = Path(folder) / "run.db", Model()
        store = Store.open(path, write=True)
        try:
            for operation, n in plan:
                if operation == "reopen":
                    store.close()
                    store = Store.open(path, write=True)
                    check(store, model)
                else:
                    apply(store, path, model, operation, n)
            check(store, model)
            assert store.verify() == []
        finally:
            store.close()
        with Store.open(path, write=False) as reader:
            check(reader, model)
