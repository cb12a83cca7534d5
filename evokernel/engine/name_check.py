"""Check of the names in a config before anything starts: tasks, operators, choices and files, all mistakes at once."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from evokernel.config.places import ConfigPlaces, Location
from evokernel.config.registry import resolve
from evokernel.config.run import RunConfig
from evokernel.errors import ConfigError, EvokernelError, TaskError
from evokernel.tasks import task_path
from islands.elite_selectors import SELECTORS
from islands.operator_choosers import CHOOSERS
from islands.topology import TOPOLOGIES
from islands.workload_selectors import WORKLOAD_SELECTORS
from operators import OPERATORS


def refuse_unknown_names(config: RunConfig, file: Path, overrides: Sequence[str] = ()) -> None:
    """Raise `ConfigError` with a line for each name in a config that names nothing.

    Args:
        config: was read from `file`.
        overrides: `key=value` overrides that were applied to it.
    """
    found = list(_problems(config))
    if found:
        text = file.read_text(encoding="utf-8")
        places = ConfigPlaces(file, text, [each.partition("=")[0] for each in overrides])
        lines = [f"{places.place(location)}: {'.'.join(map(str, location))}: {problem}" for location, problem in found]
        raise ConfigError(f"{file} cannot be used:\n  " + "\n  ".join(lines))


def _problems(config: RunConfig) -> Iterator[tuple[Location, str]]:
    try:
        task_path(config.task)
    except TaskError as error:
        yield ("task",), str(error)
    for location, kind, known, what in _kinds(config):
        try:
            resolve(kind, known, what)
        except ConfigError as error:
            yield location, str(error)
    for number, source in enumerate(config.seed_sources):
        if not Path(source).is_file():
            yield ("seed_sources", number), f"there is no file {source}"


def _kinds(config: RunConfig) -> Iterator[tuple[Location, str, Mapping[str, object], str]]:
    """Yield every name that is looked up: where it stands, the name, the known ones, what it names."""
    operators = _operators(config)
    for number, island in enumerate(config.islands):
        for name in island.operators:
            yield ("islands", number, "operators", name), name, operators, "operator"
        yield (
            ("islands", number, "selector", "kind"),
            island.selector.kind,
            {**SELECTORS, **WORKLOAD_SELECTORS},
            "selector",
        )
        yield ("islands", number, "choose"), island.choose, CHOOSERS, "chooser"
    if isinstance(config.topology, str):
        yield ("topology",), config.topology, TOPOLOGIES, "topology"
    for number, stopper in enumerate(config.budget.stoppers):
        yield ("budget", "stoppers", number), stopper, {}, "stopper"


def _operators(config: RunConfig) -> dict[str, object]:
    if all(name in OPERATORS for island in config.islands for name in island.operators):
        return {**OPERATORS}
    from operators.llm.templates import load_templates  # Jinja and the prompts, which most runs by rule do without

    try:
        return {**OPERATORS, **load_templates(config.prompts)}
    except EvokernelError:  # assembly tells why
        return {**OPERATORS, **load_templates("")}
