"""Judges hostile programs for real, in a process of its own, at one sandbox level, as root or as an ordinary user.

The process has a key in its environment, a file that nobody should read in its home, and a folder that everybody may
write. It is a subreaper: whatever a program leaves running, however it hides, becomes its child. After some programs,
and each that leaves something, a witness is judged, a right kernel that looks for what others have left.
"""

import asyncio
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.sandbox.levels import SandboxLevel, detect_sandbox
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity
from tests.escapes.tricks import COMPILE_S, LEAVING
from tests.evaluate.ordinary_user import run_as_user
from tests.support.processes import descendants, take_orphans

PROGRAMS = Path(__file__).parent / "programs"
TASK = Path(__file__).parents[1] / "e2e" / "small_task.py"
KEY = "EVK_TEST_API_KEY"
JOB = "EVK_HOSTILE_JOB"
MEMORY_MIB = 256
MOST_PROCESSES = 400  # of the ordinary user: a net below the sandbox's own
AT_ONCE = 2
CONTENT = "as it was"
SETTLES_S = 60.0
LIMIT_S = 1500.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where hostile programs are judged: what they are told of it, and what must not have changed there."""

    folder: Path

    @property
    def name(self) -> str:
        """What the names of all files begin with that programs leave."""
        return f"evk-left-{self.folder.name}"

    @property
    def key(self) -> str:
        """What is secret."""
        return f"secret-of-{self.folder.name}"

    def source(self, program: str) -> str:
        """Return the text of a program of the folder, ready to be judged."""
        told = {"FOLDER": str(self.folder), "TOKEN": self.name, "SECRET": self.key}
        lines = [f'#define {name} "{value}"\n' for name, value in told.items()]
        owner = self.folder.stat().st_uid
        lines.append(f"#define MEMORY_BYTES ({MEMORY_MIB}ull << 20)\n#define OWNER {owner}u\n")
        return "".join(lines) + (PROGRAMS / "prelude.h").read_text() + (PROGRAMS / f"{program}.cpp").read_text()

    def left(self) -> list[str]:
        """Return the files that programs and compilers have left."""
        known = (".", "/", "/tmp", "/var/tmp", "/dev/shm", "/dev", "/run", self.folder / "open")
        found = [path for folder in known for path in Path(folder).glob(f"{self.name}*")]
        found += (self.folder / "tmp").iterdir()
        return sorted(map(str, found))

    def changed(self) -> bool:
        """Tell whether a file that everybody may write is not what it was."""
        file = self.folder / "open" / "file"
        return not file.exists() or file.read_text() != CONTENT

    def remove_left(self) -> None:
        """Remove what programs have left where everybody may write."""
        for name in self.left():
            path = Path(name)
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


@contextmanager
def make_place(uid: int) -> Iterator[Place]:
    """Make a folder that a user owns, with a home that everybody may read and a folder that everybody may write."""
    folder = Path(tempfile.mkdtemp(prefix="evk-hostile-", dir="/tmp"))
    place = Place(folder)
    try:
        for name, mode in (("home", 0o755), ("tmp", 0o755), ("cache", 0o755), ("open", 0o777)):
            (folder / name).mkdir()
            (folder / name).chmod(mode)
        (folder / "home" / "key").write_text(place.key)
        (folder / "home" / "key").chmod(0o644)
        (folder / "open" / "file").write_text(CONTENT)
        (folder / "open" / "file").chmod(0o666)
        folder.chmod(0o755)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, uid, uid)
        yield place
    finally:
        place.remove_left()
        shutil.rmtree(folder)


def judged(
    place: Place,
    level: SandboxLevel,
    programs: Sequence[str],
    *,
    witnessed: Sequence[str],
    as_somebody_else: bool,
    threads: int = 1,
) -> dict[str, Any]:
    """Return what became of the programs, of the witness after some, the `witnessed`, and what was left in the end."""
    script = "from tests.escapes.judging import main\nmain()\n"
    job = {"folder": str(place.folder), "level": level, "programs": list(programs), "threads": threads}
    job |= {"as_somebody_else": as_somebody_else, "witnessed": list(witnessed)}
    environment = {
        JOB: json.dumps(job),
        KEY: place.key,
        "HOME": str(place.folder / "home"),
        "TMPDIR": str(place.folder / "tmp"),
        "XDG_CACHE_HOME": str(place.folder / "cache"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = (
        _as_user(script, environment, place.folder.stat().st_uid)
        if as_somebody_else
        else _as_we_are(script, environment)
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def _as_user(script: str, environment: dict[str, str], uid: int) -> "subprocess.CompletedProcess[str]":
    return run_as_user(f"os.environ.update({environment!r})\n" + script, timeout_s=LIMIT_S, uid=uid)


def _as_we_are(script: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", script]
    given = {**os.environ, **environment}
    return subprocess.run(command, env=given, cwd="/", capture_output=True, text=True, timeout=LIMIT_S, check=False)


def main() -> None:
    """Judge what the environment names, and print a report as the last line."""
    take_orphans(True)
    job = json.loads(os.environ.pop(JOB))
    if job["as_somebody_else"]:
        resource.setrlimit(resource.RLIMIT_NPROC, (MOST_PROCESSES, MOST_PROCESSES))
    place, level = Place(Path(job["folder"])), SandboxLevel(job["level"])
    sandbox = detect_sandbox(level)
    report: dict[str, Any] = {
        "level": sandbox.level,
        "holes": sandbox.holes(),
        "sandbox": sandbox.describe(),
    }
    if sandbox.level is level:
        report |= asyncio.run(_judge(place, level, job["programs"], job["witnessed"], threads=job["threads"]))
        report["processes"] = _settled()
        report["changed"] = place.changed()
        report["left"] = place.left()
    print(json.dumps(report))


async def _judge(
    place: Place, level: SandboxLevel, programs: Sequence[str], witnessed: Sequence[str], *, threads: int
) -> dict[str, Any]:
    settings = EvaluationConfig(
        quick_ms=4, precise_ms=4, timeout_s=2, compile_timeout_s=COMPILE_S, memory_mib=MEMORY_MIB, sandbox=level.value
    )
    language = local_language("cpp", settings, threads=threads)
    turns = asyncio.Semaphore(AT_ONCE)

    witness = place.source("witness")
    async with open_evaluator(str(TASK), language, settings=settings, threads=threads) as evaluator:

        async def one(source: str) -> Evaluation:
            request = EvaluationRequest(Candidate(source, "cpp"), language.program_hash(source), Fidelity.QUICK)
            return await evaluator.evaluate(request)

        async def both(name: str) -> tuple[Evaluation, Evaluation]:
            return await one(source_of(place, name)), await one(witness)

        async def in_turn(name: str) -> tuple[Evaluation, Evaluation | None]:
            async with turns:
                return await both(name) if name in witnessed else (await one(source_of(place, name)), None)

        first = await one(witness)
        started, files = len(descendants()), len(os.listdir("/proc/self/fd"))
        tidy = [name for name in programs if name not in LEAVING]
        judged_tidy = await asyncio.gather(*map(in_turn, tidy))
        found = dict(zip(tidy, judged_tidy, strict=True))
        last = await one(witness)
        for name in (name for name in programs if name in LEAVING):  # last, not to spoil the others
            found[name] = await both(name)
        return {
            "verdicts": {name: _told(verdict) for name, (verdict, _) in found.items()},
            "witnesses": {name: _told(after) for name, (_, after) in found.items() if after is not None},
            "first": _told(first),
            "last": _told(last),
            "more_processes": len(descendants()) - started,
            "more_files": len(os.listdir("/proc/self/fd")) - files,
        }


def source_of(place: Place, program: str) -> str:
    return SOURCES[program] * REPEATS.get(program, 1) if program in SOURCES else place.source(program)


SOURCES = {"empty": "", "no_text": "\ufeff\udcff\udc80 run", "fifty_mib": 'extern "C" void run() {}\n'}
"""Programs that are no text of the folder."""
REPEATS = {"fifty_mib": (50 << 20) // len(SOURCES["fifty_mib"]) + 1}


def _told(evaluation: Evaluation) -> dict[str, Any]:
    told = {"status": evaluation.status, "stage": evaluation.stage, "feedback": evaluation.feedback}
    return told | {"sanitized": evaluation.metrics.get("sanitized", 0.0)}


def _settled() -> list[int]:
    """Return the processes that are left, after a while for those that are ending."""
    deadline = time.monotonic() + SETTLES_S
    while (found := descendants()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return sorted(found)
