"""Redaction of providers' keys from every text before it is kept or shown."""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from evokernel.records.llm import Message

MARK = "[key]"
SHORTEST_KEY = 8
"""Shorter values are not keys: to replace them would spoil ordinary words."""
_ENDINGS = ("_API_KEY", "_TOKEN", "_SECRET_ACCESS_KEY")
_LOGGERS = (
    "LiteLLM",
    "LiteLLM Router",
    "LiteLLM Proxy",
    "openai",
    "openai._base_client",
    "httpx",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
)


class Redactor:
    """Replaces known secrets by a mark."""

    def __init__(self, secrets: Iterable[str]) -> None:
        usable = {secret.strip() for secret in secrets}
        # the longest first: one key may begin with another
        self._secrets = sorted((each for each in usable if len(each) >= SHORTEST_KEY), key=len, reverse=True)

    @classmethod
    def of_environment(cls, names: Iterable[str] = (), *, environment: Mapping[str, str] | None = None) -> "Redactor":
        """Return one for the values of the named variables, and of all variables with a name like a key's."""
        variables = os.environ if environment is None else environment
        called = {name for name in variables if name.upper().endswith(_ENDINGS)}
        return cls(variables[name] for name in called | {name for name in names if name in variables})

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, MARK)
        return text

    def value(self, value: Any) -> Any:
        """Return a JSON value without secrets, in names and in values."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self.value(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        return value

    def messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages without secrets."""
        return tuple(Message(message.role, self.text(message.text)) for message in messages)


class RedactingFilter(logging.Filter):
    """Takes secrets out of log records, their arguments and their tracebacks."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record in place; keep it."""
        record.msg, record.args = self._redactor.text(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self._redactor.text(record.exc_text)
        return True


def guard_logs(redactor: Redactor) -> Callable[[], None]:
    """Keep secrets out of the logs of root handlers and of libraries for providers; return the function to undo it."""
    guard = RedactingFilter(redactor)
    guarded: list[logging.Filterer] = [*logging.getLogger().handlers, *map(logging.getLogger, _LOGGERS)]
    for each in guarded:
        each.addFilter(guard)

    def undo() -> None:
        for each in guarded:
            each.removeFilter(guard)

    return undo
