"""Provenance of a proposal: its model, cost, insights and hints."""

from dataclasses import dataclass

from archive.hints import Hint, hints_in_force
from archive.store import Store
from archive.views.effort import StepEffort, step_efforts
from evokernel.records.candidate import Proposal
from evokernel.records.llm import Insight
from evokernel.report.effort import prices_known


@dataclass(frozen=True, slots=True)
class Provenance:
    """Inputs and cost of a proposal."""

    model: str = ""
    """Empty for a proposal by rule."""
    calls: int = 0
    """Failed attempts count too."""
    tokens: int = 0
    """Prompt and completion tokens."""
    cost_usd: float = 0.0
    priced: bool = True
    """False where a cost of 0 is unknown."""
    insights: tuple[tuple[int, Insight], ...] = ()
    """Insights in the prompt, with their seq."""
    hints: tuple[Hint, ...] = ()
    """Hints in force when it was asked for."""


def making(store: Store, proposal: Proposal) -> Provenance:
    """Return the provenance of a proposal; the cost is that of its calls, else of its own usage."""
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
        priced=prices_known(store.meta("config") or ""),
        insights=tuple((seq, insight) for seq, insight in known if insight is not None),
        hints=hints_in_force(store, until=proposal.asked_seq, island=proposal.island) if model else (),
    )
