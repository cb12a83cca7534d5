"""Next prompts of a run, made from its store alone: for people, and for machines without a GPU."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import yaml

from archive.inbox import waiting
from archive.store import Store
from archive.verdict_filter import verdict_filter_of
from evokernel.config.load import parse_config
from evokernel.config.run import DEVICE_OF, RunConfig
from evokernel.engine.assemble import foreign_kernels, make_archipelago, make_language_of, make_operators
from evokernel.engine.context import SearchSetting, context_for
from evokernel.engine.search import edits_since
from evokernel.engine.state_fold import StateFold
from evokernel.errors import ConfigError, RunMismatch, StoreError, TaskError
from evokernel.evaluate.client.compile_kernel import TARGETS
from evokernel.languages.device_limits import DeviceLimits
from evokernel.protocols import ModelOperator, asks_model
from evokernel.records.llm import Message
from evokernel.records.step import Selection
from evokernel.tasks import load_task

BEGIN = "`evokernel evolve CONFIG` begins one and judges its seed"
STEPS_FOR_EACH = 4
"""Steps tried for each prompt that is wanted, so that few prompts are the same."""


@dataclass(frozen=True, slots=True)
class NextPrompts:
    """State of a run from which its next prompts are made."""

    run_id: str
    config: RunConfig
    """Resolved."""
    fold: StateFold
    """State after the facts and inbox entries that were applied."""
    setting: SearchSetting
    """Task, device and guide that operators see."""
    next_step: int
    """Number of the next proposal."""


@dataclass(frozen=True, slots=True)
class OpenPrompt:
    """The prompt of one coming step."""

    selection: Selection
    messages: tuple[Message, ...]
    repeats: bool = False
    """True where another prompt has the same messages."""


def read_run(store: Store, config: RunConfig | None = None) -> NextPrompts:
    """Return the state of a run, entries that wait in its inbox applied. Imports torch.

    Args:
        store: opened for reading.
        config: replaces the one in the store; with absolute paths.

    Raises:
        StoreError: no session of a run has begun in the store.
        ConfigError, TaskError, LanguageError: a name in the config cannot be used.
    """
    run = fresh_run(store, config)
    run.fold.replay(store.facts())
    for proposal in store.open_leases():
        run.fold.pending(proposal)
    for entry in waiting(store.database):
        run.fold.apply_inbox(replace(entry, seq=run.fold.state.seq))
    return run


def fresh_run(store: Store, config: RunConfig | None = None, *, also: Collection[str] = ()) -> NextPrompts:
    """Return a run whose fold no fact was applied to, with the operators `also` too; else as `read_run`."""
    identity, run_id = store.identity(), store.meta("run_id")
    if identity is None or run_id is None:
        raise StoreError(f"{store.database.path} holds no run yet: {BEGIN}")
    moved = "" if config is not None else "; where its files lie elsewhere now, name the config in place of the store"
    config = run_config(store, config)
    try:
        task = load_task(config.task).on(DEVICE_OF[config.language])
    except TaskError as error:
        raise TaskError(f"{error}{moved}") from None
    sheet = {name: float(value) for name, value in json.loads(store.meta("device_sheet") or "{}").items()}
    limits = limits_from(sheet) if config.device == "cuda" else None
    language, operators = make_language_of(config, limits=limits), make_operators(config, also=also)
    foreign = foreign_kernels(config, task)
    fold = StateFold(make_archipelago(config, operators, foreign=bool(foreign)), language)
    fold.verdict_filter = verdict_filter_of(store.database, identity)
    return NextPrompts(
        run_id=run_id,
        config=config,
        fold=fold,
        setting=SearchSetting(
            task=task,
            config=config,
            device=identity.device,
            environment=identity.environment,
            device_sheet=sheet,
            guide=language.guide(task),
            foreign=foreign,
        ),
        next_step=store.next_step(),
    )


def run_config(store: Store, given: RunConfig | None = None) -> RunConfig:
    """Return the config of a store's run, or the one given, resolved for the device class of the run.

    Raises:
        ConfigError: it is for another device class or language.
        StoreError: no session of a run has begun in the store.
        RunMismatch: the search refuses it, for a setting that cannot change within a run.
    """
    text = store.meta("config")
    stored = parse_config(yaml.safe_load(text), "the config in the store") if text is not None else None
    if stored is None:
        raise StoreError(f"{store.database.path} holds no run yet: {BEGIN}")
    if given is None:
        return stored
    for name in ("device", "language"):
        before, now = getattr(stored, name), getattr(given, name)
        if now not in ("auto", before):
            raise ConfigError(f"the run in {store.database.path} has {name}: {before}, and the config says {now}")
    resolved = given.model_copy(update={"device": stored.device, "language": stored.language}).on(
        DEVICE_OF[stored.language]
    )
    try:
        edits_since(store, resolved)
    except RunMismatch as error:
        raise RunMismatch(f"{error}; or name {store.database.path} in place of the config") from None
    return resolved


def prompts(run: NextPrompts, *, count: int, names: Collection[str] = ()) -> list[OpenPrompt]:
    """Return the prompts of the next steps, different ones first.

    Args:
        run: the state of the run.
        count: number of prompts; some repeat where too few differ.
        names: only these operators; all if empty.

    Raises:
        ConfigError: no island has an operator of these names that asks a model.
    """
    _check_names(run, names)
    distinct: dict[tuple[Message, ...], OpenPrompt] = {}
    repeated: list[OpenPrompt] = []
    for prompt in _next_prompts(run, most=STEPS_FOR_EACH * count, names=names):
        if prompt.messages in distinct:
            repeated.append(replace(prompt, repeats=True))
        else:
            distinct[prompt.messages] = prompt
        if len(distinct) == count:
            break
    chosen = [*distinct.values(), *repeated][:count]
    return sorted(chosen, key=lambda prompt: prompt.selection.step)


def _next_prompts(run: NextPrompts, *, most: int, names: Collection[str]) -> Iterator[OpenPrompt]:
    for step in range(run.next_step, run.next_step + most):
        selection = run.fold.archipelago.selector.select(
            step, run.fold.state.archipelago, rules=False, names=frozenset(names)
        )
        if selection is None:
            continue
        operator = _model_operators(run)[selection.operator]
        prompt = operator.prompt(context_for(selection, run.fold, setting=run.setting))
        yield OpenPrompt(selection, prompt.messages)


def _model_operators(run: NextPrompts) -> dict[str, ModelOperator]:
    operators = run.fold.archipelago.operators
    return {name: operator for name, operator in operators.items() if asks_model(operator)}


def _check_names(run: NextPrompts, names: Collection[str]) -> None:
    known = sorted(_model_operators(run))
    if not known:
        from operators.llm.templates import load_templates

        there_are = ", ".join(load_templates(run.config.prompts))
        raise ConfigError(
            "no island of this run has an operator that asks a model, so there is nothing to write; add one to the "
            "operators of an island in the config, for example mutate: 1, and name the config in place of the store. "
            f"There are: {there_are}"
        )
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ConfigError(
            f"no island has an operator {', '.join(unknown)} that asks a model; the islands have {', '.join(known)}. "
            "To use another, add it to an island in the config, and name the config in place of the store"
        )


def limits_from(sheet: Mapping[str, float]) -> DeviceLimits:
    """Return the limits of the GPU of a device sheet; those that the sheet lacks are its architecture's."""
    kind = TARGETS.get(f"sm_{sheet.get('capability', 90):.0f}", DeviceLimits())
    known = {name: int(sheet[name]) for name in ("capability", "shared_bytes", "multiprocessors") if sheet.get(name)}
    return replace(kind, **known)
