"""The YAML of a run, read and checked: each mistake is a line that names it, before anything starts."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from reprlib import Repr
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from evokernel.config.islands import IslandConfig, NicheConfig, SelectorConfig
from evokernel.config.models import ModelConfig, PriceConfig
from evokernel.config.notify import NotifyConfig
from evokernel.config.places import ConfigPlaces, Location, nearest, syntax_problem
from evokernel.config.registry import look_in
from evokernel.config.run import BudgetConfig, ConstraintsConfig, EvaluationConfig, MigrationConfig, RunConfig
from evokernel.errors import ConfigError

LookUp = Callable[[Mapping[str, Any], Path], Iterable[tuple[Location, str]]]
"""A function from a raw config and its folder to mistakes, each a place and a text."""
UNITS_OF_HOURS = "; --budget takes a unit, too: hours=1.5h, hours=90min, hours=90m, hours=5400s"
_EXPECTED = {
    **dict.fromkeys(("tuple_type", "list_type"), "expected a list"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), "expected a mapping"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "expected a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "expected a number"),
    **dict.fromkeys(("string_type",), "expected a text"),
    "missing": "is missing; docs/config.md begins with the shortest config",
}
"""Mistakes by pydantic's type, in the words of YAML."""
UNREADABLE = (yaml.YAMLError, ValueError, RecursionError)
"""Errors of YAML that cannot be read: a date that there is not, and lists in lists in lists, come as the others."""
_REPR = Repr()
"""What was given, in a line: a value may be long, or hold itself."""
_REPR.maxstring, _REPR.maxlevel = 80, 2
RUNS = Path("runs")
"""Folder of stores."""
NO_SEARCH: Mapping[str, Any] = {
    "task": "none",
    "budget": {"evaluations": 1},
    "islands": [{"name": "none", "operators": {"tune": 1}}],
}
"""What a config needs beside the settings of a judge."""


class _ConfigLoader(yaml.SafeLoader):
    """A safe loader to which a key is a text: `on` means `on`, and not True as in YAML 1.1."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:bool":
                key.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)


def load_config(path: Path, *, overrides: Sequence[str] = (), look_up: LookUp | None = None) -> RunConfig:
    """Read a config file, apply `key.sub=value` overrides, and make its paths absolute.

    Args:
        path: the file.
        overrides: settings of the command line.
        look_up: finds names that name nothing; they are told with all other mistakes.

    Raises:
        ConfigError: the file or a key cannot be used; the message has a line for each mistake: its place in the file,
            the key, what was expected and what was given.
    """
    if path.suffix == ".py":
        raise ConfigError(f"{path} is Python, and no config: {_for_python(path)}")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        near = get_close_matches(path.name, [each.name for each in path.parent.glob("*.y*ml")], n=1)
        hint = f"did you mean {str(path.with_name(near[0]))!r}? " if near else ""
        raise ConfigError(
            f"there is no config {path}: {hint}`evokernel init` writes one for an operation of yours; for a built-in "
            "task four lines will do (docs/config.md)"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(
            f"{path} is no config: expected YAML; of a store (.db) name the config it came from"
        ) from None
    except OSError as error:
        raise ConfigError(f"cannot read the config {path}: {error}") from None
    try:
        raw = yaml.load(text, Loader=_ConfigLoader)
    except UNREADABLE as error:
        raise ConfigError(syntax_problem(path, error)) from None
    if not isinstance(raw, dict):
        came = "nothing" if raw is None else f"a {type(raw).__name__}"
        raise ConfigError(f"{path}: expected a mapping of settings, such as `task: gemm`, got {came}")
    for override in overrides:
        _override(raw, override)
    look_in(Path(located(str(raw.get("plugins") or ""), path.resolve().parent)))
    places = ConfigPlaces(path, text, [each.partition("=")[0] for each in overrides])
    unknown = look_up(raw, path.resolve().parent) if look_up else ()
    config = parse_config(raw, str(path), places=places, unknown=unknown)
    return config.model_copy(update=_absolute(config, path))


def judge_settings(overrides: Sequence[str], **given: Any) -> EvaluationConfig:
    """Return the settings of a judge without a search.

    Args:
        overrides: of the command line, each `evaluation.key=value`.
        given: further ones by name; empty values are left out.

    Raises:
        ConfigError: a setting is none of `evaluation`, or cannot be used; the message has a line for each mistake.
    """
    raw = {**NO_SEARCH, "evaluation": {name: value for name, value in given.items() if value}}
    for override in overrides:
        if not re.match(r"evaluation\.[^=]+=", override):
            raise ConfigError(
                f"--set {override!r}: expected evaluation.KEY=VALUE, such as evaluation.compile_timeout_s=60; no other "
                "setting counts where one task's kernels are judged without a search"
            )
        _override(raw, override)
    if raw["evaluation"].get("hosts", "local") != "local":
        raise ConfigError("--set evaluation.hosts: a cluster is for searches; leave it out, to judge on this machine")
    places = ConfigPlaces(Path(), "", [each.partition("=")[0] for each in overrides])
    return parse_config(raw, "a judge without a search", places=places).evaluation


def _for_python(path: Path) -> str:
    """Say what to do with a Python file in place of a config: the configs beside it that name it, or `init`."""
    named = [each for each in sorted(path.parent.glob("*.y*ml")) if _names(each, path.name)]
    if named:
        return f"name the one for it, {' or '.join(map(str, named))}"
    return f"`evokernel init {path}` writes one for its function or module"


def _names(config: Path, name: str) -> bool:
    """Say whether a config, or the comment with which `init` begins it, names a file."""
    try:
        return name in (word.strip(".,:'\"") for word in config.read_text(encoding="utf-8").split())
    except (OSError, UnicodeDecodeError):
        return False


def parse_config(
    raw: Mapping[str, Any],
    origin: str,
    *,
    places: ConfigPlaces | None = None,
    unknown: Iterable[tuple[Location, str]] = (),
) -> RunConfig:
    """Check a mapping and return the config. Raises `ConfigError` as `load_config` does, for `unknown` names too."""
    lines = list(places.repeated) if places else []
    lines += [f"{_where(location, places)}: {problem}" for location, problem in unknown]
    try:
        config = RunConfig.model_validate(raw)
    except ValidationError as error:
        found = error.errors()
        consequences = [each for each in found if each["type"] == "too_short" and _has_inner(each, found)]
        lines += [_explain(each, places) for each in found if each not in consequences]
    if lines:
        ordered = sorted(lines, key=places.order) if places else lines
        outside = all(each.startswith("--set ") for each in lines)  # of the command line: the file may be fine
        what = (
            f"these settings of the command line cannot be used with {origin}"
            if outside
            else f"{origin} cannot be used"
        )
        raise ConfigError(f"{what}:\n  " + "\n  ".join(ordered))
    return config


def _override(raw: dict[str, Any], text: str) -> None:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise ConfigError(f"--set {text!r}: expected key=value, for example --set budget.evaluations=200")
    *parents, last = key.split(".")
    place: Any = raw
    for name in parents:
        place = _child(place, name, key)
    try:
        parsed = yaml.load(value, Loader=_ConfigLoader)
    except UNREADABLE as error:
        raise ConfigError(f"--set {key}: {value!r} is not valid YAML: {error}") from None
    if not isinstance(place, dict):
        raise ConfigError(f"--set {key}: there is no setting {last!r} at that place")
    place[last] = parsed


def _child(place: Any, name: str, key: str) -> Any:
    if isinstance(place, list):
        for index, item in enumerate(place):
            if isinstance(item, dict) and name in (item.get("name"), str(index)):
                return item
        names = [str(item["name"]) for item in place if isinstance(item, dict) and "name" in item]
        known = f"; {nearest(name, names)}" if names else ""
        raise ConfigError(f"--set {key}: no item {name!r} in that list{known}")
    if isinstance(place, dict):
        if place.get(name) is None:
            place[name] = {}
        return place[name]
    raise ConfigError(f"--set {key}: {name!r} is not inside a mapping")


def _has_inner(error: Any, found: Sequence[Any]) -> bool:
    """Say whether a list is too short only because its items are wrong."""
    return any(each["loc"][: len(error["loc"])] == error["loc"] != each["loc"] for each in found)


def _where(location: Location, places: ConfigPlaces | None) -> str:
    name = ".".join(map(str, location)) or "config"
    place = places.place(location) if places else ""
    if place.startswith("--set ") and place.count(".") == len(location) - 1:
        return place  # which has the name of the setting, too
    return f"{place}: {name}" if place else name


def _explain(error: Any, places: ConfigPlaces | None) -> str:
    where = _where(error["loc"], places)
    if error["type"] == "extra_forbidden":
        last = str(error["loc"][-1])
        inside = [
            f"{part}.{last}" for part in ("budget", "evaluation", "migration") if last in _NESTED[part].model_fields
        ]
        hint = (
            f"did you mean {inside[0]!r}?"
            if inside and len(error["loc"]) == 1
            else nearest(last, _known_keys(error["loc"]))
        )
        return f"{where}: unknown key (given {_REPR.repr(error['input'])}); {hint}"
    text = _EXPECTED.get(error["type"], error["msg"].removeprefix("Value error, "))
    if error["type"] == "too_short":
        kind, least = "mapping" if isinstance(error["input"], Mapping) else "list", error["ctx"]["min_length"]
        text = f"expected a {kind} of at least {least} item{'s' * (least != 1)}"
    given = "" if error["type"] in ("missing", "value_error") else f", given {_REPR.repr(error['input'])}"
    hours = error["type"] == "float_parsing" and error["loc"][-1:] == ("hours",)
    return f"{where}: {text}{given}{UNITS_OF_HOURS if hours else ''}"


_NESTED: Mapping[str, type[BaseModel]] = {
    "budget": BudgetConfig,
    "evaluation": EvaluationConfig,
    "islands": IslandConfig,
    "migration": MigrationConfig,
    "selector": SelectorConfig,
    "niches": NicheConfig,
    "models": ModelConfig,
    "price": PriceConfig,
    "constraints": ConstraintsConfig,
    "notify": NotifyConfig,
}


def _known_keys(location: tuple[int | str, ...]) -> tuple[str, ...]:
    model: type[BaseModel] = RunConfig
    for part in location[:-1]:
        model = _NESTED.get(str(part), model)
    return tuple(model.model_fields)


def _absolute(config: RunConfig, path: Path) -> dict[str, Any]:
    """Return the path settings, resolved against the folder of the config; the store against the working folder."""
    here = path.resolve().parent
    task = str(here / config.task) if config.task.endswith(".py") else config.task
    sources = tuple(located(source, here) for source in config.seed_sources)
    models = tuple(model.model_copy(update=_paths_of(model, here)) for model in config.models)
    evaluation = config.evaluation
    changed: dict[str, Any] = {"expert": located(evaluation.expert, here)} if evaluation.expert else {}
    if evaluation.cuda_include:
        changed["cuda_include"] = tuple(located(each, here) for each in evaluation.cuda_include)
    return {
        "task": task,
        "evaluation": evaluation.model_copy(update=changed),
        "seed_sources": sources,
        "store": config.store or str(default_store(path)),
        **({"models": models} if models else {}),  # where none are named, those of the store count
        "plugins": located(config.plugins, here) if config.plugins or _names_plugin(config) else "",
        "prompts": located(config.prompts, here) if config.prompts else "",
        "replies_from": tuple(located(store, here) for store in config.replies_from),
    }


def default_store(config: Path) -> Path:
    """Return the store of a config that names none: in the folder `runs` beside it, or the file of its name beside it.

    The latter is that of a Python call, where it is there. A config that comes with evokernel, or lies where nothing
    can be written, has it under the working folder.
    """
    if (called := config.with_suffix(".db")).exists():
        return called
    folder, store = config.parent, RUNS / f"{config.stem}.db"
    foreign = _is_shipped(folder.resolve()) or not os.access(folder, os.W_OK)
    return store if foreign and not (folder / store).exists() else folder / store


def _is_shipped(folder: Path) -> bool:
    """Say whether a folder is that of the configs in a checkout of evokernel, or in its image."""
    checkout = folder.name == "configs" and (folder.parent / "evokernel" / "__init__.py").is_file()
    return checkout or folder == (Path(sys.prefix) / "configs").resolve()


def located(path: str, here: Path) -> str:
    """Return a path of a config as an absolute one: `~` is the user's home, others are relative to the config."""
    return str(here / Path(path).expanduser())


def _names_plugin(config: RunConfig) -> bool:
    names = [*config.budget.stoppers, config.topology]
    for island in config.islands:
        names += [*island.operators, island.selector.kind, island.choose]
    return any(":" in name for name in names if isinstance(name, str))


def _paths_of(model: ModelConfig, here: Path) -> dict[str, Any]:
    """Return the path settings of a model that are given."""
    found: dict[str, Any] = {"replay": located(model.replay, here)} if model.replay else {}
    if model.agent_reads:
        found["agent_reads"] = tuple(located(path, here) for path in model.agent_reads)
    if model.agent_folder:
        found["agent_folder"] = located(model.agent_folder, here)
    return found
