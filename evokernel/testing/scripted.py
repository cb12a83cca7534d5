"""Model that answers by a function, for tests, examples and known answers."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from evokernel.errors import ModelsUnavailable
from evokernel.llm.transport import prompt_bound_tokens
from evokernel.protocols import CallLog
from evokernel.records.candidate import Usage
from evokernel.records.llm import CallStatus, ModelCall, ModelCallResult, ModelRequest, Reply
from evokernel.testing.call_log import MemoryLog

Script = Callable[[ModelRequest], "str | Reply | Awaitable[str | Reply]"]


class ScriptedTransport:
    """A language model that answers by a function, plain or async. Implements `LanguageModel`.

    Calls are recorded as those of any model, and an earlier reply for a step is given again. An error of the function
    is raised, and the call counts as failed.
    """

    def __init__(self, answer: Script, *, log: CallLog | None = None, name: str = "scripted") -> None:
        self.log: CallLog = MemoryLog() if log is None else log
        self.requests: list[ModelRequest] = []
        self._answer = answer
        self._name = name
        self._stopped = False

    async def complete(self, request: ModelRequest) -> Reply:
        """Return the reply of the function, or its earlier reply for this step.

        Raises `ModelsUnavailable` after `stop_new_calls`.
        """
        stored = self.log.of_step(request.origin.step, request.ordinal)
        if stored is not None and stored.result is not None and stored.call.origin == request.origin:
            return Reply(stored.result.text, stored.result.usage, stored.result.status, reused=True)
        if self._stopped:
            raise ModelsUnavailable("the search is ending: no call is begun any more")
        self.requests.append(request)
        number = self.log.begin(self._call(request))
        try:
            said = self._answer(request)
            reply = said if isinstance(said, str | Reply) else await said
        except BaseException as error:
            given_up = isinstance(error, asyncio.CancelledError)
            text = "given up" if given_up else f"{type(error).__name__}: {error}"
            self.log.end(number, ModelCallResult(CallStatus.FAILED, text, Usage(self._name)))
            raise
        if isinstance(reply, str):
            status = CallStatus.OK if reply.strip() else CallStatus.EMPTY
            reply = Reply(reply, Usage(self._name), status)
        self.log.end(number, ModelCallResult(reply.status, reply.text, reply.usage))
        return reply

    def stop_new_calls(self) -> None:
        """Begin no further call."""
        self._stopped = True

    async def close(self) -> None:
        """Begin no further call; there is nothing to close."""
        self._stopped = True

    def _call(self, request: ModelRequest) -> ModelCall:
        settings = {"temperature": request.temperature, "max_tokens": request.max_tokens}
        call = ModelCall(
            origin=request.origin,
            ordinal=request.ordinal,
            role=request.role,
            model=self._name,
            messages=request.messages,
            parameters={name: value for name, value in settings.items() if value is not None},
            sample=0,
            reserved_tokens=prompt_bound_tokens(request.messages) + (request.max_tokens or 0),
            reserved_usd=0.0,
        )
        return replace(call, sample=self.log.samples(call.key))
