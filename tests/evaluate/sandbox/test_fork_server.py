"""What a zygote is shown and told, beyond what its two programs' own tests use."""

from dataclasses import replace

import pytest

from evokernel.evaluate.build.compile_pool import CompilePool
from evokernel.evaluate.sandbox import seccomp
from evokernel.evaluate.sandbox.fork_server import ForkServer
from evokernel.evaluate.sandbox.levels import SandboxLevel, detect_sandbox
from evokernel.evaluate.sandbox.limits import WorkerLimits
from tests.evaluate.build.test_compile_pool import LIMITS, TOOLBOX, at, told

DEVICE = "/dev/full"


@pytest.mark.parametrize("level", [SandboxLevel.FULL, SandboxLevel.LANDLOCK])
def test_a_device_is_seen_only_where_it_is_given_and_with_it_a_process_may_name_its_threads(level):
    sandbox = at(level)
    paths = [DEVICE, "/proc/self/comm"]
    forge = CompilePool(sandbox, TOOLBOX, limits=LIMITS)
    assert told(forge, "write", paths=paths)["written"] == ([] if level is SandboxLevel.LANDLOCK else paths[1:])
    forge.close()
    restrictions = sandbox.restrictions(seccomp.tool_filter(), limits=LIMITS.rlimits(sandbox), devices=(DEVICE,))
    forge.host = ForkServer(sandbox, replace(forge.host.plan, devices=(DEVICE,), restrictions=restrictions))
    try:
        assert told(forge, "write", paths=paths)["written"] == paths
    finally:
        forge.host.close()


def test_a_worker_may_have_its_address_space_open_and_more_files():
    sandbox = detect_sandbox()
    limits = WorkerLimits(memory_bytes=None, files=4096, file_bytes=1 << 30).rlimits(sandbox)
    assert "AS" not in limits
    assert (limits["NOFILE"], limits["FSIZE"]) == (4096, 1 << 30)
    assert WorkerLimits(memory_bytes=5).rlimits(sandbox)["AS"] == 5


def test_what_was_forgotten_or_never_was_has_no_ending_and_nobody_waits_for_it():
    host = ForkServer(detect_sandbox(), CompilePool(detect_sandbox(), TOOLBOX).host.plan)
    assert host.pid is None
    assert host.ending(7, 60) is None
    assert host.forget(7) is None
    host.close()
    host.close()
