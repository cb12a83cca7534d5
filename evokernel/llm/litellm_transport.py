"""Attempts through litellm: the only module that imports it, and maps its failures to four errors."""

import asyncio
import logging
import math
import os
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn

from evokernel.config.models import ModelConfig
from evokernel.errors import ConfigError, ModelError, install
from evokernel.llm.transport import HopelessModel, HopelessRequest, Price, RateLimited, TemporaryFailure, TransportReply
from evokernel.records.llm import CallStatus, ModelRequest

_FINISHED: Mapping[str, CallStatus] = {
    "length": CallStatus.TRUNCATED,
    "content_filter": CallStatus.REFUSED,
    "refusal": CallStatus.REFUSED,
}
_PROMPT_PRICE = "input_cost_per_token"
_REPLY_PRICES = ("output_cost_per_token", "output_cost_per_reasoning_token")


def load_litellm() -> Any:
    """Import litellm without its output, retries and callbacks, and return it. Takes 2 to 3 s the first time.

    Raises `ConfigError` if it is not installed.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # prices from the package, not from the network
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # else it reads keys from any .env file it finds
    try:
        import litellm
    except ImportError as error:
        raise ConfigError(
            f"models are asked through litellm, which cannot be imported ({error}): {install('llm')}, or "
            "give models a `replay`"
        ) from None
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.num_retries = 0
    for hooks in ("callbacks", "success_callback", "failure_callback", "input_callback", "service_callback"):
        setattr(litellm, hooks, [])
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)  # it prints what we report ourselves
    logging.getLogger("httpx").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings", category=UserWarning)
    # it makes a coroutine in a thread, and drops it where the call is cancelled meanwhile
    warnings.filterwarnings("ignore", message=".*completion' was never awaited", category=RuntimeWarning)
    _send_once()
    return litellm


def _send_once() -> None:
    """Keep litellm from sending a request again after its connection broke, which would be paid for twice.

    Its client does so for every provider but openai, without a setting against it. The method that is replaced serves
    nothing else.
    """
    from litellm.llms.custom_httpx import http_handler

    handler: Any = http_handler.AsyncHTTPHandler

    async def no_retry(*_: Any, **__: Any) -> NoReturn:
        raise sys.exc_info()[1] or ConnectionError("the connection broke")

    handler.single_connection_post_request = no_retry


def listed_price(model: str) -> Price | None:
    """Return the highest price that litellm's list has for a model (some cost more for long prompts), or None.

    Raises `ConfigError` if litellm is missing.
    """
    litellm = load_litellm()
    try:
        listed: Mapping[str, Any] = litellm.get_model_info(model)
    except Exception:  # noqa: BLE001 -- the edge to litellm, which raises a plain Exception for an unknown model
        return None
    prompt = _highest(listed, (_PROMPT_PRICE,))
    reply = _highest(listed, _REPLY_PRICES)
    return None if prompt is None or reply is None else Price(prompt, reply)


def price_of(model: ModelConfig) -> Price | None:
    """Return the price of a model: the config's, or else the listed one; None where neither is known."""
    if model.price is None:
        return listed_price(model.model)
    return Price(model.price.prompt_usd_per_mtok / 1e6, model.price.completion_usd_per_mtok / 1e6)


def missing_keys(model: str) -> list[str]:
    """Return the environment variables that a model's provider reads and that are not set."""
    return [str(name) for name in load_litellm().validate_environment(model).get("missing_keys", ())]


class LitellmTransport:
    """One model of any provider that litellm knows.

    Raises `ConfigError` if litellm is missing, the provider is unknown, or the key's variable is not set.
    """

    def __init__(self, config: ModelConfig) -> None:
        self._litellm = load_litellm()
        self._config = config
        self._provider = _provider(self._litellm, config)
        self._key = _key(self._litellm, config)
        self._without_temperature = False
        self._closed = False

    async def send(self, request: ModelRequest, parameters: Mapping[str, Any]) -> TransportReply:
        """Make one attempt within the model's time-out. Raises as `Transport` says.

        A model without a temperature is asked without one. litellm's own way to drop unknown parameters is not used: it
        sends a request again that was refused with 422.
        """
        failure: ModelError
        with_temperature = "temperature" in parameters and not self._without_temperature
        try:
            async with asyncio.timeout(self._config.timeout_s):
                try:
                    return _answer(await self._ask(request, parameters))
                except self._litellm.UnsupportedParamsError:
                    if not with_temperature:
                        raise
                    self._without_temperature = True  # nothing was sent yet: litellm knows the model
                    return _answer(await self._ask(request, parameters))
        except Exception as error:  # noqa: BLE001 -- the edge to litellm: it passes on any error of its parts
            failure = _failure(error, self._config.timeout_s)
        raise failure  # outside the handler, so that no traceback holds litellm's error

    async def _ask(self, request: ModelRequest, parameters: Mapping[str, Any]) -> Any:
        left_out = "temperature" if self._without_temperature else None
        sent = {name: value for name, value in parameters.items() if name != left_out}
        return await self._litellm.acompletion(
            model=self._config.model,
            messages=[{"role": message.role, "content": message.text} for message in request.messages],
            api_base=self._config.api_base,
            api_key=self._key,
            timeout=self._config.timeout_s,
            num_retries=0,
            max_retries=0,
            **sent,
        )

    async def close(self) -> None:
        """Close the connections of every model: litellm keeps them in one place."""
        if not self._closed:
            self._closed = True
            await self._litellm.close_litellm_async_clients()


def _highest(listed: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    prices = [
        float(price)
        for name, price in listed.items()
        if name.startswith(names) and isinstance(price, int | float) and math.isfinite(price) and price >= 0
    ]
    return max(prices) if listed.get(names[0]) is not None and prices else None


def _provider(litellm: Any, config: ModelConfig) -> str:
    failure: Exception
    try:
        return str(litellm.get_llm_provider(config.model, api_base=config.api_base)[1])
    except Exception as error:  # noqa: BLE001 -- the edge to litellm
        failure = error
    raise ConfigError(
        f"model {config.name!r}: litellm knows no provider for {config.model!r}; write provider/model, for example "
        f"openai/gpt-5 or hosted_vllm/qwen ({_said(failure)})"
    )


def _key(litellm: Any, config: ModelConfig) -> str | None:
    """Return the key to send; None lets litellm take the provider's usual variable."""
    if config.key:
        value = os.environ.get(config.key, "").strip()
        if not value:
            raise ConfigError(
                f"model {config.name!r}: its key is read from the environment variable {config.key}, which is not set"
            )
        return value
    if config.api_base is None:
        return None
    found = litellm.validate_environment(config.model)
    return None if found.get("keys_in_environment") else "none"  # an endpoint of one's own often wants none


def _answer(response: Any) -> TransportReply:
    """Return the reply in a response; any other response is a failure that was paid for."""
    choices = getattr(response, "choices", None)
    if not isinstance(choices, list) or not choices:
        raise TemporaryFailure("the reply has no choices", billed=True)
    message = getattr(choices[0], "message", None)
    content, refusal = getattr(message, "content", None), _refusal(message)
    status = _FINISHED.get(str(getattr(choices[0], "finish_reason", "stop")), CallStatus.OK)
    if refusal and not content:
        content, status = refusal, CallStatus.REFUSED
    usage = getattr(response, "usage", None)
    prompt, completion = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
    if not prompt and not completion:
        prompt = completion = None  # litellm puts zeros where the provider sent nothing
    cost = (getattr(response, "_hidden_params", None) or {}).get("response_cost")
    text = content if isinstance(content, str) else ""
    return TransportReply(text, status, prompt, completion, cost if prompt else None)


def _refusal(message: Any) -> str:
    fields = getattr(message, "provider_specific_fields", None)
    refusal = getattr(message, "refusal", None) or (fields.get("refusal") if isinstance(fields, Mapping) else None)
    return refusal if isinstance(refusal, str) else ""


def _failure(error: Exception, timeout_s: float) -> ModelError:
    if isinstance(error, ModelError):
        return error
    text, headers = _said(error), getattr(error, "litellm_response_headers", None)
    if isinstance(error, TimeoutError):
        return TemporaryFailure(f"no reply within {timeout_s:g} s", billed=True)
    status = getattr(error, "status_code", None)
    answered = headers is not None
    retry_after_s = _retry_after_s(headers or {})
    if status == 429 and any(word in _whole(error) for word in ("insufficient_quota", "billing_hard_limit")):
        return HopelessModel(text)
    if status == 429 or (status in (503, 529) and retry_after_s is not None):
        return RateLimited(text, retry_after_s)
    if status in (401, 402, 403, 404):
        return HopelessModel(text)
    if status in (400, 413, 415, 422) and (answered or status == 400):
        return HopelessRequest(text)
    unreachable = not answered and _never_sent(error)
    return TemporaryFailure(text, billed=not answered and not unreachable, unreachable=unreachable)


def _whole(error: Exception) -> str:
    return " ".join(f"{each} {getattr(each, 'body', '')}" for each in _chain(error))


def _never_sent(error: Exception) -> bool:
    """Say whether no connection was made, so that nothing can have been charged."""
    return any(
        isinstance(each, ConnectionRefusedError | socket.gaierror) or type(each).__name__ == "ConnectTimeout"
        for each in _chain(error)
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    for _ in range(20):  # chains of exceptions may be circular
        if current is None:
            return
        yield current
        current = current.__cause__ or current.__context__


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _retry_after_s(headers: Any) -> float | None:
    """Return the wait that a provider asks for, in s, or None. It comes as seconds, milliseconds or a date."""
    try:
        if (milliseconds := headers.get("retry-after-ms")) is not None:
            return _wait(float(milliseconds) / 1000)
        if (text := headers.get("retry-after")) is None:
            return None
        try:
            return _wait(float(text))
        except ValueError:
            dated, sent = parsedate_to_datetime(text), headers.get("date")
            return _wait((dated - parsedate_to_datetime(sent)).total_seconds()) if sent else None
    except (ValueError, TypeError, AttributeError):
        return None


def _wait(seconds: float) -> float | None:
    return max(0.0, seconds) if math.isfinite(seconds) else None
