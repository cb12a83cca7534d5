import asyncio
import os
from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.evaluate.client.build_lock import BuildLock, NoBuildLock
from evokernel.evaluate.client.builds import Builder
from evokernel.records.build import Built
from evokernel.records.candidate import Candidate
from evokernel.task import Task
from tests.support.engine import TASK
from tests.support.fakes import ToyLanguage


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def test_those_who_share_are_together_and_the_clock_is_alone():
    async def story() -> None:
        gate, inside, seen = BuildLock(), set(), []

        async def visit(name: str, alone: bool) -> None:
            async with gate.alone() if alone else gate.shared():
                inside.add(name)
                seen.append(frozenset(inside))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                inside.discard(name)

        await asyncio.gather(*(visit(name, name.isupper()) for name in "abCdeFG"))
        assert all(len(together) == 1 for together in seen if any(name.isupper() for name in together))
        assert frozenset("ab") in seen
        assert frozenset("de") in seen

    run(story())


def test_nobody_overtakes_so_neither_side_starves():
    async def story() -> None:
        gate, order = BuildLock(), []

        async def visit(name: str, alone: bool) -> None:
            async with gate.alone() if alone else gate.shared():
                order.append(name)
                await asyncio.sleep(0)

        async with gate.shared():
            tasks = [asyncio.create_task(visit(name, name.isupper())) for name in ("A", "b", "C", "d")]
            await asyncio.sleep(0)
            assert order == []  # the compiler "b" waits behind the clock "A", though it could be let in
        await asyncio.gather(*tasks)
        assert order == ["A", "b", "C", "d"]

    run(story())


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_cancelled_visitors_leave_no_trace(visits: list[tuple[bool, int]]):
    async def story() -> None:
        gate = BuildLock()

        async def visit(alone: bool) -> None:
            async with gate.alone() if alone else gate.shared():
                await asyncio.sleep(0)
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(visit(alone)) for alone, _ in visits]
        for turn in range(4):
            await asyncio.sleep(0)
            for task, (_, when) in zip(tasks, visits, strict=True):
                if when == turn and turn % 2:
                    task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with gate.alone():  # waits for ever if somebody's place was lost
            pass

    run(story())


def test_cancelled_in_the_turn_it_was_admitted():
    async def story() -> None:
        gate = BuildLock()

        async def visit() -> None:
            async with gate.alone():
                pass

        async with gate.alone():
            task = asyncio.create_task(visit())
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        async with gate.alone():
            pass

    run(story())


def test_an_open_gate_lets_the_clock_run_beside_compilers():
    async def story() -> None:
        gate = NoBuildLock()
        async with gate.alone(), gate.shared(), gate.alone():
            pass

    run(story())


def test_an_open_gate_hides_no_failure():
    async def story(visit: str) -> None:
        async with getattr(NoBuildLock(), visit)():
            raise LookupError(visit)

    for visit in ("shared", "alone"):
        with pytest.raises(LookupError, match=visit):
            run(story(visit))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_compilers_run_on_the_cores_that_are_quiet_as_each_begins():
    first, second, *_ = os.sched_getaffinity(0)
    quiet = [(first, second), (second,), (first,)]
    ran: list[Collection[int]] = []

    class Language(ToyLanguage):
        def build(self, source: str, task: Task, *, hidden: Sequence[Mapping[str, int | float]] = ()) -> Built:
            ran.append(os.sched_getaffinity(0))
            return super().build(source, task, hidden=hidden)

    async def story() -> None:
        builder = Builder(Language(), BuildLock(), (first, second), quiet=lambda cores: quiet[len(ran) % 3])
        for each in "abc":
            await builder.build(Candidate(each, "cpp"), TASK)
        await builder.close()

    run(story())
    assert ran == [set(each) for each in quiet]
