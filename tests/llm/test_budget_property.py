"""Whatever calls cost and however many run at once, no budget is passed."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from evokernel.errors import BudgetSpent, ModelsUnavailable
from evokernel.llm.ensemble import EnsembleSettings
from evokernel.llm.ledger import SpendingLimits
from evokernel.llm.transport import Price, RateLimited, TemporaryFailure, TransportReply, prompt_bound_tokens
from evokernel.records.llm import ModelCall
from evokernel.testing.call_log import MemoryLog
from tests.llm.making import Actor, Ensemble, model, request

LONGEST = 64
BOUND = prompt_bound_tokens(request().messages)


class Watched(MemoryLog):
    """A log that looks at the budget after every entry."""

    def __init__(self, limits: SpendingLimits) -> None:
        super().__init__()
        self._limits = limits

    def begin(self, call: ModelCall) -> int:
        number = super().begin(call)
        self.check()
        return number

    def check(self) -> None:
        spent, limits = self.spending(), self._limits
        assert limits.dollars is None or spent.cost_usd <= limits.dollars + 1e-9
        assert limits.tokens is None or spent.tokens <= limits.tokens
        assert limits.calls is None or spent.calls <= limits.calls


outcomes = st.one_of(
    st.builds(
        TransportReply,
        st.just("yes"),
        prompt_tokens=st.one_of(st.none(), st.integers(0, BOUND)),
        completion_tokens=st.one_of(st.none(), st.integers(0, LONGEST)),
    ),
    st.builds(TemporaryFailure, st.just("trouble"), st.booleans()),
    st.builds(RateLimited, st.just("429"), st.one_of(st.none(), st.floats(0, 5))),
)
limits = st.builds(
    SpendingLimits,
    dollars=st.one_of(st.none(), st.floats(0.01, 20)),
    tokens=st.one_of(st.none(), st.integers(1, 3000)),
    calls=st.one_of(st.none(), st.integers(1, 15)),
)


@given(
    limits=limits,
    price=st.builds(Price, st.floats(0, 0.01), st.floats(0, 0.02)),
    deeds=st.lists(outcomes, min_size=1, max_size=20),
    concurrency=st.integers(1, 8),
    requests=st.integers(1, 12),
    waits=st.lists(st.integers(0, 5), min_size=1, max_size=5),
)
def test_no_budget_is_passed(
    limits: SpendingLimits, price: Price, deeds: list[TransportReply], concurrency: int, requests: int, waits: list[int]
) -> None:
    begun = 0

    async def deed() -> object:
        nonlocal begun
        begun += 1
        mine = begun
        for _ in range(waits[mine % len(waits)]):
            await asyncio.sleep(0)
        return deeds[mine % len(deeds)]

    log = Watched(limits)
    config = model(max_tokens=LONGEST, concurrency=concurrency, retries=1)
    actor = Actor(deed)
    ensemble = Ensemble((config, actor), rules=EnsembleSettings(limits=limits, patience_s=40), log=log, price=price)

    async def scenario() -> list[object]:
        tasks = (ensemble.models.complete(request(step)) for step in range(requests))
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    results = asyncio.run(scenario())
    log.check()
    assert actor.most <= concurrency
    assert all(stored.result is not None for stored in log.calls)
    unexpected = [
        each
        for each in results
        if isinstance(each, BaseException) and not isinstance(each, BudgetSpent | ModelsUnavailable)
    ]
    assert unexpected == []
