import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from evokernel.config.models import ModelConfig
from evokernel.llm.configured_model import ConfiguredModel
from evokernel.llm.ensemble import ModelEnsemble
from evokernel.llm.litellm_transport import LitellmTransport
from evokernel.llm.recordings import RecordedTransport, ReplyRecording, write_recording
from evokernel.llm.transport import FREE
from evokernel.llm.waiting import Clock
from evokernel.protocols import CallLog
from evokernel.testing.call_log import MemoryLog
from evokernel.testing.model import LanguageModelContract, ModelMaker, request
from evokernel.testing.scripted import ScriptedTransport
from tests.llm.endpoint import endpoint, says


class TestScripted(LanguageModelContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> ModelMaker:
        return lambda log: ScriptedTransport(lambda asked: f"reply to step {asked.origin.step}", log=log)


class TestRecorded(LanguageModelContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> ModelMaker:
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
            return ModelEnsemble([ConfiguredModel.of(config, player, price=FREE, clock=Clock())], log=log)

        return make


@pytest.mark.heavy
class TestLitellm(LanguageModelContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Iterator[ModelMaker]:
        with endpoint(says("a kernel")) as served:
            config = ModelConfig(name="stub", model="hosted_vllm/stub", api_base=served.url)
            yield lambda log: ModelEnsemble(
                [ConfiguredModel.of(config, LitellmTransport(config), price=FREE, clock=Clock())], log=log
            )
