"""docs/plugins.md: its code runs as it stands, from files beside a config."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from evokernel.config.load import load_config
from evokernel.config.registry import look_in
from evokernel.engine.assemble import make_archipelago, make_operators
from evokernel.engine.stoppers import stopper_from
from evokernel.records.run import Progress

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
EARLY, LATE = (Progress(9, 60.0, 0.0, 1, 2.0, share) for share in (0.4, 0.6))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Give a folder with the files of the page; its modules are forgotten afterwards."""
    for block in re.findall(r"^```\w+\n(# ([\w.]+).*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        (tmp_path / block[1]).write_text(block[0])
    yield tmp_path
    look_in(tmp_path.parent)


def test_the_operator_keeps_its_contract(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_ops.py"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "4 passed" in ended.stdout


def test_the_config_and_the_choices_make_a_search(folder: Path) -> None:
    settings = yaml.safe_load((folder / "my.yaml").read_text())
    named = re.findall(r"`islands\[\]\.(\w+): (.*)`", (folder / "my_choices.py").read_text())
    assert {key for key, _ in named} == {"selector", "choose"}
    settings["islands"][0] |= {key: yaml.safe_load(value) for key, value in named}
    settings["islands"].append({"name": "two", "operators": {"tune": 1}})
    settings["budget"]["stoppers"] = ["my_choices:HalfWay"]
    (folder / "my.yaml").write_text(yaml.safe_dump({**settings, "topology": "my_choices:line"}))
    config = load_config(folder / "my.yaml").on("cpu")
    operators = make_operators(config)
    assert operators["my_ops:Ivdep"].supports("cpp")
    make_archipelago(config, operators)
    stopper = stopper_from(config.budget)
    assert (stopper.reason(EARLY), stopper.reason(LATE)) == (None, "half of the device's limit")
