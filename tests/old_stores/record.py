"""Records stores of today's schema, and exports of one, for the tests of later releases.

Run it on the last commit before the schema changes: `python -m tests.old_stores.record` takes about five minutes on a
processor, needs no key and overwrites `vN_*.gz` of today's N beside it. Those of other schemas are never made again:
they are what releases that no longer exist wrote. Then add the three to `OLD` in tests/crash_safety/test_versions.py.

- `vN_finished` is a search by rules that used up its budget, with the kernel it exported (`vN_export.tar.gz`);
- `vN_killed` is one that was ended with SIGKILL with proposals in flight, kept with its log;
- `vN_models` asked a model (recorded replies), and people took part: every table but `leases` has rows, and its
  prompts and replies are exported as rows for training (`vN_training.tar.gz`).
"""

import gzip
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from archive.file import file_version
from archive.store import Store
from tests.crash_safety.processes import ROOT, environment

HERE = Path(__file__).parent
QUICK = {"quick_ms": 4, "precise_ms": 8, "final_ms": 10, "final_processes": 1}
"""Clock times in ms and a count under which judging costs seconds: nobody reads the speed-ups."""
SETTINGS = [word for name, value in QUICK.items() for word in ("--set", f"evaluation.{name}={value}")]
IMAGES = "from evokernel import state_image; state_image.EVERY = 10; from evokernel.cli import main; main()"
"""The command line, but an image of the state is taken after one fact, not after hundreds."""


def main() -> None:
    """Record everything anew."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "configs", folder / "configs")
        record_finished(folder)
        record_killed(folder)
        record_models(folder)


def run(folder: Path, *words: object) -> None:
    """Run the command line in a folder. Raises `CalledProcessError`."""
    subprocess.run([sys.executable, "-c", IMAGES, *map(str, words)], cwd=folder, env=environment(), check=True)


def record_finished(folder: Path) -> None:
    """Record a search that used up its budget, and the kernel it found."""
    name = f"v{file_version.VERSION}_finished"
    run(folder, *evolve("gemm", name), "--set", "device=cpu", "--budget", "evaluations=15")
    pack(folder / f"{name}.db")
    run(folder, "export", "--store", f"{name}.db", "--out", "kernel")
    pack_folder(folder / "kernel", "export")


def record_killed(folder: Path) -> None:
    """Record a search that was ended while something was in flight."""
    path = folder / f"v{file_version.VERSION}_killed.db"
    words = [sys.executable, "-m", "evokernel", *evolve("gemm", path.stem), "--set", "device=cpu", "--set", "seed=1"]
    with subprocess.Popen(words, cwd=folder, env=environment()) as process:
        while not in_flight(path):
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    pack(path)


def in_flight(path: Path) -> bool:
    """Whether a store holds some results, and proposals that wait for theirs."""
    if not path.exists():
        return False
    with Store.open(path, write=False) as store:
        return store.counts().in_flight > 1 and store.last_seq() > 10


def record_models(folder: Path) -> None:
    """Record a search by models that people took part in, and its rows for training."""
    path = folder / f"v{file_version.VERSION}_models.db"
    run(folder, *evolve("gemm_llm", path.stem), "--budget", "evaluations=5")
    with Store.open(path, write=False) as store:
        ranked = [each.candidate.candidate.id for each in store.best(2)]
    (folder / "mine.cpp").write_text("// by hand\n" + (ROOT / "evokernel/tasks/gemm/seeds/naive.cpp").read_text())
    run(folder, "hint", path.name, "Keep rows of b in registers.", "--island", "ideas")
    run(folder, "pin", path.name, ranked[0])
    run(folder, "ban", path.name, ranked[-1])
    run(folder, "inject", path.name, "mine.cpp", "--why", "to be judged with a comment")
    Store.inbox_put(path, "insight", {"kind": "lesson", "title": "Rows first", "text": "Walk rows."}, author="a person")
    run(folder, *evolve("gemm_llm", path.stem), "--budget", "evaluations=10", "--set", "prompt_tokens=15000")
    pack(path)
    run(folder, "export", "--training", "rows", path.name)
    pack_folder(folder / "rows", "training")


def evolve(config: str, name: str) -> list[str]:
    """Return the words that make a store of a name."""
    return ["evolve", f"configs/{config}.yaml", "--store", f"{name}.db", *SETTINGS]


def pack(path: Path) -> None:
    """Keep a store, with its log where there is one."""
    for file in path.parent.glob(f"{path.name}*"):
        if file.name.endswith((".db", "-wal")) and (file.stat().st_size or file == path):
            packed = HERE / f"{file.name}.gz"
            packed.write_bytes(gzip.compress(file.read_bytes(), mtime=0))
            print(f"{packed.name}: {packed.stat().st_size} bytes")


def pack_folder(folder: Path, name: str) -> None:
    """Keep a folder."""
    with tarfile.open(HERE / f"v{file_version.VERSION}_{name}.tar.gz", "w:gz") as archive:
        archive.add(folder, arcname=name, filter=lambda entry: None if "__pycache__" in entry.name else entry)


if __name__ == "__main__":
    main()
