"""The part of a config on populations."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from evokernel.config.part import Part
from evokernel.config.places import Location

BY_FITNESS = ("rank", "tournament", "explore")


class SelectorConfig(Part):
    """The choice of parents on an island."""

    kind: str = "rank"
    """By fitness: `rank`, `tournament`, `explore`. By the speed-up on each workload, with the champions among the
    elites: `lexicase`. Or `package.module:Class`."""
    pressure: float = Field(default=0.35, gt=0, le=1)
    """The weight of fitness. With `rank`, 1 picks always the best, and near 0 all have the same chance. With
    `tournament` it is the share of the elites that compete. `lexicase` has no use for it. A class of your own gets it
    as its argument."""
    objective: str = ""
    """A descriptor of which less is better, such as `registers` or `code_bytes`, that counts beside the workloads; for
    `lexicase`, and a class of your own, which gets it as its argument `objective`. Empty for none."""

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        """Yield an objective where the selector has no use for one."""
        kind, objective = raw.get("kind", "rank"), raw.get("objective")
        if objective and kind in BY_FITNESS:
            yield (
                ("objective",),
                f"objective {objective!r} needs a selector that looks at more than the fitness, and {kind} "
                "does not: give kind: lexicase, or leave the objective out",
            )


class NicheConfig(Part):
    """The grid of an island's archive: bin edges by descriptor."""

    axes: Mapping[str, tuple[float, ...]] = Field(default_factory=dict)
    """For each measured descriptor, the ascending lower edges of the second and later bins; empty for the axes of the
    device class, which the end of docs/config.md lists.
    """

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        """Yield axes whose edges do not ascend."""
        axes = raw.get("axes")
        for name, edges in axes.items() if isinstance(axes, Mapping) else ():
            numbers = isinstance(edges, list | tuple) and all(isinstance(edge, int | float) for edge in edges)
            if numbers and list(edges) != sorted(set(edges)):
                yield ("axes", name), f"edges must ascend, got {list(edges)}"


class IslandConfig(Part):
    """One population and its own settings."""

    name: str
    """Its name, in the store and beside its kernels; no two islands may share one."""
    operators: Mapping[str, Annotated[float, Field(gt=0)]]
    """Shares by the name of a rule, of a built-in prompt, of a prompt of your own, or by `package.module:Class` for an
    operator of your own (docs/plugins.md); they need not sum to 1."""
    choose: str = "shares"
    """The choice of an operator: `shares`, by its share; `ucb`, by its gain for its cost so far; `pairs`, of operator
    and model together, by their gain for dollars and device time; or `package.module:Class`."""
    models: tuple[str, ...] = ()
    """The models that operators of this island may ask; none for all."""
    selector: SelectorConfig = SelectorConfig()
    niches: NicheConfig = NicheConfig()

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        """Yield an island without operators."""
        if raw.get("operators") == {}:
            yield ("operators",), "an island needs operators, for example {rewrite: 0.5, tune: 0.5}"
