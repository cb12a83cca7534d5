"""Paths and devices that every sandboxed process with a GPU context sees."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evokernel.errors import HarnessError
from evokernel.evaluate.device.nodes import cuda_library_folders, nvidia_nodes
from evokernel.evaluate.device.nvml import visible_gpu
from evokernel.evaluate.sandbox import seccomp
from evokernel.evaluate.sandbox.fork_server import ForkServerSpec
from evokernel.evaluate.sandbox.levels import CLEAN_PATH, Sandbox, in_system, python_paths
from evokernel.evaluate.sandbox.limits import WorkerLimits

START_TIMEOUT_S = 60.0
LIMITS = WorkerLimits(memory_bytes=None, threads=64, files=1024, file_bytes=64 << 20)
PASSED_ON = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def cuda_plan(
    program: str,
    sandbox: Sandbox,
    *,
    packages: Sequence[str] = (),
    preload: Sequence[str] = (),
    prepare: str | None = None,
    options: Mapping[str, Any],
    read: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> ForkServerSpec:
    """Return the spec of a zygote whose forks make contexts on the GPU; the arguments are those of `ForkServerSpec`.

    Raises `HarnessError` if there is no GPU.
    """
    if visible_gpu() is None:
        raise HarnessError("no NVIDIA GPU is visible; `evokernel doctor` says what is missing")
    libraries = cuda_library_folders()
    outside = [folder for folder in (*packages, *libraries) if not in_system(Path(folder).resolve())]
    seen, nodes = [*outside, *read], nvidia_nodes()
    code = seccomp.worker_filter(seccomp.Children.THREADS, gpu=True) if sandbox.seccomp else b""
    restrictions = sandbox.restrictions(
        code, limits=LIMITS.rlimits(sandbox), read=[*python_paths(), *seen, "/proc/self", "/sys"], devices=nodes
    )
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return ForkServerSpec(
        program,
        restrictions,
        packages=packages,
        preload=preload,
        prepare=prepare,
        options=options,
        read=seen,
        devices=nodes,
        environment={
            **passed,
            "PATH": CLEAN_PATH,
            "HOME": "/",
            "USER": "nobody",
            "LD_LIBRARY_PATH": os.pathsep.join(libraries),
            "CUDA_CACHE_DISABLE": "1",
            **(environment or {}),
        },
        start_timeout_s=START_TIMEOUT_S,
    )
