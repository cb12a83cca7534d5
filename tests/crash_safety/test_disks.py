"""Disks that fill up or turn read-only under a running search; the same command goes on when they are well again."""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from archive.journal import ResultEntry
from archive.store import Store
from evokernel.engine.search_session import UNBEATEN
from evokernel.errors import TRY_AGAIN_EXIT
from tests.crash_safety.processes import (
    STORE,
    TOY,
    contents,
    ended,
    environment,
    evokernel,
    refusal,
    running,
    small_disk,
    sound_facts,
    toy,
    wait_for_facts,
)
from tests.e2e.kill_and_resume import write_config
from tests.evaluate.ordinary_user import run_as_user
from tests.support.stores import fill_store

TASK = Path(__file__).parents[1] / "e2e" / "small_task.py"
EVALUATIONS = 14


def goes_on(path: Path, evaluations: int = EVALUATIONS) -> None:
    """Run the toy again until its budget is used; nothing that was there before may be missing or be done twice."""
    before = sound_facts(path)
    code, out, err = ended(toy(path, evaluations))
    assert (code, err) == (0, ""), out
    assert f"budget of {evaluations} evaluations used" in out
    after = sound_facts(path)
    assert after[: len(before)] == before
    steps = [fact.step for fact in after if isinstance(fact, ResultEntry)]
    assert len(steps) == len(set(steps)) == evaluations


@pytest.mark.parametrize("kib", [0, 4, 12, 24, 48])
def test_a_disk_too_full_for_a_new_store_keeps_nothing_of_it(tmp_path: Path, kib: int) -> None:
    ids = fill_store(tmp_path / "old.db")
    with small_disk(tmp_path / "disk", 64) as disk:
        (disk / "filler").write_bytes(bytes((64 - kib) * 1024))
        new = disk / "runs" / STORE
        said = refusal("fork", tmp_path / "old.db", ids["best"], new, cwd=tmp_path)
        assert "space" in said or "full" in said
        assert [path.name for path in disk.iterdir()] == ["filler"]


@pytest.mark.slow
def test_a_disk_that_fills_up_ends_the_search_and_it_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 560) as disk:
        path = disk / STORE
        code, _, err = ended(toy(path, EVALUATIONS))
        assert code == 2
        assert "the disk is full: free some space and run the same command again" in err
        assert "Traceback" not in err
        with Store.open(path, write=False) as store:
            assert store.spent().steps > 3
        code, _, err = ended(toy(path, EVALUATIONS))
        assert (code, "free some space" in err) == (2, True), "it did not say so a second time"
        sound_facts(path)
        subprocess.run(["mount", "-o", "remount,size=32m", str(disk)], check=True)
        goes_on(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "words", "writes"), [("3", "full", ("1", "40", "70")), ("4", "made read-only", ("40",))]
)
def test_a_disk_that_refuses_from_one_write_on(
    path: Path, interposer: Path, mode: str, words: str, writes: tuple[str, ...]
) -> None:
    for first in writes:
        process = toy(
            path, EVALUATIONS, LD_PRELOAD=str(interposer), INTERPOSE_STORE=str(path), INTERPOSE_MODE=mode,
            INTERPOSE_FROM=first,
        )  # fmt: skip
        code, _, err = ended(process)
        assert code == 2, err
        assert words in err
        assert "Traceback" not in err
        if path.stat().st_size:
            sound_facts(path)
    goes_on(path)


@pytest.mark.slow
def test_a_limit_on_file_sizes_is_a_disk_that_refuses(path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))

    command = [sys.executable, str(TOY), str(path), "0.0", str(EVALUATIONS)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, preexec_fn=limit, check=False)
    assert done.returncode == 2, done.stderr
    assert "no finished result is lost" in done.stderr
    goes_on(path)


@pytest.fixture
def unchangeable(path: Path) -> Iterator[Path]:
    """A store that a search is to write, whose files can be nailed down with chattr."""
    probe = path.with_name("probe")
    probe.touch()
    if subprocess.run(["chattr", "+i", str(probe)], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs a file system, and a user, that may make files immutable")
    subprocess.run(["chattr", "-i", str(probe)], check=True)
    yield path
    for file in path.parent.iterdir():
        subprocess.run(["chattr", "-i", str(file)], capture_output=True, check=False)


@pytest.mark.slow
def test_files_made_immutable_under_a_search_end_it(unchangeable: Path) -> None:
    path = unchangeable
    with running(toy(path, 100_000)) as process:
        wait_for_facts(path, 8, process=process)
        files = [str(path), f"{path}-wal"]
        subprocess.run(["chattr", "+i", *files], check=True)
        code, _, err = ended(process)
    assert code == 2
    assert "made read-only" in err
    code, _, err = ended(toy(path, EVALUATIONS))
    assert code == 2
    assert "read-only: make the file, the one ending in -wal and their folder writable" in err or "cannot write" in err
    subprocess.run(["chattr", "-i", *files], check=True)
    before = sound_facts(path)
    assert len(before) >= 8
    goes_on(path, EVALUATIONS + sum(isinstance(fact, ResultEntry) for fact in before))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


def as_user(*arguments: object) -> str:
    """Run the command line as an ordinary user, which must refuse in words; return these."""
    done = run_as_user(f"from evokernel.cli.group import main\nmain({[str(argument) for argument in arguments]!r})\n")
    assert done.returncode in (2, TRY_AGAIN_EXIT), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_an_ordinary_user_is_told_what_may_not_be_written(open_folder: Path) -> None:
    folder = open_folder / "runs"
    folder.mkdir()
    config = write_config(open_folder, TASK)
    config.chmod(0o644)
    path = folder / STORE
    assert ended(toy(path, 12, seconds=0.0))[0] == 0
    before = contents(folder)
    folder.chmod(0o755)
    path.chmod(0o644)
    theirs = as_user("evolve", config, "--store", path)
    assert f"cannot write {path}.lock: Permission denied" in theirs
    path.with_name(STORE + ".lock").chmod(0o666)
    assert "make the file" in as_user("evolve", config, "--store", path)
    assert "make the file" in as_user("hint", path, "try this")
    assert "cannot move" in as_user("evolve", config, "--store", path, "--fresh")
    assert "cannot make the folder" in as_user("evolve", config, "--store", folder / "sub" / "x.db")
    folder.chmod(0o700)
    for command in (["status", path], ["hint", path, "x"], ["evolve", config, "--store", path]):
        assert "Permission denied" in as_user(*command)
    folder.chmod(0o755)
    assert contents(folder) == before


@pytest.mark.slow
def test_a_full_disk_for_compilers_is_no_fault_of_a_kernel(tmp_path: Path) -> None:
    config, path = write_config(tmp_path, TASK), tmp_path / "kill.db"
    with small_disk(tmp_path / "scratch", 1500) as scratch:
        said = refusal("evolve", config, "--budget", "evaluations=2", cwd=tmp_path, TMPDIR=str(scratch))
    assert "compilers find no room in" in said
    assert "free 64 MiB there and run the same command again" in said
    assert all(fact.evaluation.status == "harness_error" for fact in sound_facts(path) if isinstance(fact, ResultEntry))
    again = evokernel("evolve", config, "--budget", "evaluations=2", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "passed" in again.stdout or UNBEATEN in again.stdout


@pytest.mark.slow
def test_a_real_search_on_a_disk_that_fills_up(tmp_path: Path) -> None:
    config = write_config(tmp_path, TASK)
    with small_disk(tmp_path / "disk", 330) as disk:
        path = disk / STORE
        said = refusal("evolve", config, "--store", path, "--budget", "evaluations=20", cwd=tmp_path)
        assert "the disk is full: free some space and run the same command again" in said
        before = sound_facts(path)
        assert before
        subprocess.run(["mount", "-o", "remount,size=32m", str(disk)], check=True)
        done = sum(isinstance(fact, ResultEntry) for fact in before)
        again = evokernel("evolve", config, "--store", path, "--budget", f"evaluations={done + 1}", cwd=tmp_path)
        assert again.returncode == 0, again.stderr
        assert sound_facts(path)[: len(before)] == before
