"""What the tests of a store under fire share."""

from pathlib import Path

import pytest

from tests.crash_safety.interpose import compile_interposer
from tests.crash_safety.processes import STORE


@pytest.fixture(scope="session")
def interposer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that ends or refuses a write of a process, or sets its clock."""
    return compile_interposer(tmp_path_factory.mktemp("interposer"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a test has its store."""
    return tmp_path / STORE
