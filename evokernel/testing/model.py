"""Contract of language models."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evokernel.errors import ModelsUnavailable
from evokernel.protocols import CallLog, LanguageModel
from evokernel.records.llm import CallStatus, Message, ModelRequest, Origin
from evokernel.testing.call_log import MemoryLog

ModelMaker = Callable[[CallLog], LanguageModel]


def request(step: int, ordinal: int = 0) -> ModelRequest:
    """Return a request of one step."""
    return ModelRequest(Origin(step, "north", "mutate", ("abc",), (4,)), ordinal, "code", (Message("user", "faster"),))


class LanguageModelContract:
    """Tests for one model, which answers every request for steps 0 to 9 with some text; give `make`."""

    @pytest.fixture
    def make(self, tmp_path: Path) -> ModelMaker | Iterator[ModelMaker]:
        """Return a function that makes the model on a record of calls."""
        raise NotImplementedError

    def test_every_reply_is_in_the_record_with_what_was_asked(self, make: ModelMaker) -> None:
        async def scenario() -> None:
            log = MemoryLog()
            model = make(log)
            for step in range(3):
                reply = await model.complete(request(step))
                stored = log.calls[-1]
                assert stored.result is not None
                assert (reply.text, reply.status, reply.usage, reply.reused) == (
                    stored.result.text,
                    CallStatus.OK,
                    stored.result.usage,
                    False,
                )
                assert reply.text.strip()
                asked = request(step)
                call = stored.call
                assert (call.origin, call.ordinal, call.role) == (asked.origin, asked.ordinal, asked.role)
                assert call.messages == asked.messages
            assert len(log.calls) == 3
            await model.close()

        asyncio.run(scenario())

    def test_a_reply_for_the_same_step_is_given_again_also_by_the_next_process(self, make: ModelMaker) -> None:
        async def scenario() -> None:
            log = MemoryLog()
            for again in (False, True, True):
                model = make(log)
                reply = await model.complete(request(1))
                assert reply.reused is again
                await model.close()
            assert len(log.calls) == 1

        asyncio.run(scenario())

    def test_calls_of_a_step_are_told_apart_and_equal_questions_are_samples(self, make: ModelMaker) -> None:
        async def scenario() -> None:
            log = MemoryLog()
            model = make(log)
            replies = await asyncio.gather(*(model.complete(request(2, ordinal)) for ordinal in range(3)))
            assert not any(reply.reused for reply in replies)
            assert sorted(stored.call.ordinal for stored in log.calls) == [0, 1, 2]
            assert sorted(stored.call.sample for stored in log.calls) == [0, 1, 2]
            await model.close()

        asyncio.run(scenario())

    def test_after_a_stop_no_call_is_begun_and_closing_twice_is_fine(self, make: ModelMaker) -> None:
        async def scenario() -> None:
            log = MemoryLog()
            model = make(log)
            model.stop_new_calls()
            with pytest.raises(ModelsUnavailable) as caught:
                await model.complete(request(3))
            assert not caught.value.final
            assert log.calls == ()
            await model.close()
            await model.close()

        asyncio.run(scenario())
