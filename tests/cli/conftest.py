"""A filled store and a way to call the command line in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from evokernel.cli.group import main
from tests.support.stores import fill_store

Call = Callable[..., Result]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def ids(project: Path) -> dict[str, str]:
    return fill_store(project / "runs" / "gemm.db")


@pytest.fixture
def call() -> Call:
    runner = CliRunner()
    return lambda *arguments: runner.invoke(main, [str(argument) for argument in arguments], prog_name="evokernel")
