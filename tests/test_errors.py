"""Errors that carry more than a message keep it on their way from one process to another."""

import pickle

import pytest

from evokernel.errors import EvokernelError, KernelFault, WorkerDied


@pytest.mark.parametrize(
    "error",
    [
        KernelFault("an illegal memory access was encountered", "device"),
        KernelFault("ZeroDivisionError: division by zero", "host", line=17),
        WorkerDied("the worker was killed by SIGSEGV", signal=11),
        WorkerDied("the worker exited with 3", exit_code=3),
    ],
)
def test_an_error_survives_pickling(error: EvokernelError):
    found = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)
