"""Builds a Triton source where there is no GPU: records its launches on stand-ins and compiles their kernels.

Runs in a single-use process: it leaves Triton, torch and the environment changed.
"""

import os
from functools import partial
from pathlib import Path
from typing import Any

from . import recording, triton_faults
from .kernel_cache import KernelCache
from .parallel_compile import compile_in_parallel
from .recorded_build import recorded_build
from .triton_driver import RecordingDriver, activate, warm

CACHE = "cache"

warm()  # once, in the process that the single-use ones are forked from


def answer(request: dict[str, Any], folder: str) -> tuple[dict[str, Any], bytes]:
    """Compile a source for some shapes.

    Args:
        request: `source`; `capability` (90 for 9.0); `properties` of the device by name; `shapes`, each a list of
            arguments, `{"kind": "tensor", "name", "shape", "dtype"}` or `{"kind": "scalar", "value"}`; `measured`, how
            many of the shapes, from the first, to describe; `processes`, how many may compile at once, if not one;
            `known`, the compiled kernels of an earlier build of the same source, if there was one (see `kernel_cache`).
        folder: where the compiler may write.

    Returns:
        Either `failure` (see `triton_faults`; `hidden` where it came up on a shape that is not described), or `plans`
        (one per measured shape, see `recording`), `unrecordable` (why they are no plans, or None), `cubins` (facts by
        SHA-256 of the measured ones) and `compile_ms`; with the latter a bundle of `kernel.py`, `plans.json` for all
        shapes, and the compiled kernels as `cache/KEY/NAME.json` and `.cubin`, which `triton_driver.use_cache` takes.
    """
    os.environ["TRITON_CACHE_DIR"] = str(Path(folder, CACHE))
    kernels = KernelCache(Path(folder), request.get("known", {}))
    recorder = recording.Recorder(request["capability"], request["properties"])
    with triton_faults.errors_of_the_compiler(Path(folder, "stderr")) as messages:
        return recorded_build(
            request,
            Path(folder),
            recorder,
            route=lambda: activate(RecordingDriver(recorder)),
            compiled=kernels.files,
            describe=lambda error: triton_faults.describe(error, request["source"], messages()),
            ahead=partial(
                compile_in_parallel,
                shapes=request["shapes"],
                recorder=recorder,
                processes=request.get("processes", 1),
                folder=Path(folder),
            ),
        )
