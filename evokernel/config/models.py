"""The part of a config on models: which ones, their settings and their prices."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from evokernel.config.part import Part

ROLES = ("code", "think")
"""`code` writes kernels; `think` plans, diagnoses and reflects."""


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
    """The provider and the model as litellm spells them, for example openai/gpt-5 or hosted_vllm/qwen; this or `replay`
    is needed."""
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
    timeout_s: float = Field(default=300, gt=0)
    """The longest one attempt may take, in s."""
    retries: int = Field(default=4, ge=0)
    """Further attempts after a temporary failure."""
    concurrency: int = Field(default=8, ge=1)
    """The most calls at once."""
    price: PriceConfig | None = None
    """Replaces litellm's price; a budget in dollars needs it where litellm's list lacks the model."""
    parameters: Mapping[str, Any] = Field(default_factory=dict)
    """Sent unchanged with every call, for example reasoning_effort."""

    @model_validator(mode="after")
    def _one_source(self) -> "ModelConfig":
        if bool(self.model) == bool(self.replay):
            raise ValueError(f"model {self.name!r} needs one of `model` and `replay`")
        return self
