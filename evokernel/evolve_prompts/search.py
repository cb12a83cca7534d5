"""Evolution of one prompt: rounds of reflection on a Pareto front of texts, then a decision on held-out tasks.

Every choice follows from stored scores and a seed, so a killed evolution goes on where it was, and a finished one
asks nothing.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from archive.store import Store
from evokernel.config.run import BudgetConfig, RunConfig
from evokernel.errors import BudgetSpent, ConfigError
from evokernel.evolve_prompts.folder import read_template, refuse_other_settings, refuse_statements, write_prompts
from evokernel.evolve_prompts.records import ORIGINAL, PromptTask, PromptText, PromptTrial
from evokernel.evolve_prompts.reflection import read_edit, reflection_request
from evokernel.evolve_prompts.store import PromptStore
from evokernel.evolve_prompts.trial import MakeSearch, ask, open_search, score, traces, trial_config
from evokernel.llm.assemble import make_models
from evokernel.records.llm import Spending
from evokernel.rng import stream
from operators.llm.replies import UnreadableReply
from operators.llm.templates import TemplateSettings

Scores = Mapping[int, Mapping[str, float]]
"""Gains by the number of a text and the name of a task."""


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """Settings of an evolution. Raises `ConfigError` where it could decide nothing."""

    original: TemplateSettings
    """Settings of the operator whose prompt is evolved."""
    text: str
    """Its file at the beginning."""
    parts: Mapping[str, str]
    """Files of the user's own that it may include, by name."""
    tasks: tuple[PromptTask, ...]
    """Tasks to learn from, and held-out ones."""
    configs: Mapping[str, RunConfig]
    """Config of the run of each task, by its name, with the models to ask."""
    asks: int = 4
    """Asks of a trial."""
    rounds: int = 8
    """The most edits."""
    seed: int = 0
    """Seed of the choices."""
    calls: int | None = None
    """The most calls of models over all; None for no limit."""
    dollars: float | None = None
    """The most that they may cost; None for no limit."""

    @property
    def learning(self) -> tuple[PromptTask, ...]:
        """The tasks that texts learn from."""
        return tuple(task for task in self.tasks if not task.held_out)

    @property
    def held_out(self) -> tuple[PromptTask, ...]:
        """The tasks that decide."""
        return tuple(task for task in self.tasks if task.held_out)

    @property
    def least_calls(self) -> int:
        """Calls of the smallest evolution: the original on all tasks, one edit on all tasks, and the edit itself."""
        return 2 * self.asks * len(self.tasks) + 1

    def __post_init__(self) -> None:
        name, reply = self.original.name, self.original.reply
        if not reply.is_kernel:
            raise ConfigError(
                f"{name} returns a {reply}, which nothing measures; evolve the prompt of an operator that returns "
                "kernels, such as mutate or refine"
            )
        if self.calls is not None and self.calls < self.least_calls:
            raise ConfigError(
                f"{self.calls} calls are too few: {self.asks} asks for each of {len(self.tasks)} tasks, for the text "
                f"as it is and for one edit, need {self.least_calls}; allow more (--calls), or ask less (--asks)"
            )


@dataclass(frozen=True, slots=True)
class PromptDecision:
    """End of an evolution."""

    chosen: PromptText | None
    """The text that the held-out tasks chose, the original among them; None where the budget ended before."""
    reason: str
    """In words."""
    spent: Spending
    """Of all calls: asks, and edits."""


def front_of(scores: Scores) -> dict[int, int]:
    """Return the Pareto front of texts, each with the number of tasks on which none gained more."""
    best = {task: max(each[task] for each in scores.values()) for each in scores.values() for task in each}
    leads = {text: sum(each[task] >= best[task] for task in each) for text, each in scores.items()}
    return {text: lead for text, lead in leads.items() if lead and not _dominated(text, scores)}


def _dominated(text: int, scores: Scores) -> bool:
    own = scores[text]
    return any(
        all(other[task] >= own[task] for task in own) and any(other[task] > own[task] for task in own)
        for other in scores.values()
    )


class PromptSearch:
    """One evolution on one store.

    Args:
        settings: what to evolve, on what, and for how much.
    """

    def __init__(
        self,
        store: PromptStore,
        settings: PromptSettings,
        *,
        say: Callable[[str], None],
        make_search: MakeSearch = open_search,
    ) -> None:
        self._store, self._settings, self._say, self._make_search = store, settings, say, make_search
        self._operator = settings.original.name

    async def run(self) -> PromptDecision:
        """Evolve until the rounds or the budget are used, and decide; what is stored already is not done again.

        Raises:
            ModelsUnavailable: no model answers; the same call goes on later.
            EvokernelError: a trial cannot run.
        """
        if self._store.decision is None:
            try:
                await self._evolve()
            except BudgetSpent as spent:
                return PromptDecision(None, f"undecided: {spent}", self.spent())
        chosen = self._store.texts()[self._store.decision or ORIGINAL]
        return PromptDecision(chosen, self._reason(), self.spent())

    def spent(self) -> Spending:
        """Return what all calls have cost, those of every trial among them."""
        found = [self._store.calls.spending(), *map(_spent_in, sorted(self._store.trials_folder.glob("*.db")))]
        dollars = math.fsum(each.cost_usd for each in found)
        return Spending(sum(each.calls for each in found), sum(each.tokens for each in found), dollars)

    def scores(self, tasks: Sequence[PromptTask]) -> dict[int, dict[str, float]]:
        """Return the gains on some tasks of each text that was tried on all of them."""
        trials = self._store.trials()
        return {
            text.number: {task.name: trials[text.number, task.name].gain for task in tasks}
            for text in self._store.texts().values()
            if all((text.number, task.name) in trials for task in tasks)
        }

    # ------------------------------------------------------------------------------------------------ rounds

    async def _evolve(self) -> None:
        settings = self._settings
        if ORIGINAL not in self._store.texts():
            self._store.add_text(PromptText(ORIGINAL, settings.text))
        for task in settings.tasks:
            await self._try(ORIGINAL, task)
        for number in range(ORIGINAL + 1, ORIGINAL + 1 + settings.rounds):
            if number not in self._store.texts() and not self._room():
                self._say("the budget has no room for another round beside the decision")
                break
            await self._round(number)
        means = {text: _mean(gains) for text, gains in self.scores(settings.learning).items()}
        challenger = max(means, key=lambda text: (means[text], -text))
        if challenger != ORIGINAL:
            for task in settings.held_out:
                await self._try(challenger, task)
            held = self.scores(settings.held_out)
            challenger = challenger if _mean(held[challenger]) > _mean(held[ORIGINAL]) else ORIGINAL
        self._store.decide(challenger)

    async def _round(self, number: int) -> None:
        """Make a text and try it: on the task of its traces first, and on the others where it gains more there."""
        text = self._store.texts().get(number) or await self._edited(number)
        if text.refusal:
            return
        first = next(task for task in self._settings.learning if task.name == text.task)
        trial = await self._try(number, first)
        if trial.gain <= self._store.trials()[text.parent, first.name].gain:
            self._say(f"  text {number} gains no more there than text {text.parent}, and is left")
            return
        for task in self._settings.learning:
            await self._try(number, task)

    async def _edited(self, number: int) -> PromptText:
        """Let a model edit a text of the front after it has read the traces of one task; store the result."""
        front, learning = front_of(self.scores(self._settings.learning)), self._settings.learning
        rng = stream(self._settings.seed, number, "prompt")
        shares = [lead / sum(front.values()) for lead in front.values()]
        parent = self._store.texts()[int(rng.choice(list(front), p=shares))]
        task = learning[int(rng.integers(len(learning)))]
        seen = traces(task, self._trial_path(parent.number, task))
        request = reflection_request(self._settings.original, parent.text, seen, step=number, about=task.name)
        config = self._settings.configs[learning[0].name]
        budget = BudgetConfig(evaluations=1, dollars=self._dollars(self._store.calls.spending()))
        model = make_models(config.model_copy(update={"budget": budget}), log=self._store.calls, notify=self._say)
        try:
            reply = await model.complete(request)
        finally:
            await model.close()
        made = PromptText(number, "", parent.number, task.name)
        try:
            edited, idea = read_edit(reply.text, parent.text)
            same = next((each.number for each in self._store.texts().values() if each.text == edited), None)
            if same is not None:
                raise UnreadableReply(f"the edit makes text {same} once more")
            made = replace(made, text=edited, idea=idea)
            refuse_statements(edited, self._settings.text)
            template = read_template(self._folder(made), self._operator)
            refuse_other_settings(template.settings, self._settings.original)
        except (UnreadableReply, ConfigError) as error:
            made = replace(made, refusal=str(error))
        self._store.add_text(made)
        told = f"refused: {made.refusal}" if made.refusal else made.idea
        self._say(f"text {number}, from text {parent.number} after {task.name}: {told}")
        return made

    async def _try(self, number: int, task: PromptTask) -> PromptTrial:
        """Return the score of a text on a task, after the asks that it lacks."""
        known = self._store.trials().get((number, task.name))
        if known is not None:
            return known
        text, path = self._store.texts()[number], self._trial_path(number, task)
        config = trial_config(self._settings.configs[task.name], operator=self._operator, prompts=self._folder(text))
        dollars = self._dollars(_spent_in(path) if path.exists() else Spending())
        await ask(task, path, config, asks=self._settings.asks, dollars=dollars, make_search=self._make_search)
        trial = score(task, path, prompt=number)
        self._store.add_trial(trial)
        held = ", held out" if task.held_out else ""
        self._say(
            f"  text {number} on {task.name}{held}: {trial.speedup:.3f}x an ask, {trial.right} of {trial.asks} right"
        )
        return trial

    # ------------------------------------------------------------------------------------------------ budget, places

    def _room(self) -> bool:
        """Say whether a round fits into the budget beside the asks that decide."""
        spent, settings = self.spent(), self._settings
        needed = settings.asks * len(settings.tasks) + 1
        if settings.calls is not None and spent.calls + needed > settings.calls:
            return False
        each = spent.cost_usd / max(1, spent.calls)
        return settings.dollars is None or spent.cost_usd + needed * each <= settings.dollars

    def _dollars(self, own: Spending) -> float | None:
        """Return the limit of dollars for one store, which has spent `own` of all that was spent."""
        limit = self._settings.dollars
        return None if limit is None else max(0.0, limit - self.spent().cost_usd) + own.cost_usd

    def _trial_path(self, number: int, task: PromptTask) -> Path:
        return self._store.trials_folder / f"{number}-{task.name}.db"

    def _folder(self, text: PromptText) -> Path:
        folder = self._store.trials_folder / f"text-{text.number}"
        write_prompts(folder, self._operator, text.text, self._settings.parts)
        return folder

    def _reason(self) -> str:
        """Return the decision in words."""
        held, number = self.scores(self._settings.held_out), self._store.decision
        before = math.exp(_mean(held[ORIGINAL]))
        others = {text: math.exp(_mean(gains)) for text, gains in held.items() if text != ORIGINAL}
        if number in others:
            return f"text {number} wins: {others[number]:.3f}x an ask on held-out tasks, the original {before:.3f}x"
        lost = "".join(f"; text {text} reached {value:.3f}x" for text, value in others.items())
        return f"the original stays: {before:.3f}x an ask on held-out tasks{lost or '; no edit gained more elsewhere'}"


def _mean(gains: Mapping[str, float]) -> float:
    return math.fsum(gains.values()) / len(gains)


def _spent_in(path: Path) -> Spending:
    with Store.open(path, write=False) as store:
        return store.calls.spending()
