"""A folder that programs under any user id can reach, and the sandboxes of this machine."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evokernel.evaluate.instruments.recording import Toolbox
from evokernel.evaluate.sandbox import Level, detect_sandbox


@pytest.fixture
def shelf() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="evokernel-test-tools-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def toolbox() -> Toolbox:
    """Return one with the best sandbox there is."""
    return Toolbox(detect_sandbox())


@pytest.fixture
def open_toolbox() -> Toolbox:
    """Return one that has no sandbox with namespaces to try."""
    return Toolbox(replace(detect_sandbox(), level=Level.LANDLOCK, bwrap=None))
