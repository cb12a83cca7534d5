import sys
from pathlib import Path

import pytest

from archive.store import Store

sys.path.insert(0, str(Path(__file__).parent))  # for `making`: with importlib mode, test folders are no packages


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.db"


@pytest.fixture
def store(path):
    with Store.open(path, write=True) as opened:
        yield opened
