"""The base of every part of a config."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A part of a config: unknown keys are errors, and what was read does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
