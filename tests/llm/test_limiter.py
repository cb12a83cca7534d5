import asyncio

import pytest

from evokernel.llm.limiter import Limiter, Ticket, TooLong
from tests.llm.making import Time


async def work(rounds: int = 50) -> None:
    """Take so many turns of the event loop, in which as many others may begin."""
    for _ in range(rounds):
        await asyncio.sleep(0)


async def turn(limiter: Limiter) -> Ticket:
    """Make one call that succeeds."""
    async with limiter.turn() as ticket:
        await work()
        limiter.succeeded()
        return ticket


def test_it_begins_with_few_and_grows_to_the_most_while_all_goes_well() -> None:
    async def scenario() -> list[int]:
        limiter = Limiter(10, Time())
        seen = [limiter.limit]
        for _ in range(4):
            await asyncio.gather(*(turn(limiter) for _ in range(limiter.limit)))
            seen.append(limiter.limit)
        return seen

    seen = asyncio.run(scenario())
    assert seen[0] == 2
    assert seen == sorted(seen)
    assert seen[1] == 3
    assert seen[-1] > seen[1]


def test_never_more_than_the_most_run_at_once_and_that_many_do() -> None:
    async def scenario() -> int:
        limiter, most = Limiter(5, Time()), 0

        async def watched() -> None:
            nonlocal most
            async with limiter.turn():
                most = max(most, limiter.running)
                assert limiter.running <= limiter.limit
                await work()
                limiter.succeeded()

        await asyncio.gather(*(watched() for _ in range(60)))
        assert limiter.running == 0
        return most

    assert asyncio.run(scenario()) == 5


def test_a_limit_that_nobody_reaches_does_not_grow() -> None:
    async def scenario() -> int:
        limiter = Limiter(8, Time())
        for _ in range(20):
            await turn(limiter)
        return limiter.limit

    assert asyncio.run(scenario()) == 2


def test_a_burst_of_refusals_cuts_once_and_the_next_burst_cuts_again() -> None:
    async def scenario() -> list[int]:
        limiter = Limiter(16, Time())
        for _ in range(30):
            await asyncio.gather(*(turn(limiter) for _ in range(limiter.limit)))
        limits = [limiter.limit]
        for _ in range(2):

            async def refused() -> bool:
                async with limiter.turn() as ticket:
                    await work()
                    return limiter.refused(ticket, retry_after_s=None, jitter=0)

            began = await asyncio.gather(*(refused() for _ in range(limiter.limit)))
            assert sum(began) == 1
            limits.append(limiter.limit)
        return limits

    assert asyncio.run(scenario()) == [16, 8, 4]


def test_after_a_cut_it_grows_by_one_in_a_full_round() -> None:
    async def scenario() -> tuple[int, int]:
        limiter = Limiter(16, Time())
        for _ in range(30):
            await asyncio.gather(*(turn(limiter) for _ in range(limiter.limit)))
        async with limiter.turn() as ticket:
            limiter.refused(ticket, retry_after_s=None, jitter=0)
        before = limiter.limit
        await asyncio.gather(*(turn(limiter) for _ in range(4 * before)))
        return before, limiter.limit

    before, after = asyncio.run(scenario())
    assert before == 8
    assert after in (10, 11)  # four rounds, the last of them with nobody behind it


def test_a_pause_holds_for_all_callers_and_lasts_as_long_as_was_asked_for() -> None:
    async def scenario() -> list[float]:
        time = Time()
        limiter = Limiter(4, time)
        async with limiter.turn() as ticket:
            limiter.refused(ticket, retry_after_s=7.0, jitter=0)
        began = []

        async def call() -> None:
            async with limiter.turn():
                began.append(time.now_s() - 1000.0)
                limiter.succeeded()

        await asyncio.gather(*(call() for _ in range(4)))
        return began

    assert asyncio.run(scenario()) == [7.0] * 4


def test_without_a_time_from_the_provider_pauses_double_and_a_success_makes_them_short_again() -> None:
    async def scenario() -> list[float]:
        time = Time()
        limiter, pauses = Limiter(4, time), []

        async def refused() -> None:
            async with limiter.turn() as ticket:
                limiter.refused(ticket, retry_after_s=None, jitter=0)
                pauses.append(limiter.pause_s())

        for _ in range(3):
            await refused()
        await turn(limiter)
        await refused()
        return pauses

    assert asyncio.run(scenario()) == [0.5, 1.0, 2.0, 0.5]


def test_who_came_first_is_served_first() -> None:
    async def scenario() -> list[int]:
        limiter, served = Limiter(1, Time()), []

        async def call(number: int) -> None:
            async with limiter.turn():
                served.append(number)
                await work(number % 3)

        await asyncio.gather(*(call(number) for number in range(12)))
        return served

    assert asyncio.run(scenario()) == list(range(12))


def test_a_pause_that_is_too_long_sends_away_who_waits_and_who_comes() -> None:
    async def scenario() -> None:
        limiter = Limiter(1, Time())
        async with limiter.turn() as ticket:
            waits = asyncio.ensure_future(turn(limiter))
            await asyncio.sleep(0)
            limiter.refused(ticket, retry_after_s=86400.0, jitter=0)
            with pytest.raises(TooLong, match="86400"):
                await waits
        with pytest.raises(TooLong):
            await turn(limiter)
        assert limiter.running == 0

    asyncio.run(scenario())


def test_not_all_begin_in_one_turn_of_the_event_loop() -> None:
    async def scenario() -> int:
        limiter = Limiter(16, Time())
        for _ in range(10):
            await asyncio.gather(*(turn(limiter) for _ in range(limiter.limit)))
        calls = [asyncio.ensure_future(turn(limiter)) for _ in range(16)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running = limiter.running
        await asyncio.gather(*calls)
        return running

    assert 1 <= asyncio.run(scenario()) <= 2


@pytest.mark.parametrize("loops", [0, 1, 2, 3])
def test_who_gives_up_while_waiting_takes_nothing_along(loops: int) -> None:
    async def scenario() -> None:
        limiter = Limiter(1, Time())
        async with limiter.turn():
            waits = asyncio.ensure_future(turn(limiter))
            await asyncio.sleep(0)
        for _ in range(loops):
            await asyncio.sleep(0)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        assert limiter.running == 0
        assert (await turn(limiter)).episode == 0

    asyncio.run(scenario())
