"""One build of a source for a GPU, in any language: load it, record its launches, and answer with what was compiled."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..process import bundle
from . import cubin_description, load_module, recording


def recorded_build(
    request: Mapping[str, Any],
    folder: Path,
    recorder: recording.Recorder,
    *,
    route: Callable[[], object],
    compiled: Callable[[], Mapping[str, bytes]],
    describe: Callable[[Exception], dict[str, Any]],
    ahead: Callable[[Callable[..., object]], None] = lambda run: None,
) -> tuple[dict[str, Any], bytes]:
    """Return the answer and the bundle that `triton_build.answer` describes.

    Args:
        route: leads this process's launches to the recorder.
        compiled: returns the compiled kernels as files of the bundle.
        describe: returns the failure for an exception.
        ahead: compiles what it can of what `run` will launch.
    """
    source, measured, start = request["source"], request["measured"], time.perf_counter()
    try:
        route()
        run = load_module.load(source).run
        ahead(run)
        recorded = recording.record(run, request["shapes"], measured=measured, recorder=recorder)
        compile_ms = (time.perf_counter() - start) * 1e3
        files = {load_module.FILE: source.encode(), recording.FILE: recorded.document()}
        blob = bundle.pack({**files, **compiled()})
    except Exception as error:  # noqa: BLE001  a candidate may raise anything, and the answer reports it
        return {"failure": {**describe(error), "hidden": recorder.index >= measured}}, b""
    return {
        "plans": recorded.plans[:measured],
        "unrecordable": recorded.unrecordable,
        "cubins": {
            each: cubin_description.describe(recorder.cubins[each], folder) for each in recorded.cubins(measured)
        },
        "compile_ms": compile_ms,
    }, blob
