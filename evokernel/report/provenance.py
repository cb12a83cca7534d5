"""How a proposal was made: by which model, at what cost, with which insights and under which hints."""

from dataclasses import dataclass

from archive.effort import StepEffort, step_efforts
from archive.hints import Hint, hints_in_force
from archive.store import Store
from evokernel.records.candidate import Proposal
from evokernel.records.llm import Insight


@dataclass(frozen=True, slots=True)
class Provenance:
    """What went into a proposal. `model` is empty for one made by rule, `calls` counts failed attempts too.

    `insights` are what it was made with, by seq; `hints` were in force when it was asked for.
    """

    model: str = ""
    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    insights: tuple[tuple[int, Insight], ...] = ()
    hints: tuple[Hint, ...] = ()


def making(store: Store, proposal: Proposal) -> Provenance:
    """Return how a proposal was made; its calls say what it cost, or where there are none it does itself."""
    usage = proposal.usage
    own = StepEffort(usage.model, 0, usage.prompt_tokens + usage.completion_tokens, usage.cost_usd)
    effort = step_efforts(store, proposal.step).get(proposal.step, own)
    model = effort.model or usage.model
    known = ((seq, store.insight(seq)) for seq in proposal.insights)
    return Provenance(
        model=model,
        calls=effort.calls,
        tokens=effort.tokens,
        cost_usd=effort.cost_usd,
        insights=tuple((seq, insight) for seq, insight in known if insight is not None),
        hints=hints_in_force(store, until=proposal.asked_seq, island=proposal.island) if model else (),
    )
