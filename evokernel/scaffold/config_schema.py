"""JSON schema of a config: made from its records, for editors that complete and check YAML."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from evokernel.config.part import Part, meanings
from evokernel.config.run import RunConfig
from evokernel.tasks import builtin_tasks
from islands.elite_selectors import SELECTORS
from islands.operator_choosers import CHOOSERS
from islands.topology import TOPOLOGIES
from islands.workload_selectors import WORKLOAD_SELECTORS
from operators import OPERATORS
from operators.llm.templates import load_templates

SCHEMA_FILE = "evokernel.schema.json"
"""Name of the file beside configs that their first line names."""
MODELINE = f"# yaml-language-server: $schema={SCHEMA_FILE}\n"
"""First line of a config: where editors find its schema."""


def config_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 7) of a config, with the names that settings may give as suggestions."""
    made: dict[str, Any] = RunConfig.model_json_schema()
    known = {part.__name__: part for part in _subclasses(Part)}
    for name, part in {**made["$defs"], "RunConfig": made}.items():  # some definitions are enumerations
        for setting, text in (meanings(known[name]) if name in known else {}).items():
            place = part["properties"][setting]
            part["properties"][setting] = dict(sorted({**place, "description": text}.items()))
    island, selector = (made["$defs"][name]["properties"] for name in ("IslandConfig", "SelectorConfig"))
    share = island["operators"]["additionalProperties"]
    island["operators"]["properties"] = {name: {**share, "description": about} for name, about in _operators().items()}
    for place, names in (
        (made["properties"]["task"], builtin_tasks()),
        (made["properties"]["topology"], TOPOLOGIES),
        (island["choose"], CHOOSERS),
        (selector["kind"], SELECTORS | WORKLOAD_SELECTORS),
    ):
        place["examples"] = [*names]
    found: dict[str, Any] = _tidy(made)
    return {"$schema": "http://json-schema.org/draft-07/schema#", **found, "title": "A config of evokernel"}


def schema_text() -> str:
    """Return the schema as the text of a file."""
    return json.dumps(config_schema(), indent=1, ensure_ascii=False) + "\n"


def _subclasses(part: type[Part]) -> Iterator[type[Part]]:
    yield part
    for each in part.__subclasses__():
        yield from _subclasses(each)


def _operators() -> Mapping[str, str]:
    """Return every operator's description by its name."""
    rules = {name: (rule.__doc__ or "").partition("\n")[0] for name, rule in OPERATORS.items()}
    return rules | {name: template.settings.about for name, template in load_templates().items()}


def _tidy(value: Any) -> Any:
    """Return a schema without the titles that pydantic makes of names, and with descriptions of one line each."""
    if isinstance(value, list):
        return [_tidy(each) for each in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, each in value.items():
        if key in ("properties", "$defs"):  # below these, keys are names of ours
            found[key] = {name: _tidy(inner) for name, inner in each.items()}
        elif key == "description":
            found[key] = " ".join(each.split())
        elif key != "title":
            found[key] = each if key == "default" else _tidy(each)
    return found
