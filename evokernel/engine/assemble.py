"""Composition root: from a checked config to live objects. Only this module knows every class."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from archive.grid import GridArchive
from archive.store import Store
from evokernel.agents.services import ServiceReference
from evokernel.config.islands import IslandConfig
from evokernel.config.load import parse_config
from evokernel.config.models import ModelConfig
from evokernel.config.registry import look_in, make
from evokernel.config.run import RunConfig
from evokernel.config.session_budget import SessionBudget
from evokernel.config.topology import wrong_routes
from evokernel.engine.model_gate import ModelMissing, is_drafter
from evokernel.engine.plugin_parts import PluginChooser, PluginSelector
from evokernel.engine.remark_listener import RemarkListener
from evokernel.engine.search import Search, edits_since
from evokernel.engine.search_run import Parts
from evokernel.engine.stoppers import stopper_from
from evokernel.errors import ConfigError, RunMismatch
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.judge_process import JudgeHostClient
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.cluster.host import LocalOpening
from evokernel.evaluate.cluster.ray_hosts import RayHosts
from evokernel.evaluate.device.cores import default_in_flight, too_many_threads
from evokernel.evaluate.device.device_class import Resolved, gpus_note, resolve_device, this_machine
from evokernel.languages.constrained import constrained
from evokernel.languages.device_limits import DeviceLimits
from evokernel.llm.recordings import RecordedReply
from evokernel.protocols import Chooser, Evaluator, Language, LanguageModel, Listener, Operator, Selector, asks_model
from evokernel.records.candidate import Candidate
from evokernel.records.events import Notice
from evokernel.records.prompt_settings import FeedbackLevel, HistoryKind
from evokernel.records.remarks import RemarkKind
from evokernel.task import Task
from evokernel.tasks import load_task
from islands.archipelago import Archipelago, ArchipelagoSettings
from islands.elite_selectors import SELECTORS
from islands.island import Island
from islands.operator_choosers import CHOOSERS
from islands.topology import TOPOLOGIES, Graph, routed
from islands.workload_selectors import WORKLOAD_SELECTORS
from operators import OPERATORS
from operators.plugin import PluginOperator

if TYPE_CHECKING:
    from evokernel.agents.transport import AgentTransport
    from evokernel.llm.redact import Redactor

DEFAULT_ASKING = 8
"""Operators that wait for a model at once, where the config does not say."""


def assemble(  # noqa: PLR0913 - each is a choice of some caller
    config: RunConfig,
    store: Store,
    *,
    listeners: Sequence[Listener] = (),
    evaluator: AbstractAsyncContextManager[Evaluator] | None = None,
    language: Language | None = None,
    model: LanguageModel | None = None,
    handed_in_only: bool = False,
    session: SessionBudget | None = None,
    host: JudgeHostClient | None = None,
) -> Search:
    """Return a search on an open store.

    Args:
        config: the checked config, with absolute paths.
        store: opened for writing.
        evaluator: another implementation than the local processes, for remote machines and for tests.
        language: another implementation than the built-in one of the config's name.
        model: another implementation than the config's models, for recordings and for tests.
        handed_in_only: judge what others have handed in, and end.
        session: limits of this session in place of the config's, which alone are stored.
        host: starts the judges, where they are of its device class: it has begun to import what they need.

    Raises:
        ConfigError, TaskError, LanguageError: something the config names cannot be used.
        RunMismatch: the store holds a search on another class of devices.
    """
    task = load_task(config.task)
    remote = config.evaluation.hosts == "ray" and evaluator is None
    hosts = RayHosts(config.evaluation, in_flight=config.in_flight) if remote else None
    machine = hosts.machine() if hosts else this_machine()
    resolved = resolve_device(config, task, machine=machine)
    config, task = resolved.config, task.on(resolved.device)
    check_same_class(store, resolved)
    listeners = (*listeners, RemarkListener(store))
    edits_since(store, config)  # refused here, an edit costs no start of the evaluator
    gpus = machine.gpus(resolved.device, wanted=config.evaluation.gpus)
    several = "one host" if hosts and len(hosts) == 1 else f"up to {len(hosts or ())} hosts"
    spread = Notice(f"candidates are judged by {several} of a Ray cluster") if hosts else None
    crowd = "" if hosts else too_many_threads(config.threads, device=resolved.device)
    crowded = Notice(crowd, warning=True) if crowd else None
    for note in filter(None, (resolved.note, spread or gpus_note(machine, used=gpus), crowded)):
        for listener in listeners:
            listener.hear(note)
    language = make_language_of(config, language, limits=machine.limits(resolved.device))
    foreign = foreign_kernels(config, task)
    agents, budget = ServiceReference(), session or config.budget
    if model is None and config.models and not handed_in_only:
        from evokernel.llm.assemble import make_models

        older = ExitStack()
        stores = [older.enter_context(Store.open(path, write=False)) for path in config.replies_from]
        model = make_models(
            config.model_copy(update={"budget": budget}),
            log=store.calls,
            notify=lambda text: notify(listeners, Notice(text, warning=True)),
            notify_of_rests=lambda text: notify(listeners, Notice(text, warning=True, kind=RemarkKind.MODEL_REST)),
            older=[each.calls for each in stores],
            on_close=older.close,
            make_agent=partial(_make_agent, services=agents),
        )
    operators = make_operators(config, model=model or ModelMissing(store.calls))
    check_roles(config, operators)
    waiting = [name for name, operator in operators.items() if asks_model(operator) and model is None]
    if waiting and not handed_in_only:
        wait = "wait" if len(waiting) > 1 else "waits"
        text = f"no models are configured: {', '.join(waiting)} {wait} for `evokernel ask` and `evokernel tell`"
        notify(listeners, Notice(text))
    profiled = any(map(asks_model, operators.values()))  # rules do not read profiles, which take seconds
    if hosts:
        opening = LocalOpening(
            *(config.task, config.language, config.evaluation, config.constraints, config.threads, profiled)
        )
        evaluator = hosts.open(opening)
    return Search(
        Parts(
            task=task,
            language=language,
            store=store,
            archipelago=make_archipelago(config, operators, foreign=bool(foreign)),
            model=model,
            asking_at_once=sum(each.concurrency for each in config.models) or (DEFAULT_ASKING if model else 0),
            foreign=foreign,
            replayed=recorded_steps(config),
            agents=agents,
            evaluator=evaluator
            or open_evaluator(
                config.task,
                language,
                settings=config.evaluation,
                threads=config.threads,
                machine=machine,
                deterministic=config.constraints.deterministic,
                profiled=profiled,
                start=host if host is not None and host.device_class == resolved.device else None,
            ),
            stopper=stopper_from(budget),
            listeners=listeners,
        ),
        config=config,
        seeds=seed_candidates(config, task, operators=operators),
        handed_in_only=handed_in_only,
        in_flight=hosts.in_flight if hosts else config.in_flight or default_in_flight(resolved.device, gpus=len(gpus)),
    )


def _make_agent(model: ModelConfig, redactor: "Redactor", *, services: ServiceReference) -> "AgentTransport":
    """Return the transport of a command. Raises `ConfigError` where it cannot run here."""
    from evokernel.agents.transport import AgentTransport

    return AgentTransport(model, redactor=redactor, services=services, environment=os.environ)


def make_language_of(config: RunConfig, language: Language | None = None, *, limits: DeviceLimits | None) -> Language:
    """Return the language of a run, or the one given, under the config's constraints.

    `limits` are those of the GPU to compile for, None on a processor. Raises `LanguageError`.
    """
    language = language or local_language(config.language, config.evaluation, threads=config.threads, device=limits)
    return constrained(language, config.constraints)


def check_same_class(store: Store, resolved: Resolved) -> None:
    """Refuse to go on with another class of devices, or a fork in another language, before anything is started.

    Raises `RunMismatch` if the store's run has another device class, or its kernels another language; the message says
    how to go on.
    """
    forked, language = store.meta("forked_candidate"), resolved.config.language
    if forked is not None and (found := store.candidate(forked).candidate.language) != language:
        raise RunMismatch(
            f"{store.database.path} was forked from a kernel in {found}, and this search would be in {language} "
            f"({resolved.note.text}): give it language: {found}, with --set language={found} for example, or start a "
            "store of its own with --store"
        )
    stored = store.meta("config")
    before = parse_config(yaml.safe_load(stored), "the config in the store").device if stored else resolved.device
    if before != resolved.device:
        raise RunMismatch(
            f"{store.database.path} holds a search on device class {before}, and this one would be on "
            f"{resolved.device} ({resolved.note.text}). To go on with it, run on a machine that can, with --set "
            f"device={before}; to search here as well, name another store (--store; in Python store=); --fresh "
            "sets the old one aside"
        )


def check_roles(config: RunConfig, operators: Mapping[str, Operator]) -> None:
    """Refuse an operator that no model of its island may answer, and models that no operator asks.

    Raises `ConfigError`; without any model nothing.
    """
    if config.models and not any(map(asks_model, operators.values())):
        raise ConfigError(
            f"models: {', '.join(model.name for model in config.models)} would never be asked, since no island has an "
            "operator that asks one; add some to `islands`, for example {mutate: 0.3, refine: 0.3, repair: 0.2}, or "
            "remove `models` and use --model, which adds them"
        )
    models = models_by_role(config)
    for island in config.islands if config.models else ():
        for name in island.operators:
            operator = operators[name]
            if asks_model(operator) and not models(island.name, operator.role):
                named = island.models or [model.name for model in config.models]
                raise ConfigError(
                    f"island {island.name!r}: {name} asks a model with the role {operator.role!r}, and none of "
                    f"{', '.join(named)} has it; add it to a model's roles"
                )


def recorded_steps(config: RunConfig) -> Mapping[int, RecordedReply]:
    """Return the calls of the config's recordings by step. Raises `ConfigError` for one that cannot be read."""
    files = [model.replay for model in config.models if model.replay]
    if not files:
        return {}
    from evokernel.llm.recordings import ReplyRecording

    return {step: reply for file in files for step, reply in ReplyRecording.load(Path(file)).steps().items()}


def notify(listeners: Sequence[Listener], note: Notice) -> None:
    """Pass a note to every listener."""
    for listener in listeners:
        listener.hear(note)


def make_operators(
    config: RunConfig, *, model: LanguageModel | None = None, also: Collection[str] = ()
) -> dict[str, Operator]:
    """Return every operator an island names: rules, prompts, and classes of the user's own.

    Args:
        model: answers the operators that ask one; without it they can still write prompts.
        also: names of further operators, which no island need name.

    Raises:
        ConfigError: a name is unknown, or a prompt cannot be used.
    """
    if config.plugins:
        look_in(Path(config.plugins))
    names = sorted({*also, *(name for island in config.islands for name in island.operators)})
    if all(name in OPERATORS for name in names):
        return {name: OPERATORS[name]() for name in names}
    from operators.llm.operator import TemplateOperator
    from operators.llm.templates import load_templates  # Jinja and the prompts, which most runs by rule do without

    templates = load_templates(config.prompts)
    taken = sorted(templates.keys() & OPERATORS.keys())
    if taken:
        raise ConfigError(f"{config.prompts}: {', '.join(taken)} is the name of a rule; give the prompt another name")
    known = dict.fromkeys((*OPERATORS, *templates))
    made: dict[str, Operator] = {}
    for name in names:
        if name in OPERATORS:
            made[name] = OPERATORS[name]()
        elif name in templates:
            made[name] = TemplateOperator(
                templates[name],
                model,
                prompt_tokens=config.prompt_tokens,
                feedback=FeedbackLevel(config.prompt_feedback),
                history=HistoryKind(config.prompt_history),
                plans=config.plans_per_call,
            )
        else:
            made[name] = PluginOperator(make(name, known, "operator"), name=name)
    return made


def make_archipelago(config: RunConfig, operators: Mapping[str, Operator], *, foreign: bool = False) -> Archipelago:
    """Return the empty islands of a config; `foreign`: there are kernels for the task in other languages."""
    return Archipelago(
        [make_island(island, operators, language=config.language) for island in config.islands],
        make_topology(config),
        operators=operators,
        seed=config.seed,
        rules=ArchipelagoSettings(
            migrate_every=config.migration.every,
            migrate_count=config.migration.count,
            reset_after=config.reset_after,
            repairs=config.repairs,
            plans=config.plans,
            foreign=foreign,
            device_usd_per_hour=config.device_usd_per_hour,
        ),
        models=models_by_role(config),
    )


def models_by_role(config: RunConfig) -> Callable[[str, str], Mapping[str, float]]:
    """Return a function that gives the weights of the models that may answer an island and a role, by name."""
    named = {island.name: island.models for island in config.islands}

    def weights(island: str, role: str) -> Mapping[str, float]:
        able = [model for model in config.models if role in model.roles]
        return {model.name: model.weight for model in able if not named.get(island) or model.name in named[island]}

    return weights


def make_topology(config: RunConfig) -> Graph:
    """Return the routes of elites. Raises `ConfigError` for an unknown topology or island."""
    names = [island.name for island in config.islands]
    if not isinstance(config.topology, str):
        return routed(names, config.topology)
    made = make(config.topology, TOPOLOGIES, "topology", names)
    try:
        routes = {str(source): [str(target) for target in made[source]] for source in made}
    except TypeError:
        raise ConfigError(
            f"topology {config.topology} returned {made!r}; expected lists of islands by the name of the one that sends"
        ) from None
    for problem in wrong_routes(routes, names):
        raise ConfigError(f"topology {config.topology}: {problem}")
    return routed(names, routes)


def foreign_kernels(config: RunConfig, task: Task) -> tuple[Candidate, ...]:
    """Return the task's own seeds in other languages than the run's, for operators that port."""
    others = [(language, path) for language, path in task.seeds.items() if language != config.language]
    return tuple(Candidate(path.read_text(encoding="utf-8"), language) for language, path in others if path.exists())


def make_island(config: IslandConfig, operators: Mapping[str, Operator], *, language: str) -> Island:
    """Return one empty island. Raises `ConfigError` where none of its operators supports the language.

    An operator that does not support the language would only use up steps, so it is left out.
    """
    shares = {name: share for name, share in config.operators.items() if operators[name].supports(language)}
    if not shares:
        names = ", ".join(config.operators)
        raise ConfigError(f"island {config.name!r}: {names} cannot work on {language}; give it tune or blend")
    chosen = config.selector
    objective = {"objective": chosen.objective} if chosen.objective else {}
    selector: Selector = make(chosen.kind, SELECTORS | WORKLOAD_SELECTORS, "selector", chosen.pressure, **objective)
    if chosen.kind not in SELECTORS | WORKLOAD_SELECTORS:
        selector = PluginSelector(selector, f"selector {chosen.kind!r} of island {config.name!r}")
    chooser: Chooser = make(config.choose, CHOOSERS, "chooser")
    if config.choose not in CHOOSERS:
        chooser = PluginChooser(chooser, f"chooser {config.choose!r} of island {config.name!r}")
    return Island(
        name=config.name, operators=shares, archive=GridArchive(config.niches.axes), selector=selector, chooser=chooser
    )


def seed_candidates(config: RunConfig, task: Task, *, operators: Mapping[str, Operator]) -> list[Candidate]:
    """Return the sources a search starts from: the config's, or the task's own; none where an operator drafts one.

    Raises `ConfigError` if there is none, or one cannot be read.
    """
    paths = [Path(source) for source in config.seed_sources]
    if not paths and config.language in task.seeds:
        paths = [task.seeds[config.language]]
    if not paths and any(is_drafter(operator) for operator in operators.values()):
        return []
    if not paths:
        raise ConfigError(
            f"task {task.name!r} has no seed in language {config.language!r}: "
            "name the file of a correct kernel under seed_sources in the config, or give an island the operator draft, "
            "which lets a model write the first one"
        )
    return [_read_seed(path, config.language) for path in paths]


def _read_seed(path: Path, language: str) -> Candidate:
    try:
        return Candidate(path.read_text(encoding="utf-8"), language)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the seed source {path}, expected text in UTF-8: {error}") from None
