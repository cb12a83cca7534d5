"""Prompts that an operator which asks a model would have written where a rule made the kernel."""

from collections.abc import Collection

from archive.store import Store
from evokernel.engine.context import context_for, selection_again
from evokernel.offline.prompts import NextPrompts, fresh_run
from evokernel.protocols import asks_model
from evokernel.records.candidate import Proposal
from evokernel.records.llm import Message, Origin

STANDS_FOR = {1: "universal", 2: "crossover"}
"""Names of the operators that stand for a rule, by its number of parents.

`universal` stands for the tuner too: the prompt of `mutate` forbids a change of numbers alone.
"""


def rule_prompts(store: Store, proposals: Collection[Proposal]) -> dict[int, tuple[Message, ...]]:
    """Return a prompt for each proposal by step, as of the last fact known when it was asked for. Imports torch.

    Proposals whose parents or island the run did not have then are left out. No model is asked.

    Raises:
        StoreError: no session of a run has begun in the store.
        ConfigError, TaskError, LanguageError: a name in the config cannot be used.
    """
    if not proposals:
        return {}
    run, made = fresh_run(store, also=STANDS_FOR.values()), dict[int, tuple[Message, ...]]()
    waiting = sorted(proposals, key=lambda each: (each.asked_seq, each.step))[::-1]
    for fact in store.facts():
        while waiting and waiting[-1].asked_seq < fact.seq:
            made |= _prompt(run, waiting.pop())
        if not waiting:
            break
        run.fold.replay([fact])
    for proposal in reversed(waiting):
        made |= _prompt(run, proposal)
    return made


def _prompt(run: NextPrompts, proposal: Proposal) -> dict[int, tuple[Message, ...]]:
    operator = run.fold.archipelago.operators.get(STANDS_FOR.get(len(proposal.parents), ""))
    if operator is None or not asks_model(operator):
        return {}
    origin = Origin(proposal.step, proposal.island, operator.name, proposal.parents, ())
    selection = selection_again(origin, run.fold, recall=lambda name: None)
    if selection is None or len(selection.parents) != len(proposal.parents):
        return {}
    return {proposal.step: operator.prompt(context_for(selection, run.fold, setting=run.setting)).messages}
