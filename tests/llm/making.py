"""Requests, models and time for tests of models."""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evokernel.config.models import ModelConfig
from evokernel.llm.configured_model import ConfiguredModel
from evokernel.llm.ensemble import EarlierReplies, EnsembleSettings, ModelEnsemble
from evokernel.llm.redact import Redactor
from evokernel.llm.transport import Price, TransportReply
from evokernel.llm.waiting import Clock
from evokernel.protocols import CallLog
from evokernel.records.llm import Message, ModelRequest, Origin
from evokernel.testing.call_log import MemoryLog


class Time(Clock):
    """A clock that jumps to the next moment anybody waits for, as soon as nothing else is left to do."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._waiting: list[tuple[float, int]] = []
        self._ids = itertools.count()

    def now_s(self) -> float:
        return self.now

    async def sleep_s(self, seconds: float) -> None:
        entry = (self.now + seconds, next(self._ids))
        heapq.heappush(self._waiting, entry)
        try:
            while self.now < entry[0]:
                for _ in range(20):
                    await asyncio.sleep(0)
                if self._waiting[0] == entry:
                    self.now = entry[0]
        finally:
            self._waiting.remove(entry)
            heapq.heapify(self._waiting)


Deed = TransportReply | Exception | Callable[[], Any]


class Actor:
    """A transport that plays a list of deeds, the last one for ever: answers, errors, or functions that may wait."""

    def __init__(self, *deeds: Deed) -> None:
        self.deeds = deeds or (TransportReply("yes", prompt_tokens=10, completion_tokens=5),)
        self.sent: list[tuple[ModelRequest, Mapping[str, Any]]] = []
        self.running = 0
        self.most = 0

    async def send(self, request: ModelRequest, parameters: Mapping[str, Any]) -> TransportReply:
        deed = self.deeds[min(len(self.sent), len(self.deeds) - 1)]
        self.sent.append((request, parameters))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if callable(deed):
                deed = await deed()
            if isinstance(deed, Exception):
                raise type(deed)(*deed.args, *vars(deed).values())
            assert isinstance(deed, TransportReply)
            return deed
        finally:
            self.running -= 1

    async def close(self) -> None:
        return


class Ensemble:
    """Models over actors, with what they wrote down and told."""

    def __init__(
        self,
        *seats: tuple[ModelConfig, Actor],
        rules: EnsembleSettings | None = None,
        log: CallLog | None = None,
        older: Sequence[EarlierReplies] = (),
        price: Price | None = None,
        secrets: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        self.log = MemoryLog() if log is None else log
        self.told: list[str] = []
        self.time = Time()
        clock = clock or self.time
        self.models = ModelEnsemble(
            [ConfiguredModel.of(config, actor, price=price, clock=clock) for config, actor in seats],
            log=self.log,
            rules=rules,
            older=older,
            redactor=Redactor(secrets),
            notify=self.told.append,
            clock=clock,
        )


def model(name: str = "one", **settings: Any) -> ModelConfig:
    return ModelConfig(name=name, **{"model": "openai/stub", **settings})


def request(step: int = 1, *, ordinal: int = 0, role: str = "code", text: str = "make it fast") -> ModelRequest:
    return ModelRequest(Origin(step, "north", "mutate"), ordinal, role, (Message("user", text),), temperature=0.5)
