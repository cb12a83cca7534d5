"""Builds a Triton source where there is no GPU: runs it once per shape on stand-ins and compiles what it launches.

Runs in a single-use process: it leaves Triton, torch and the environment changed.
"""

import linecache
import os
import time
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import bundle, cubins, triton_faults
from .triton_driver import Image, RecordingDriver, activate, warm
from .triton_standin import Buffers, hosted, stand_in

FILE = "kernel.py"
CACHE = "cache"
_LAUNCH_LIMIT = 1000

warm()  # once, in the process that the single-use ones are forked from


def answer(request: dict[str, Any], folder: str) -> tuple[dict[str, Any], bytes]:
    """Compile a source for some shapes.

    Args:
        request: `source`; `capability` (90 for 9.0); `properties` of the device by name; `shapes`, each a list of
            arguments, `{"kind": "tensor", "name", "shape", "dtype"}` or `{"kind": "scalar", "value"}`; `measured`, how
            many of the shapes, from the first, to describe.
        folder: where the compiler may write.

    Returns:
        Either `failure` (see `triton_faults`; `hidden` where it came up on a shape that is not described), or
        `launches` (one list per measured shape, see `RecordingDriver`), `cubins` (facts by SHA-256 of the measured
        ones) and `compile_ms`; with the latter a bundle of `kernel.py` and the compiled kernels as
        `cache/KEY/NAME.json` and `.cubin`, which `triton_driver.use_cache` takes.
    """
    os.environ["TRITON_CACHE_DIR"] = str(Path(folder, CACHE))
    with triton_faults.errors_of_the_compiler(Path(folder, "stderr")) as messages:
        start = time.perf_counter()
        launches: list[list[dict[str, Any]]] = []
        try:
            images = _record(request, launches)
            compile_ms = (time.perf_counter() - start) * 1e3
            blob = bundle.pack({FILE: request["source"].encode(), **_compiled(Path(folder))})
        except Exception as error:  # noqa: BLE001  whatever a candidate raises is the answer
            failure = triton_faults.describe(error, request["source"], messages())
            return {"failure": {**failure, "hidden": len(launches) >= request["measured"]}}, b""
    used = {launch["cubin"] for shape in launches[: request["measured"]] for launch in shape if "cubin" in launch}
    facts = {digest: cubins.describe(images[digest].cubin, Path(folder)) for digest in sorted(used)}
    return {"launches": launches[: request["measured"]], "cubins": facts, "compile_ms": compile_ms}, blob


def load(source: str) -> types.ModuleType:
    """Run a source as a module called `kernel`, under a file name that says nothing of this machine.

    Triton reads the text of its functions through `linecache`.
    """
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    module = types.ModuleType("kernel")
    module.__file__ = FILE
    exec(compile(source, FILE, "exec"), module.__dict__)
    return module


def _record(request: Mapping[str, Any], recorded: list[list[dict[str, Any]]]) -> dict[str, Image]:
    """Add the launches of each shape to `recorded`; returns what was compiled, by SHA-256."""
    images: dict[str, Image] = {}
    buffers = Buffers()
    driver = RecordingDriver(request["capability"], request["properties"], place=lambda tensor: buffers.place(tensor))
    activate(driver)
    run = load(request["source"]).run
    for shape in request["shapes"]:
        buffers = Buffers()
        driver.launches = []
        _call(run, shape, buffers, driver)
        if not any("kernel" in launch for launch in driver.launches):
            raise RuntimeError("run() launched no Triton kernel")
        recorded.append(driver.launches)
        images.update(driver.images)
    return images


def _call(
    run: Callable[..., object], shape: Sequence[Mapping[str, Any]], buffers: Buffers, driver: RecordingDriver
) -> None:
    arguments: list[Any] = []
    for argument in shape:
        if argument["kind"] == "scalar":
            arguments.append(argument["value"])
        else:
            tensor = stand_in(tuple(argument["shape"]), argument["dtype"])
            buffers.name(tensor, argument["name"])
            arguments.append(tensor)
    with hosted(buffers, driver.launches, capability=driver.capability, properties=driver.properties):
        run(*arguments)
    if len(driver.launches) > _LAUNCH_LIMIT:
        raise RuntimeError(f"run() launched {len(driver.launches)} kernels; the limit is {_LAUNCH_LIMIT}")


def _compiled(folder: Path) -> dict[str, bytes]:
    """Return the compiled kernels with what Triton needs to find and launch them."""
    found: dict[str, bytes] = {}
    for cubin in sorted(folder.glob(f"{CACHE}/*/*.cubin")):
        facts = cubin.with_suffix(".json")
        if facts.is_file():  # written last: without it the compilation did not end
            found |= {str(path.relative_to(folder)): path.read_bytes() for path in (cubin, facts)}
    return found
