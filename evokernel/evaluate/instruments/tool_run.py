"""One recorded call as files, launched by a process of ours under a tool."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evokernel.evaluate.device.nodes import cuda_library_folders, nvidia_nodes
from evokernel.evaluate.inside.runner.replay import CUBINS, INPUTS, JOB
from evokernel.evaluate.sandbox.gpu_access import PASSED_ON
from evokernel.evaluate.sandbox.levels import INSIDE, Sandbox, SandboxLevel, in_system
from evokernel.evaluate.sandbox.run_once import ProcessLimits, VisiblePaths, let_read, run_confined
from evokernel.evaluate.sandbox.seccomp import Children
from evokernel.records.process_exit import ProcessExit

PROGRAM = "runner.replay"
OUTSIDE = "outside of the sandbox, in which it does not work here"
_LIMITS = ProcessLimits(memory_bytes=None, processes=1024, files=1024)
_MORE_OF_TOOLS = Path("/opt/nvidia")  # a toolkit's `ncu` is a script that starts the one below this folder


@dataclass(frozen=True, slots=True)
class RecordedTensor:
    """A tensor of a call."""

    name: str
    size_bytes: int
    """Size of its buffer."""
    content: bytes | None = None
    """Bytes before the call; None where the call writes it."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of a candidate, ready to be launched."""

    label: str
    """The workload's name in feedback."""
    plan: Mapping[str, Any]
    """The checked plan as JSON."""
    cubins: Mapping[str, bytes]
    """Cubins that it launches, by SHA-256."""
    buffers: Sequence[RecordedTensor]
    """Tensors in the order of the signature."""
    hidden: bool = False
    """Feedback must not reveal the shape."""


@contextmanager
def laid_out(call: RecordedCall) -> Iterator[Path]:
    """Yield a world-readable folder with the files of `inside.runner.replay`; removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="evokernel-replay-") as name:
        folder = Path(name)
        (folder / CUBINS).mkdir()
        for digest, image in call.cubins.items():
            (folder / CUBINS / digest).write_bytes(image)
        table = [[each.name, each.size_bytes, each.content is not None] for each in call.buffers]
        (folder / JOB).write_text(json.dumps({"plan": call.plan, "buffers": table}))
        with (folder / INPUTS).open("wb") as file:
            for each in call.buffers:
                file.write(each.content or b"")
        let_read(folder)
        yield folder


class ToolRunner:
    """Runs tools on recorded calls: in the sandbox, or with less confinement where a tool fails there.

    The process that a tool starts runs no host code of a candidate. Outside the sandbox only the protection against
    faults of the driver's loader is missing. A tool needs sockets and the right to look into its child, so only a
    sandbox with namespaces is tried. `cpus` are the cores it may use; none for those of the caller.
    """

    def __init__(self, sandbox: Sandbox, *, cpus: Sequence[int] = ()) -> None:
        apart = all(map(_open_to_all, (INSIDE, *map(Path, sandbox.program(PROGRAM, "")[:1]))))
        first_uid = sandbox.first_uid if apart else None
        outside = Sandbox(SandboxLevel.RLIMITS, first_uid=first_uid)
        self._choices = [sandbox, outside] if sandbox.level is SandboxLevel.FULL else [outside]
        self._cpus = cpus

    @property
    def sandboxed(self) -> bool:
        """Say whether the tool runs in the sandbox, as far as is known."""
        return self._choices[0].level is SandboxLevel.FULL

    def run(
        self,
        tool: Path,
        options: Sequence[str],
        call: RecordedCall,
        *,
        answers: Callable[[ProcessExit], bool],
        timeout_s: float,
    ) -> ProcessExit:
        """Run a tool on one call; `answers` says whether the tool worked, whatever it found. Raises `HarnessError`."""
        with laid_out(call) as folder:
            for sandbox in tuple(self._choices):
                if sandbox not in self._choices:  # another call has found meanwhile where the tool works
                    continue
                done = self._run(tool, options, folder, sandbox=sandbox, timeout_s=timeout_s)
                if answers(done):
                    self._choices = [sandbox]  # it works there: a later failure has another cause
                    break
        return done

    def _run(
        self, tool: Path, options: Sequence[str], folder: Path, *, sandbox: Sandbox, timeout_s: float
    ) -> ProcessExit:
        libraries = cuda_library_folders()
        own = (path for path in (tool.resolve().parent, _MORE_OF_TOOLS) if path.is_dir())
        read = [folder, *(path for path in (*map(Path, libraries), *own) if not in_system(path.resolve()))]
        passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        with tempfile.TemporaryDirectory(prefix="evokernel-tool-") as scratch, self._on_cores():
            os.chmod(scratch, 0o755)  # the tool enters it before it takes the user id that owns it
            return run_confined(
                [str(tool), *options, *sandbox.program(PROGRAM, str(folder))],
                sandbox=sandbox,
                paths=VisiblePaths(read, (Path(scratch),), Path(scratch), nvidia_nodes()),
                limits=replace(_LIMITS, timeout_s=timeout_s),
                environment={
                    **passed,
                    "HOME": scratch,
                    "LD_LIBRARY_PATH": os.pathsep.join(libraries),
                    "CUDA_CACHE_DISABLE": "1",
                },
                children=Children.WATCHED,
            )

    @contextmanager
    def _on_cores(self) -> Iterator[None]:
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self._cpus or before)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)


def _open_to_all(path: Path) -> bool:
    """Say whether other users reach a program or folder."""
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))
