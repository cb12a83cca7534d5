"""Context of a step: everything that its operator may see."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evokernel.config.run import RunConfig
from evokernel.engine.state_fold import StateFold
from evokernel.languages.constrained import in_words
from evokernel.records.candidate import Candidate
from evokernel.records.fitness import Elite
from evokernel.records.focus import Focus, focus_in_words
from evokernel.records.llm import Origin
from evokernel.records.step import Context, Selection
from evokernel.task import Task
from islands.assignment import inspirations
from islands.hypothesis import hypotheses


@dataclass(frozen=True, slots=True)
class SearchSetting:
    """The setting of every step of a run."""

    task: Task
    """The task, on the device class of the run."""
    config: RunConfig
    """The settings of the run."""
    device: str
    """Name of the device."""
    environment: str
    """Compiler, version and flags, in words."""
    device_sheet: Mapping[str, float]
    """Measured peak rates in GFLOP/s and bandwidths in GB/s, by name."""
    guide: str
    """The language's guide for authors of kernels for this task."""
    foreign: tuple[Candidate, ...] = ()
    """Correct kernels for the task in other languages."""


def context_for(selection: Selection, fold: StateFold, *, setting: SearchSetting) -> Context:
    """Return the context of a step that works on a selection."""
    history, config, parents = fold.history, setting.config, selection.parents
    shown = tuple(elite.candidate.id for elite in parents)
    asks = fold.archipelago.asks_model(selection.operator)
    ideas = inspirations(fold.state.archipelago.elites(), parents, history=history) if asks else ()
    broken, focus = history.failures.get(selection.broken), tuple(map(Focus, config.focus))
    verdicts = {name: history.verdicts[name].evaluation for name in shown if name in history.verdicts}
    insights = tuple(history.insights.all[seq] for seq in selection.insights if seq in history.insights.all)
    others = [*(e.candidate.id for e in ideas), *(known.insight.candidate for known in insights)]
    verdicts |= {name: history.verdicts[name].evaluation for name in others if name in history.verdicts}
    return Context(
        step=selection.step,
        seed=config.seed,
        island=selection.island,
        task=setting.task,
        language=config.language,
        threads=config.threads,
        parents=parents,
        siblings=tuple(history.siblings.get(parents[0].skeleton, ())) if parents else (),
        in_hand=history.in_hand(parents[0].skeleton) if parents else (),
        known=history.proposed,
        tried=frozenset(history.tried.get(shown[0], ())) if parents else frozenset(),
        credit=history.credit,
        idle=history.idle,
        device_sheet=setting.device_sheet,
        selection=selection,
        device=setting.device,
        environment=setting.environment,
        guide=setting.guide,
        verdicts=verdicts | ({broken.candidate.id: broken.evaluation} if broken else {}),
        inspirations=ideas,
        broken=broken,
        failures=history.failures.warnings(shown) if asks else (),
        fixes=history.failures.fixes_for(broken) if asks and broken else (),
        attempts=tuple(history.attempts) if asks else (),
        best=history.best,
        insights=insights,
        hypotheses=hypotheses(history.insights.all.values(), selection.island) if config.hypotheses and asks else None,
        checks=tuple(history.checks) if asks else (),
        hints=history.hints_for(selection.island),
        agent_hints=history.agent_hints_for(selection.island),
        constraints=(*in_words(config.constraints), *(focus_in_words(focus) if parents and not broken else ())),
        focus=focus,
        foreign=(*(candidate for candidate, _ in reversed(history.foreign)), *setting.foreign),
        foreign_words={candidate.id: words for candidate, words in history.foreign},
    )


def selection_again(origin: Origin, fold: StateFold, *, recall: Callable[[str], Elite | None]) -> Selection | None:
    """Return the selection of a step that has a paid reply; None where its kernels or operator are gone.

    `recall` finds a kernel that the state no longer holds.
    """
    history = fold.history
    if not fold.archipelago.asks_model(origin.operator) or origin.island not in fold.archipelago.islands:
        return None
    known = [name for name in origin.parents if name in history.proposed]
    found = dict.fromkeys(origin.parents) | {name: history.elites.get(name) or recall(name) for name in known}
    elites = [each for each in found.values() if each is not None and each.program_hash not in history.barred]
    others = [name for name, each in found.items() if each not in elites]
    if len(others) > 1 or any(history.failures.get(name) is None for name in others):
        return None
    return Selection(
        origin.step, origin.island, origin.operator, tuple(elites), "".join(others), insights=origin.insights
    )
