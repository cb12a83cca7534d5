"""What every language model must keep to; subclass `LanguageModelContract` for a new one."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evokernel.config.models import ModelConfig
from evokernel.errors import ModelsUnavailable
from evokernel.llm.call_log import MemoryLog
from evokernel.llm.configured_model import ConfiguredModel
from evokernel.llm.ensemble import ModelEnsemble
from evokernel.llm.litellm_transport import LitellmTransport
from evokernel.llm.recordings import RecordedTransport, ReplyRecording, write_recording
from evokernel.llm.scripted import ScriptedTransport
from evokernel.llm.transport import FREE
from evokernel.llm.waiting import SystemClock
from evokernel.protocols import CallLog, LanguageModel
from evokernel.records.llm import CallStatus, Message, ModelRequest, Origin
from tests.unit.llm.endpoint import endpoint, says

Make = Callable[[CallLog], LanguageModel]


def request(step: int, ordinal: int = 0) -> ModelRequest:
    return ModelRequest(Origin(step, "north", "mutate", ("abc",), (4,)), ordinal, "code", (Message("user", "faster"),))


class LanguageModelContract:
    """Tests for one model, which answers every request for steps 0 to 9 with some text."""

    @pytest.fixture
    def make(self, tmp_path: Path) -> Make | Iterator[Make]:
        raise NotImplementedError

    def test_every_reply_is_in_the_record_with_what_was_asked(self, make: Make) -> None:
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

    def test_a_reply_for_the_same_step_is_given_again_also_by_the_next_process(self, make: Make) -> None:
        async def scenario() -> None:
            log = MemoryLog()
            for again in (False, True, True):
                model = make(log)
                reply = await model.complete(request(1))
                assert reply.reused is again
                await model.close()
            assert len(log.calls) == 1

        asyncio.run(scenario())

    def test_calls_of_a_step_are_told_apart_and_equal_questions_are_samples(self, make: Make) -> None:
        async def scenario() -> None:
            log = MemoryLog()
            model = make(log)
            replies = await asyncio.gather(*(model.complete(request(2, ordinal)) for ordinal in range(3)))
            assert not any(reply.reused for reply in replies)
            assert sorted(stored.call.ordinal for stored in log.calls) == [0, 1, 2]
            assert sorted(stored.call.sample for stored in log.calls) == [0, 1, 2]
            await model.close()

        asyncio.run(scenario())

    def test_after_the_stop_no_call_is_begun_and_closing_twice_is_fine(self, make: Make) -> None:
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


class TestScripted(LanguageModelContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        return lambda log: ScriptedTransport(lambda asked: f"reply to step {asked.origin.step}", log=log)


class TestRecorded(LanguageModelContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        async def record() -> None:
            for step in range(10):
                for ordinal in range(3):
                    await scripted.complete(request(step, ordinal))

        log = MemoryLog()
        scripted = ScriptedTransport(lambda asked: f"reply to step {asked.origin.step}", log=log)
        asyncio.run(record())
        path = tmp_path / "recording.jsonl"
        assert write_recording(path, log.calls) == 30

        def make(log: CallLog) -> ModelEnsemble:
            player = RecordedTransport(ReplyRecording.load(path), name="recorded", notify=lambda text: None)
            config = ModelConfig(name="recorded", replay=str(path))
            return ModelEnsemble([ConfiguredModel.of(config, player, price=FREE, clock=SystemClock())], log=log)

        return make


class TestLitellm(LanguageModelContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Iterator[Make]:
        with endpoint(says("a kernel")) as served:
            config = ModelConfig(name="stub", model="hosted_vllm/stub", api_base=served.url)
            yield lambda log: ModelEnsemble(
                [ConfiguredModel.of(config, LitellmTransport(config), price=FREE, clock=SystemClock())], log=log
            )
