"""The record of calls gives back what it was given, finds what can be used, and adds up what was spent."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from archive.store import Store
from evokernel.records.candidate import Usage
from evokernel.records.llm import CallStatus, Message, ModelCall, ModelCallResult, Origin, Spending

words = st.text(max_size=20)
any_text = st.text(st.characters(exclude_categories=()), max_size=20)  # lone surrogates too
ids = st.text("0123456789abcdef", min_size=16, max_size=16)
finite = st.floats(allow_nan=False, allow_infinity=False)
column = st.floats().map(lambda x: x + 0.0)  # a REAL column holds no -0.0
counts = st.integers(0, 2**53)
usages = st.builds(Usage, words, counts, counts, column, column)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)
calls = st.builds(
    ModelCall,
    origin=st.builds(
        Origin,
        step=counts,
        island=words,
        operator=words,
        parents=st.lists(ids, max_size=3).map(tuple),
        insights=st.lists(counts, max_size=3).map(tuple),
    ),
    ordinal=counts,
    role=words,
    model=words,
    messages=st.lists(st.builds(Message, st.sampled_from(["system", "user", "assistant"]), any_text), max_size=3).map(
        tuple
    ),
    parameters=st.dictionaries(any_text, json_values, max_size=3),
    sample=counts,
    reserved_tokens=counts,
    reserved_usd=finite.map(abs),
)
outcomes = st.builds(ModelCallResult, st.sampled_from(list(CallStatus)[1:]), words, usages)


def same(one, other):
    return repr(one) == repr(other)  # unlike ==, this holds for NaN


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(calls, st.none() | outcomes), max_size=4))
def test_calls_come_back_as_they_were(plan):
    with tempfile.TemporaryDirectory() as folder:
        with Store.open(Path(folder) / "run.db", write=True) as store:
            for call, outcome in plan:
                number = store.calls.begin(call)
                if outcome is not None:
                    store.calls.end(number, outcome)
        with Store.open(Path(folder) / "run.db", write=False) as store:
            stored = list(store.calls.all())
            assert same([(one.call, one.result) for one in stored], plan)
            usable = [
                one for one in stored if one.result and one.result.status in (CallStatus.OK, CallStatus.TRUNCATED)
            ]
            for one in stored:
                key, sample, origin = one.call.key, one.call.sample, one.call.origin
                asked = [u for u in usable if (u.call.key, u.call.sample) == (key, sample)]
                made = [u for u in usable if (u.call.origin.step, u.call.ordinal) == (origin.step, one.call.ordinal)]
                assert same(store.calls.find(key, sample), asked[0] if asked else None)
                assert same(store.calls.of_step(origin.step, one.call.ordinal), made[-1] if made else None)
                assert store.calls.samples(key) == len({c.call.sample for c in stored if c.call.key == key})
            assert {o.step for o in store.calls.interrupted()} == {one.call.origin.step for one in usable}
            assert set(store.calls.interrupted()) <= {one.call.origin for one in usable}
            assert store.verify() == []


reservations = st.tuples(st.integers(0, 10**6), st.integers(0, 1000).map(lambda cents: cents / 128))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(reservations, st.none() | reservations), max_size=12))
def test_spending_is_what_ended_calls_cost_and_open_ones_reserve(plan):
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "run.db", write=True) as store:
        expected = Spending()
        for step, (reserved, paid) in enumerate(plan, 1):
            call = ModelCall(Origin(step, "a", "b"), 0, "code", "m", (), {}, 0, *reserved)
            number = store.calls.begin(call)
            if paid is not None:
                tokens, cost = paid
                store.calls.end(
                    number, ModelCallResult(CallStatus.OK, "", Usage("m", tokens // 2, tokens - tokens // 2, cost))
                )
            tokens, cost = reserved if paid is None else paid
            expected = Spending(step, expected.tokens + tokens, expected.cost_usd + cost)
        assert store.calls.spending() == expected
        spent = store.spent()
        assert (spent.calls, spent.tokens, spent.cost_usd) == (expected.calls, expected.tokens, expected.cost_usd)
