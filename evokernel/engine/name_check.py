"""Lookup of the names in a config before anything starts: tasks, operators, choices and files."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evokernel.config.load import located
from evokernel.config.part import parts_in, texts_in
from evokernel.config.places import Location
from evokernel.config.registry import resolve
from evokernel.errors import ConfigError, TaskError
from evokernel.tasks import task_path
from islands.elite_selectors import SELECTORS
from islands.operator_choosers import CHOOSERS
from islands.topology import TOPOLOGIES
from islands.workload_selectors import WORKLOAD_SELECTORS
from operators import OPERATORS


def unknown_names(raw: Mapping[str, Any], folder: Path) -> Iterator[tuple[Location, str]]:
    """Yield the place and the text of each mistake: a name or a path in a config that leads to nothing.

    Args:
        raw: the config as it was written; what has a wrong type is told by others.
        folder: paths are relative to it.
    """
    task = raw.get("task")
    if isinstance(task, str):
        try:
            task_path(str(folder / task) if task.endswith(".py") else task, folder=folder)
        except TaskError as error:
            yield ("task",), str(error)
    operators = {**OPERATORS}
    try:
        operators |= _templates(raw, folder)
    except ConfigError as error:
        yield ("prompts",), str(error).removeprefix("prompts: ")
        operators |= _templates({**raw, "prompts": ""}, folder)
    for place, kind, known, what in _kinds(raw, operators):
        try:
            resolve(kind, known, what)
        except ConfigError as error:
            yield place, str(error)
    for place, path in _paths(raw):
        if not os.path.exists(whole := located(path, folder)):
            yield place, f"there is no {whole}"


def _templates(raw: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Return the operators that are files, where an island has more than rules. Raises `ConfigError`."""
    asked = {name for _, island in parts_in(raw.get("islands")) for name in texts_in(island.get("operators"))}
    prompts = raw.get("prompts")
    if asked <= OPERATORS.keys() and not prompts:
        return {}
    from operators.llm.templates import load_templates  # Jinja and the prompts, which most runs by rule do without

    return load_templates(located(prompts, folder) if prompts and isinstance(prompts, str) else "")


def _kinds(
    raw: Mapping[str, Any], operators: Mapping[str, Any]
) -> Iterator[tuple[Location, str, Mapping[str, Any], str]]:
    """Yield every name that is looked up: where it stands, the name, the known ones, what it names."""
    for number, island in parts_in(raw.get("islands")):
        at = ("islands", number)
        for name in texts_in(island.get("operators")):
            yield (*at, "operators", name), name, operators, "operator"
        selector = island.get("selector")
        if isinstance(selector, Mapping) and isinstance(selector.get("kind"), str):
            yield (*at, "selector", "kind"), selector["kind"], {**SELECTORS, **WORKLOAD_SELECTORS}, "selector"
        if isinstance(island.get("choose"), str):
            yield (*at, "choose"), island["choose"], CHOOSERS, "chooser"
    if isinstance(raw.get("topology"), str):
        yield ("topology",), raw["topology"], TOPOLOGIES, "topology"
    budget = raw.get("budget")
    for number, stopper in enumerate(texts_in(budget.get("stoppers")) if isinstance(budget, Mapping) else ()):
        yield ("budget", "stoppers", number), stopper, {}, "stopper"


def _paths(raw: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """Yield every path of a file or folder that is read, with its place; those of prompts and the task are not here."""
    parts: list[tuple[Location, Mapping[str, Any], tuple[str, ...]]]
    parts = [((), raw, ("seed_sources", "replies_from", "plugins"))]
    if isinstance(raw.get("evaluation"), Mapping):
        parts.append((("evaluation",), raw["evaluation"], ("expert", "cuda_include")))
    for number, model in parts_in(raw.get("models")):
        parts.append((("models", number), model, ("replay", "agent_reads", "agent_folder")))
    for at, part, names in parts:
        for name in names:
            value = part.get(name)
            if value and isinstance(value, str):
                yield (*at, name), value
            elif not isinstance(value, Mapping):
                yield from (((*at, name, number), path) for number, path in enumerate(texts_in(value)))
