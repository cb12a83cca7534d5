"""The part of a config that says what the populations of a search are like."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, model_validator

from evokernel.config.part import Part


class SelectorConfig(Part):
    """How an island picks parents."""

    kind: str = "rank"
    """`rank`, `tournament`, `explore`, or `package.module:Class`."""
    pressure: float = Field(default=0.35, gt=0, le=1)
    """How much fitness weighs, as each kind says: with rank 1 picks always the best, near 0 all alike; with tournament
    it is the share of the elites that compete. A class of your own is called with it."""


class NicheConfig(Part):
    """The grid of an island's archive: bin edges by descriptor."""

    axes: Mapping[str, tuple[float, ...]] = Field(default_factory=dict)
    """For each measured descriptor, the ascending lower edges of the second and later bins; empty for those of the
    device class, listed at the end of docs/config.md.
    """

    @model_validator(mode="after")
    def _ascending(self) -> "NicheConfig":
        for name, edges in self.axes.items():
            if list(edges) != sorted(set(edges)):
                raise ValueError(f"niches.axes.{name}: edges must ascend, got {list(edges)}")
        return self


class IslandConfig(Part):
    """One population and its own settings."""

    name: str
    """What it is called, in the store and wherever its kernels are shown; no two may share one."""
    operators: Mapping[str, Annotated[float, Field(gt=0)]]
    """Shares by operator name; they need not sum to 1. Names of rules, of built-in prompts, or of your own prompts."""
    choose: str = "shares"
    """How an operator is chosen: `shares`, by its share; `ucb`, by what it has gained for its cost so far; or
    `package.module:Class`."""
    models: tuple[str, ...] = ()
    """The models that operators of this island may ask; none for all."""
    selector: SelectorConfig = SelectorConfig()
    niches: NicheConfig = NicheConfig()
