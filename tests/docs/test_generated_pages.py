"""docs/cli.md, docs/config.md and docs/museum.md say what the code says, leave nothing out; their examples work."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
import yaml

from evokernel.cli import group
from evokernel.config.load import load_config, parse_config
from evokernel.config.run import RunConfig
from evokernel.engine.assemble import make_operators, make_topology
from evokernel.tasks import task_path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
UNITS = {"_s": "in s", "_ms": "in ms", "_mib": "in MiB", "_bytes": "in bytes", "_tokens": "tokens", "_usd": "dollars"}
ENDS_ITSELF = re.compile(r"\b(?:ctx|context)\.exit\(")


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """The script, by its path: other packages may bring a module `docs` along."""
    spec = importlib.util.spec_from_file_location("generate_docs", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_what_the_code_says(generate: ModuleType) -> None:
    found = [*generate.stale(DOCS)]
    assert found == [], "run `make docs` (python docs/generate.py) and commit what it writes"


def test_a_stale_page_is_named_and_mended_and_what_people_wrote_stays(
    generate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in generate.PAGES:
        text = (DOCS / name).read_text()
        (tmp_path / name).write_text(f"By hand.\n\n{generate.MARK}\n" if name == "cli.md" else text)
    assert generate.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().out == "run `make docs` and commit what it writes: cli.md\n"
    assert generate.main([], tmp_path) == 0
    assert generate.main(["--check"], tmp_path) == 0
    written = (tmp_path / "cli.md").read_text()
    assert written.startswith("By hand.")
    assert written.partition(generate.MARK)[2] == (DOCS / "cli.md").read_text().partition(generate.MARK)[2]


def with_subcommands(command: click.Command, name: str, marks: str = "##") -> Iterator[tuple[str, click.Command]]:
    """Yield a command and all below it, each with its heading."""
    yield f"\n{marks} {name}\n", command
    if isinstance(command, click.Group):
        for each, subcommand in command.commands.items():
            yield from with_subcommands(subcommand, f"{name} {each}", f"{marks}#")


def test_every_command_and_option_is_there() -> None:
    text = (DOCS / "cli.md").read_text()
    found = []
    for name in group.main.list_commands(click.Context(group.main)):
        outer = group.main.get_command(click.Context(group.main), name)
        assert outer is not None
        for heading, command in with_subcommands(outer, f"evokernel {name}"):
            part = re.split(r"\n##+ ", text.split(heading)[1])[0]
            for parameter in command.params:
                words = parameter.opts if isinstance(parameter, click.Option) else [parameter.metavar or ""]
                assert all(word.replace("|", "\\|") in part or word in part for word in words), (heading, words)
                assert not isinstance(parameter, click.Option) or parameter.help, (heading, parameter.name)
            found.append(heading.strip())
    assert {"## evokernel service", "### evokernel queue add", "### evokernel queue run"} <= {*found}


def test_commands_that_choose_their_exit_code_say_what_it_means() -> None:
    for entries in group.SECTIONS.values():
        for name in entries:
            command = group.main.get_command(click.Context(group.main), name)
            file = ROOT / "evokernel" / "cli" / f"{name.replace('-', '_')}.py"
            if ENDS_ITSELF.search(file.read_text()):
                assert command is not None
                assert re.search(r"[Ee]xit codes?:? (?:is )?0 ", f"{command.help} {command.epilog}"), name


def test_every_setting_has_a_meaning_and_its_unit(generate: ModuleType) -> None:
    text = (DOCS / "config.md").read_text()
    paths = []
    for path, model in generate.parts():
        section = text.split(f"\n## {path or 'The run'}\n")[1].split("\n## ")[0]
        for name, field in model.model_fields.items():
            row = next(line for line in section.splitlines() if line.startswith(f"| `{name}` |"))
            meaning = re.split(r"(?<!\\)\|", row)[4].strip()
            assert len(meaning) > 10, row
            unit = next((unit for end, unit in UNITS.items() if name.endswith(end) and field.annotation), "")
            assert unit in row, row
            paths.append(generate.joined(path, name))
    assert {"budget.hours", "islands.NAME.selector.kind", "models.NAME.price.prompt_usd_per_mtok"} <= {*paths}


def blocks(page: str, language: str) -> list[str]:
    """Return the fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), flags=re.MULTILINE | re.DOTALL)


def made_live(raw: dict[str, Any]) -> RunConfig:
    """Return a config whose every name is known."""
    config = parse_config(raw, "an example")
    task_path(config.task)
    make_operators(config)
    make_topology(config)
    return config


def test_examples_of_configs_can_be_used() -> None:
    shortest, longest = (made_live(yaml.safe_load(block)) for block in blocks("config.md", "yaml"))
    assert shortest.islands[0].operators == {"rewrite": 0.55, "tune": 0.4, "blend": 0.05}
    assert longest.topology == {"builders": ("ideas",), "ideas": ("builders",)}


def test_the_example_of_messages_can_be_used_in_a_file(tmp_path: Path) -> None:
    (block,) = blocks("nights.md", "yaml")
    path = tmp_path / "night.yaml"
    path.write_text(f"task: gemm\nbudget: {{hours: 1}}\nislands: [{{name: one, operators: {{tune: 1}}}}]\n{block}")
    config = load_config(path, overrides=["notify=[{command: [jq], on: [fault]}]"])
    assert config.notify[0].on == ("fault",)
    assert load_config(path).notify[0].on == ("best", "end")


def test_the_example_with_models_can_be_used() -> None:
    block, agents = blocks("models.md", "yaml")
    entry = parse_config({"task": "gemm", **yaml.safe_load(agents)}, "models.md").models[0]
    assert (entry.agent_hosts, entry.agent_evaluations) == (("api.coder.example",), 8)
    config = made_live({"task": "gemm", **yaml.safe_load(block)})
    assert [model.name for model in config.models] == ["main", "wise", "local"]
