"""Everything here needs an NVIDIA GPU, with nobody else on it: `pytest -m gpu tests/gpu`."""

from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session", autouse=True)
def cuda() -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device here")
