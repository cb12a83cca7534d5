"""Settings of all tests: wall-clock time is never what a test asserts, and what is kept for later is not the user's.

In CI (`CI` in the environment) hypothesis draws the same examples every time, so that what lands is no matter of luck;
everywhere else it looks further.
"""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# As in the judge. More threads of torch, in each of several processes that run tests, spin while they wait for a core
# that another has: five times the processor time, measured.
os.environ.setdefault("OMP_NUM_THREADS", "1")

gc.disable()  # until all tests are imported, and torch with them

settings.register_profile(
    "evokernel",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],  # it looks at the clock, which tells of the machine
)
settings.load_profile("evokernel")
if os.environ.get("CI"):  # it draws numbers of all local modules that the tests before this one happen to have imported
    providers._get_local_constants = lambda: providers._local_constants


DEFAULT_HANDLERS: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
for number, handler in DEFAULT_HANDLERS.items():
    if signal.getsignal(number) is signal.SIG_IGN:  # run in the background, or by nohup: every child would inherit it
        signal.signal(number, handler)


def pytest_collection_finish() -> None:
    """Collect garbage from here on, but look through nothing that was imported: that took 6 % of the time."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Let Triton's bindings end as usual: they would report all their functions as leaks."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Let what a test draws from torch depend on no test before it."""
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)  # `torch.manual_seed` would import the compiler


@pytest.fixture(autouse=True, scope="session")
def cache_of_this_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Find nothing that other sessions compiled, and leave nothing for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
