import pytest

from archive.store import Store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.db"


@pytest.fixture
def store(path):
    with Store.open(path, write=True) as opened:
        yield opened
