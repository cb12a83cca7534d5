"""The part of a config on models: which ones, their settings and their prices; commands that answer as models do."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from evokernel.config.part import Part, is_given, texts_in
from evokernel.config.places import Location

ROLES = ("code", "think")
"""`code` writes kernels; `think` plans, diagnoses and reflects."""
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?")
_OF_AGENTS = ("agent_hosts", "agent_variables", "agent_reads", "agent_folder", "agent_evaluations", "agent_dollars")
_OF_PROVIDERS = ("api_base", "temperature", "price", "parameters")


class PriceConfig(Part):
    """The price of a model."""

    prompt_usd_per_mtok: float = Field(ge=0)
    """Dollars for a million tokens of the prompt."""
    completion_usd_per_mtok: float = Field(ge=0)
    """Dollars for a million tokens of the reply, hidden reasoning included."""


class ModelConfig(Part):
    """One model, or a recording of one."""

    name: str
    """Its name here and in the store."""
    model: str = ""
    """The provider and the model as litellm spells them, for example openai/gpt-5 or hosted_vllm/qwen; this, `replay`
    or `agent` is needed."""
    replay: str = ""
    """A file of recorded replies that answers in place of a model, relative to the config."""
    roles: tuple[str, ...] = ROLES
    """The roles that it answers: code, think, or roles of your own operators."""
    weight: float = Field(default=1.0, gt=0)
    """Its share of the requests, relative to others with the role."""
    api_base: str | None = None
    """The address of an endpoint of your own, for example http://localhost:8000/v1."""
    key: str = ""
    """The environment variable that holds its key; empty for the provider's usual one."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Replaces that of the operators."""
    max_tokens: int = Field(default=8192, gt=0)
    """The longest reply, hidden reasoning included, in tokens."""
    timeout_s: float = Field(default=300, gt=0, le=86_400)
    """The longest one attempt may take, in s."""
    retries: int = Field(default=4, ge=0)
    """Further attempts after a temporary failure."""
    concurrency: int = Field(default=8, ge=1)
    """The most calls at once."""
    price: PriceConfig | None = None
    """Replaces litellm's price; a budget in dollars needs it where litellm's list lacks the model."""
    parameters: Mapping[str, Any] = Field(default_factory=dict)
    """Sent unchanged with every call, for example reasoning_effort."""
    agent: str = ""
    """A command that answers in place of a model, in a sandbox, for example "coder --print"; no shell reads it."""
    agent_hosts: tuple[str, ...] = ()
    """The hosts that the command may reach, by HTTPS alone, as HOST or HOST:PORT; none for no network."""
    agent_variables: tuple[str, ...] = ()
    """The environment variables that the command sees, beside `key`."""
    agent_reads: tuple[str, ...] = ()
    """Files and folders that the command may read beside the system's, for example where it is installed."""
    agent_folder: str = ""
    """A folder with the command's settings, of at most 64 MiB; each call gets a copy of it in its home."""
    agent_evaluations: int = Field(default=4, ge=0)
    """The most kernels that one call may have judged before it answers."""
    agent_dollars: float | None = Field(default=None, ge=0)
    """The most that one call may cost; it is reserved, and counts where the command reports no cost."""

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        """Yield a model that has not one source, settings of another kind of source, and hosts that are none."""
        whose = f"model {raw.get('name')!r}"
        if sum(bool(raw.get(name)) for name in ("model", "replay", "agent")) != 1:
            yield (), f"{whose} needs one of `model`, `replay` and `agent`"
        for name in _OF_PROVIDERS if raw.get("agent") else _OF_AGENTS:
            if is_given(cls, raw, name):
                kind = "a model of a provider" if raw.get("agent") else "an `agent`"
                yield (name,), f"{whose}: {name} is a setting of {kind}; remove it"
        for host in texts_in(raw.get("agent_hosts")):
            if not _HOST.fullmatch(host):
                yield ("agent_hosts",), f"{whose}: agent_hosts: expected HOST or HOST:PORT, got {host!r}"
