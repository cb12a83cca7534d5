"""The forge with real forks: what a program does well, what it does badly, and what it cannot do."""

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from evokernel.errors import HarnessError
from evokernel.evaluate.build.compile_pool import (
    BLOB_LIMIT_BYTES,
    JSON_LIMIT_BYTES,
    CompileLimits,
    CompilePool,
    CompilerPrograms,
)
from evokernel.evaluate.sandbox.fork_server import package_folders
from evokernel.evaluate.sandbox.levels import SandboxLevel, detect_sandbox
from tests.evaluate.ordinary_user import run_as_user
from tests.support.processes import descendants

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[3]
TOOLBOX = CompilerPrograms(programs={"odd": "odd"}, preload=("numpy",), folders=(str(PROGRAMS),))
LIMITS = CompileLimits(memory_bytes=512 << 20, scratch_bytes=32 << 20)
MARK = f"86398.{os.getpid():07d}"


def at(level):
    sandbox = detect_sandbox(level)
    if sandbox.level is not level:
        pytest.skip(f"this machine does not allow level {level}: {sandbox.describe()}")
    return sandbox


@pytest.fixture(scope="module", params=list(SandboxLevel))
def forge(request):
    forge = CompilePool(at(request.param), TOOLBOX, limits=LIMITS)
    yield forge
    forge.close()


@pytest.fixture
def guarded(forge):
    if forge.host.sandbox.level is SandboxLevel.RLIMITS:
        pytest.skip("resource limits alone do not guard files")
    return forge


def ask(forge, what, *, timeout_s=120.0, **request):
    return forge("odd", {"do": what, **request}, timeout_s=timeout_s)


def told(forge, what, **request):
    forged = ask(forge, what, **request)
    assert forged.answer is not None, forged
    return forged.answer


def assert_still_works(forge):
    assert told(forge, "compute", n=4, sleep_s=0)["sum"] == 6


def test_a_request_is_answered_with_json_and_bytes(forge):
    forged = ask(forge, "echo", text="grüße", deep=[1, {"a": None}])
    assert forged.answer == {"do": "echo", "text": "grüße", "deep": [1, {"a": None}]}
    assert (forged.blob, forged.error, forged.timed_out) == (b"blob" * 3, "", False)


def test_many_threads_are_answered_at_once_each_by_a_process_of_its_own(forge):
    assert_still_works(forge)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: told(forge, "compute", n=n, sleep_s=0.5), range(8)))
    assert [answer["sum"] for answer in answers] == [n * (n - 1) / 2 for n in range(8)]
    began, ended = ([answer[name] for answer in answers] for name in ("began_s", "ended_s"))
    assert max(sum(first <= at < last for first, last in zip(began, ended, strict=True)) for at in began) > 1
    if forge.host.sandbox.level is not SandboxLevel.FULL:
        assert len({answer["pid"] for answer in answers}) == 8


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("fail", "ValueError: bad tile: 7 is no power of 2"),
        ("leave", "SystemExit: 3"),
        ("vanish", "exited with 0"),
        ("crash", "killed by SIGSEGV; it wrote: last words"),
        ("strange", "TypeError: Object of type object is not JSON serializable"),
        ("listed", "the answer is no JSON object but list"),
        ("nothing", "KeyError: 'nothing'"),
        ("hog", "MemoryError: "),
        ("hog_shared", "OSError: [Errno 12] Cannot allocate memory"),
        ("fill", None),
    ],
)
def test_what_goes_wrong_is_an_error_and_harms_nobody(forge, what, error):
    forged = ask(forge, what)
    assert (forged.answer, forged.blob, forged.timed_out) == (None, b"", False)
    assert forged.error == error or (error is None and forged.error.startswith("OSError"))
    assert_still_works(forge)


def test_a_signal_without_a_name_is_told_by_its_number(forge):
    assert ask(forge, "realtime").error in ("killed by signal 40", "exited with 40")


def test_an_answer_is_bounded(forge):
    assert len(ask(forge, "large", text=10, blob=9 << 20).blob) == 9 << 20
    assert "too large" in ask(forge, "large", text=JSON_LIMIT_BYTES, blob=0).error
    assert "too large" in ask(forge, "large", text=1, blob=BLOB_LIMIT_BYTES + 1).error


@pytest.mark.parametrize("orphan", [False, True])
def test_no_process_is_left_behind(forge, orphan):
    forged = ask(forge, "linger", mark=MARK, orphan=orphan, timeout_s=120.0 if orphan else 0.5)
    assert forged.timed_out is not orphan
    assert ("killed" in forged.error) is not orphan
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _marked(path)]
    assert_still_works(forge)


def _marked(path):
    try:
        return MARK.encode() in path.read_bytes() and b"sleep" in path.read_bytes()[:12]
    except OSError:
        return False


def test_nothing_private_can_be_read_or_written(guarded, tmp_path):
    secret = tmp_path / "key"
    secret.write_text("top-secret")
    shown = [sys.base_prefix, *map(str, package_folders(("numpy",)))]  # and so the folders that lead there
    private = [path for path in Path.home().iterdir() if not any(Path(each).is_relative_to(path) for each in shown)]
    private += [
        Path("/home"),
        Path("/etc/passwd"),
        secret,
        ROOT / ".git",
        ROOT / "README.md",
        Path(f"/proc/{os.getpid()}/environ"),
    ]
    assert told(guarded, "read", paths=list(map(str, private)))["opened"] == []
    places = [str(tmp_path / "left"), "/tmp/evk-left", "/evk-left", "/dev/shm/evk-left", str(PROGRAMS / "left")]
    assert told(guarded, "write", paths=places)["written"] == []


def test_no_network_family_can_be_used(forge):
    if not forge.host.sandbox.seccomp:
        pytest.skip("without seccomp sockets are open, as the sandbox says")
    assert len(told(forge, "connect")["refused"]) == 3


def test_each_request_has_a_folder_of_its_own_which_is_gone_afterwards(forge):
    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(lambda _: told(forge, "scribble", sleep_s=0.3), range(3)))
    for answer in answers:
        assert (answer["found"], answer["left"], answer["same"]) == ([], ["deep", "mine"], True)
        assert not Path(answer["folder"]).exists()


def test_programs_can_be_started_and_no_secret_is_in_their_environment(forge, monkeypatch):
    monkeypatch.setenv("EVK_TEST_API_KEY", "top-secret")
    answer = told(forge, "tool")
    assert answer["said"] == "42\n"
    assert "EVK_TEST_API_KEY" not in answer["environment"]


def test_what_is_preloaded_is_there_before_the_first_request():
    forge = CompilePool(detect_sandbox(), TOOLBOX)
    assert told(forge, "imported", names=["numpy", "torch"])["names"] == ["numpy"]


def test_a_package_that_asks_for_a_temporary_folder_while_it_is_imported_does_no_harm():
    forge = CompilePool(detect_sandbox(), replace(TOOLBOX, preload=("folder_at_import",)))
    assert told(forge, "imported", names=["folder_at_import"])["names"] == ["folder_at_import"]


def test_an_import_that_fails_says_why():
    forge = CompilePool(detect_sandbox(), CompilerPrograms(programs={}, preload=("no_such_package",)))
    with pytest.raises(HarnessError, match="No module named 'no_such_package'"):
        forge("odd", {}, timeout_s=120)


def test_a_dead_zygote_is_an_error_of_ours_and_is_replaced():
    forge = CompilePool(at(SandboxLevel.RLIMITS), TOOLBOX)
    assert_still_works(forge)
    zygote = forge.host.pid
    assert zygote is not None

    def kill_at_work() -> None:
        while not descendants(zygote):
            time.sleep(0.01)
        os.kill(zygote, signal.SIGKILL)

    killer = threading.Thread(target=kill_at_work, daemon=True)
    killer.start()
    with pytest.raises(HarnessError, match="zygote ended"):
        ask(forge, "compute", n=1, sleep_s=10)
    assert_still_works(forge)


def test_it_ends_with_its_last_reference_and_leaks_no_descriptor():
    forge = CompilePool(detect_sandbox(), TOOLBOX)
    before = len(os.listdir("/proc/self/fd"))
    assert_still_works(forge)
    during = len(os.listdir("/proc/self/fd"))
    for what in ("echo", "fail", "crash"):
        ask(forge, what)
    ask(forge, "compute", n=1, sleep_s=5, timeout_s=0.1)
    assert len(os.listdir("/proc/self/fd")) == during
    pid = forge.host.pid
    del forge
    assert not Path(f"/proc/{pid}").exists()
    assert len(os.listdir("/proc/self/fd")) == before


USER_SCRIPT = """
from evokernel.evaluate.build.compile_pool import CompileLimits, CompilePool, CompilerPrograms
from evokernel.evaluate.sandbox.levels import SandboxLevel, detect_sandbox
for level in SandboxLevel:
    forge = CompilePool(
        detect_sandbox(level),
        CompilerPrograms(programs={{"odd": "odd"}}, preload=("numpy",), folders=({folder!r},)),
        limits=CompileLimits(memory_bytes=512 << 20),
    )
    ask = lambda what, **request: forge("odd", {{"do": what, **request}}, timeout_s=120)
    assert not forge.host.sandbox.as_root
    assert ask("tool").answer["said"] == "42\\n"
    scribbled = ask("scribble", sleep_s=0).answer
    assert (scribbled["found"], scribbled["same"]) == ([], True)
    assert "SIGSEGV" in ask("crash").error
    assert ask("hog").error == "MemoryError: "
    assert forge("odd", dict(do="linger", mark={mark!r}, orphan=False), timeout_s=0.3).timed_out
    if level is not SandboxLevel.RLIMITS:
        assert ask("read", paths=["/etc/passwd", "/etc/group"]).answer["opened"] == []
        assert ask("write", paths=["/tmp/evk-left", "/dev/shm/evk-left"]).answer["written"] == []
    forge.close()
print("all well")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_it_serves_an_ordinary_user_at_all_levels():
    done = run_as_user(USER_SCRIPT.format(folder=str(PROGRAMS), mark=MARK))
    assert "all well" in done.stdout, done.stdout + done.stderr
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _marked(path)]


def test_only_folders_with_installed_packages_are_shown(monkeypatch, tmp_path):
    (tmp_path / "checkout" / "thing").mkdir(parents=True)
    (tmp_path / "checkout" / "thing" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [*sys.path, "", str(tmp_path), str(tmp_path / "checkout"), "/nowhere"])
    found = package_folders(("numpy",))
    assert found
    assert all((Path(folder) / "numpy").is_dir() or list(Path(folder).glob("*.dist-info")) for folder in found)
    assert not {str(tmp_path), str(tmp_path / "checkout"), str(ROOT), ""} & set(found)
    assert str(tmp_path / "checkout") in package_folders(("numpy", "thing"))
