"""Assembly of the models of a run from its settings."""

from collections.abc import Callable, Sequence
from pathlib import Path

from evokernel.config.models import ModelConfig
from evokernel.config.run import RunConfig
from evokernel.config.session_budget import word_for
from evokernel.errors import ConfigError
from evokernel.llm.configured_model import ConfiguredModel
from evokernel.llm.ensemble import EarlierReplies, EnsembleSettings, ModelEnsemble
from evokernel.llm.ledger import SpendingLimits
from evokernel.llm.litellm_transport import LitellmTransport, price_of
from evokernel.llm.recordings import RecordedTransport, ReplyRecording
from evokernel.llm.redact import Redactor, guard_logs
from evokernel.llm.transport import FREE, Transport
from evokernel.llm.waiting import Clock
from evokernel.protocols import CallLog

MakeAgent = Callable[[ModelConfig, Redactor], Transport]


def make_models(
    config: RunConfig,
    *,
    log: CallLog,
    notify: Callable[[str], None],
    notify_of_rests: Callable[[str], None] | None = None,
    older: Sequence[EarlierReplies] = (),
    on_close: Callable[[], None] = lambda: None,
    clock: Clock | None = None,
    make_agent: MakeAgent | None = None,
) -> ModelEnsemble:
    """Return the models of a run, with its budgets.

    `make_agent` returns the transport of an entry with a command; without it such an entry is refused.

    `older` are the records that `replies_from` names, opened. `on_close` is called when the models are closed.
    `notify_of_rests` takes notes on models that are not asked, for a while or for good; `notify` if left out.

    Keys are taken from the environment here and kept out of the record, of errors and of logs from now on. Where all
    models are recordings litellm is not imported, and need not be installed. Raises `ConfigError` if a model cannot be
    asked: litellm, its key or its price is missing, its provider is unknown, or its recording cannot be read.
    """
    clock = clock or Clock()
    secret = [name for model in config.models for name in (model.key, *model.agent_variables) if name]
    redactor = Redactor.of_environment(secret)
    configured = [
        _agent(model, config, make_agent=make_agent, redactor=redactor, clock=clock)
        if model.agent
        else _configured_model(model, config, notify=notify, clock=clock)
        for model in config.models
    ]
    budget, unguard = config.budget, guard_logs(redactor)

    def close() -> None:
        unguard()
        on_close()

    settings = EnsembleSettings(
        seed=config.seed,
        limits=SpendingLimits(budget.dollars, budget.tokens, budget.calls, word_for(budget, "dollars")),
        islands={island.name: island.models for island in config.islands},
    )
    return ModelEnsemble(
        configured,
        log=log,
        rules=settings,
        older=older,
        redactor=redactor,
        notify=lambda text: (notify_of_rests or notify)(redactor.text(text)),
        clock=clock,
        on_close=close,
    )


def _agent(
    model: ModelConfig, config: RunConfig, *, make_agent: MakeAgent | None, redactor: Redactor, clock: Clock
) -> ConfiguredModel:
    if make_agent is None:
        raise ConfigError(f"model {model.name!r}: an agent answers in a search only")
    if model.agent_dollars is None and config.budget.dollars is not None:
        raise ConfigError(
            f"model {model.name!r}: budget.dollars needs the most that one call may cost; add agent_dollars: 0.5 to "
            "the entry, for example (0 where it is free)"
        )
    return ConfiguredModel.of(model, make_agent(model, redactor), price=None, clock=clock)


def _configured_model(
    model: ModelConfig, config: RunConfig, *, notify: Callable[[str], None], clock: Clock
) -> ConfiguredModel:
    if model.replay:
        recording = ReplyRecording.load(Path(model.replay))
        recorded = RecordedTransport(recording, name=f"model {model.name}", notify=notify)
        return ConfiguredModel.of(model, recorded, price=FREE, clock=clock)
    transport = LitellmTransport(model)
    price = price_of(model)
    if price is None and config.budget.dollars is not None:
        raise ConfigError(
            f"model {model.name!r}: budget.dollars needs its price, and litellm's list has none for {model.model!r}; "
            "add price: {prompt_usd_per_mtok: ..., completion_usd_per_mtok: ...} to the model (0 where it is free)"
        )
    return ConfiguredModel.of(model, transport, price=price, clock=clock)
