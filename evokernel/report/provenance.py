"""How a proposal was made: by which model, at what cost, with which insights and under which hints."""

from dataclasses import dataclass

from archive.calls import COST_USD, TOKENS
from archive.store import Store
from evokernel.records.candidate import Proposal
from evokernel.records.llm import Insight
from evokernel.report.effort import STEP_MODELS
from evokernel.report.hints import Hint, hints_in_force


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
    model, calls, tokens, cost_usd = usage.model, 0, usage.prompt_tokens + usage.completion_tokens, usage.cost_usd
    row = store.database.row(
        f"SELECT count(*) AS calls, sum({TOKENS}) AS tokens, sum({COST_USD}) AS cost FROM calls WHERE step = ?",
        (proposal.step,),
    )
    if row is not None and row["calls"]:
        calls, tokens, cost_usd = row["calls"], row["tokens"], row["cost"]
        named = store.database.row(f"SELECT model FROM ({STEP_MODELS}) WHERE step = ?", (proposal.step,))
        model = named["model"] if named else model
    known = ((seq, store.insight(seq)) for seq in proposal.insights)
    return Provenance(
        model=model,
        calls=calls,
        tokens=tokens,
        cost_usd=cost_usd,
        insights=tuple((seq, insight) for seq, insight in known if insight is not None),
        hints=hints_in_force(store, until=proposal.asked_seq, island=proposal.island) if model else (),
    )
