"""`evokernel schema` against the records of a config, and the line that leads editors to it."""

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from evokernel.config.load import load_config
from evokernel.scaffold.config_schema import MODELINE, SCHEMA_FILE, config_schema
from tests.cli.conftest import Call

CONFIGS = Path(__file__).parents[2] / "configs"
RIGHT: dict[str, Any] = {
    "task": "gemm",
    "budget": {"evaluations": 4, "dollars": None},
    "islands": [{"name": "one", "operators": {"tune": 1, "mine": 0.5}, "selector": {"kind": "package.module:Class"}}],
    "topology": {"one": []},
    "models": [
        {"name": "small", "model": "openai/gpt-5", "price": {"prompt_usd_per_mtok": 1, "completion_usd_per_mtok": 2}}
    ],
}


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft7Validator:
    schema = config_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def test_the_command_prints_it_and_the_file_beside_the_configs_is_the_same(project: Path, call: Call) -> None:
    result = call("schema")
    assert result.exit_code == 0
    assert json.loads(result.output) == config_schema()
    assert (CONFIGS / SCHEMA_FILE).read_text() == result.output, "run `make docs`"


def test_every_config_names_it_fits_it_and_reads_the_same_without_that_line(
    validator: jsonschema.Draft7Validator, tmp_path: Path
) -> None:
    configs = [*CONFIGS.glob("*.yaml")]
    assert len(configs) > 10
    for path in configs:
        text = path.read_text()
        assert text.startswith(MODELINE), path
        assert [*validator.iter_errors(yaml.safe_load(text))] == []
    bare = tmp_path / "gemm.yaml"
    bare.write_text((CONFIGS / "gemm.yaml").read_text().removeprefix(MODELINE))
    assert load_config(bare).model_copy(update={"store": "runs/gemm.db"}) == load_config(CONFIGS / "gemm.yaml")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("tusk",), "gemm"),
        (("device",), "gpu"),
        (("seed",), -1),
        (("budget", "hours"), 0),
        (("budget", "evaluation"), 3),
        (("islands",), []),
        (("islands", 0, "operators", "tune"), "much"),
        (("islands", 0, "selector", "pressure"), 1.5),
        (("models", 0, "temperature"), 3),
        (("constraints",), {"registers": 8}),
        (("notify",), [{"on": ["sunrise"], "url": "https://example.org"}]),
    ],
)
def test_it_tells_mistakes_that_evolve_would_refuse(
    validator: jsonschema.Draft7Validator, place: tuple[str | int, ...], value: object
) -> None:
    assert [*validator.iter_errors(RIGHT)] == []
    wrong: Any = copy.deepcopy(RIGHT)
    inner = wrong
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    assert [*validator.iter_errors(wrong)]


def test_it_explains_settings_and_suggests_names() -> None:
    schema = config_schema()
    island = schema["$defs"]["IslandConfig"]["properties"]
    assert schema["properties"]["seed"]["description"].startswith("The number from which")
    assert "gemm" in schema["properties"]["task"]["examples"]
    assert {"tune", "rewrite", "mutate"} <= set(island["operators"]["properties"])
    assert all(each["description"] for each in island["operators"]["properties"].values())
    assert "lexicase" in schema["$defs"]["SelectorConfig"]["properties"]["kind"]["examples"]
