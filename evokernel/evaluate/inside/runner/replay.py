"""Launches one recorded call, once, for a profiler or a sanitizer that watches this process.

No host code of a candidate runs here: the judge has checked the plan and the kernels. Each buffer is an allocation of
exactly its size, so that a memory checker detects one byte too far.
"""

import json
import sys
from pathlib import Path
from typing import Any

from ..driver import streams, virtual_memory
from .recorded_candidate import RecordedCandidate

JOB, INPUTS, CUBINS = "job.json", "inputs", "cubins"
FAULT_EXIT = 71
_POISON = 0xFF  # not a number in every floating-point type
_CHUNK_BYTES = 64 << 20


def main(folder: str) -> None:
    """Launch the call in a folder; end the process, with `FAULT_EXIT` where that failed."""
    code = FAULT_EXIT
    try:
        replay(Path(folder))
        code = 0
    except Exception as error:  # noqa: BLE001  the edge of the process: one line for the judge instead of a traceback
        sys.stderr.write(f"evokernel: {type(error).__name__}: {error}\n")
        sys.stderr.flush()
    sys.exit(code)  # an ordinary exit: a tool reports its findings then


def replay(folder: Path) -> None:
    """Fill new buffers from a folder and launch the steps of its plan. Raises the driver's errors."""
    job = json.loads((folder / JOB).read_text())
    cubins = {path.name: path.read_bytes() for path in (folder / CUBINS).iterdir()}
    virtual_memory.retain_primary_context()
    stream = streams.Stream()
    plan = job["plan"]
    buffers = _buffers(job["buffers"], folder / INPUTS, stream)
    buffers |= {name: streams.allocate(max(size, 1)) for name, size in plan["scratch"].items()}
    recorded = RecordedCandidate({"shapes": [{**plan, "scratch": {}}], "stateful": False}, cubins, stream)
    recorded.select_shape(0)
    for step in recorded.call("", 0, buffers):
        step.queue()
    stream.wait()


def _buffers(table: list[list[Any]], inputs: Path, stream: streams.Stream) -> dict[str, int]:
    """Return addresses by name. `table` has names, sizes, and whether the content is the file's next part."""
    addresses = {}
    with inputs.open("rb") as file:
        for name, size, given in table:
            addresses[name] = address = streams.allocate(max(size, 1))
            if not given:
                stream.fill(address, pattern=_POISON, width=1, count=size)
            for start in range(0, size if given else 0, _CHUNK_BYTES):
                streams.write(address + start, file.read(min(_CHUNK_BYTES, size - start)))
    stream.wait()
    return addresses
