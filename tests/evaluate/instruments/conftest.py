"""A folder that programs under any user id can reach, and the sandboxes of this machine."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evokernel.evaluate.instruments.tool_run import ToolRunner
from evokernel.evaluate.sandbox.levels import SandboxLevel, detect_sandbox


@pytest.fixture
def shelf() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="evokernel-test-tools-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def toolbox() -> ToolRunner:
    """Return one with the best sandbox there is."""
    return ToolRunner(detect_sandbox())


@pytest.fixture
def open_toolbox() -> ToolRunner:
    """Return one that has no sandbox with namespaces to try."""
    return ToolRunner(replace(detect_sandbox(), level=SandboxLevel.LANDLOCK, bwrap=None))
