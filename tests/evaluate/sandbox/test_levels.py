import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from evokernel.errors import HarnessError
from evokernel.evaluate.sandbox.levels import INSIDE, SandboxLevel, detect_sandbox
from evokernel.evaluate.sandbox.run_once import ProcessLimits, VisiblePaths, run_confined
from evokernel.evaluate.sandbox.seccomp import Children

SECRET = "EVK_TEST_API_KEY"
MARK = f"86399.{os.getpid():07d}"
"""How long programs sleep that must not outlive a test; no other run of the tests has the same."""
PATIENCE_S = 600.0


def at(level):
    sandbox = detect_sandbox(level)
    if sandbox.level is not level:
        pytest.skip(f"this machine does not allow level {level}: {sandbox.describe()}")
    return sandbox


@pytest.fixture(params=list(SandboxLevel))
def sandbox(request):
    return at(request.param)


@pytest.fixture
def guarded(sandbox):
    if sandbox.level is SandboxLevel.RLIMITS:
        pytest.skip("resource limits alone do not guard files")
    return sandbox


def shell(text, sandbox, **options):
    return run_confined(["/bin/sh", "-c", text], sandbox=sandbox, **options)


def test_the_level_is_the_strongest_allowed_and_says_what_it_leaves_open(sandbox):
    assert sandbox.level in sandbox.describe()
    assert "\n" not in sandbox.describe()
    assert detect_sandbox().level is SandboxLevel.FULL or sandbox.level is not SandboxLevel.FULL
    assert sandbox.holes()


def test_weaker_levels_have_more_holes():
    full, landlock, rlimits = (set(detect_sandbox(level).holes()) for level in SandboxLevel)
    assert full <= landlock & rlimits
    assert any("files" in hole for hole in rlimits)
    bare = replace(detect_sandbox(SandboxLevel.RLIMITS), seccomp=False)
    assert any("network" in hole for hole in bare.holes())


def test_a_program_runs_and_its_output_exit_code_and_signal_come_back(sandbox):
    done = shell("echo out; echo err >&2; exit 3", sandbox)
    assert (done.stdout, done.stderr, done.exit_code, done.signal, done.timed_out) == ("out\n", "err\n", 3, None, False)
    killed = shell("kill -SEGV $$", sandbox)
    assert (killed.exit_code, killed.signal) == (None, signal.SIGSEGV)
    assert run_confined(["true"], sandbox=sandbox).ok


def test_a_missing_program_is_our_own_fault(sandbox):
    with pytest.raises(HarnessError, match="not found"):
        run_confined(["no-such-compiler"], sandbox=sandbox)


def test_the_environment_is_clean(sandbox, monkeypatch):
    monkeypatch.setenv(SECRET, "top-secret")
    done = shell("env; cat /proc/1/environ /proc/self/environ 2>/dev/null; cat /proc/$PPID/environ", sandbox)
    assert "PATH=" in done.stdout
    assert SECRET not in done.stdout
    assert "EXTRA=1" in shell("env", sandbox, environment={"EXTRA": "1"}).stdout


def test_the_judges_environment_cannot_be_read(guarded, monkeypatch):
    child = subprocess.Popen(["sleep", "60"], env={SECRET: "top-secret"})
    try:
        done = shell(f"cat /proc/{child.pid}/environ; cat /proc/{os.getpid()}/environ /proc/*/environ", guarded)
    finally:
        child.kill()
        child.wait()
    assert "top-secret" not in done.stdout


def test_files_outside_can_neither_be_read_nor_written(guarded, tmp_path):
    secret = tmp_path / "key"
    secret.write_text("top-secret")
    secret.chmod(0o644)
    left = Path(f"/tmp/evk-left-{os.getpid()}")
    done = shell(f"cat {secret} /etc/passwd; ls /home; echo x > {left}; echo x > /evk-left; echo end", guarded)
    assert done.stdout == "end\n"
    assert not left.exists()
    assert not Path("/evk-left").exists()


def test_a_program_sees_no_process_but_its_own(sandbox):
    if sandbox.level is not SandboxLevel.FULL:
        pytest.skip("only namespaces hide processes")
    assert shell("echo /proc/[0-9]*", sandbox).stdout.split() == ["/proc/1", "/proc/2"]


def test_the_network_is_shut(sandbox):
    if not sandbox.seccomp:
        pytest.skip("without seccomp the network is open, as the sandbox says")
    done = run_confined(["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9"], sandbox=sandbox)
    assert "Operation not permitted" in done.stderr or "Permission denied" in done.stderr


def test_given_paths_are_seen_and_products_come_back(sandbox, tmp_path):
    source, scratch = tmp_path / "in.txt", tmp_path / "scratch"
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if Path(tempfile.gettempdir()) in parent.parents and parent.stat().st_uid == os.getuid():
            parent.chmod(0o755)
    source.write_text("hello")
    source.chmod(0o644)
    scratch.mkdir()
    done = shell(
        f"cp {source} copy; echo no > {source}",
        sandbox,
        paths=VisiblePaths(read_only=(source,), writable=(scratch,), folder=scratch),
    )
    assert (scratch / "copy").read_bytes() == b"hello", done
    if sandbox.as_root or sandbox.level is not SandboxLevel.RLIMITS:
        assert source.read_text() == "hello"


def test_the_compiler_works_and_cannot_include_what_is_outside(sandbox, tmp_path):
    folder = Path("/tmp") / f"evk-test-{os.getpid()}-{sandbox.level}"
    folder.mkdir(mode=0o755)
    (folder / "a.cpp").write_text('#include <vector>\nextern "C" void run() { std::vector<int> v(3); }\n')
    (folder / "b.cpp").write_text('#include "/etc/passwd"\n')
    paths = VisiblePaths(writable=(folder,), folder=folder)
    try:
        built = run_confined(["g++", "-shared", "-fPIC", "-o", "a.so", "a.cpp"], sandbox=sandbox, paths=paths)
        stolen = run_confined(["g++", "-c", "b.cpp"], sandbox=sandbox, paths=paths)
        assert built.ok, built.stderr
        assert (folder / "a.so").read_bytes()[:4] == b"\x7fELF"
        assert not stolen.ok
        assert sandbox.level is SandboxLevel.RLIMITS or "root:" not in stolen.stderr
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)


def test_a_sanitizer_build_runs_and_tells(sandbox):
    folder = _scratch(sandbox)
    (folder / "a.cpp").write_text("int main(int n, char**) { volatile int* p = new int[4]; p[3 + n] = 1; }\n")
    build = ["g++", "-fsanitize=address", "-o", "a", "a.cpp"]
    try:
        built = run_confined(build, sandbox=sandbox, paths=VisiblePaths(writable=(folder,), folder=folder))
        ran = run_confined(
            [str(folder / "a")],
            sandbox=sandbox,
            paths=VisiblePaths(read_only=(folder,)),
            limits=ProcessLimits(memory_bytes=None),
            environment={"ASAN_OPTIONS": "detect_leaks=0:symbolize=0"},
        )
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)
    if "cannot find" in built.stderr:
        pytest.skip("this compiler has no address sanitizer")
    assert built.ok, built.stderr
    assert "heap-buffer-overflow" in ran.stderr


def test_time_runs_out_for_the_whole_tree(sandbox):
    text = f"setsid sleep {MARK} & (setsid sleep {MARK} &); sleep {MARK}"
    for limit_s in (0.3, 3.0, 30.0):  # on a busy machine the sandbox itself takes longer than the shortest
        with contextlib.suppress(HarnessError):
            done = shell(text, sandbox, limits=ProcessLimits(timeout_s=limit_s))
            break
    assert done.timed_out
    assert gone(MARK)


def test_daemons_do_not_outlive_a_program_that_ends_in_time(sandbox):
    done = shell(f"(setsid sleep {MARK} >/dev/null 2>&1 &); exit 0", sandbox)
    assert done.ok
    assert gone(MARK)


def gone(mark):
    """Whether no process with `mark` on its command line is left, soon."""
    deadline = time.monotonic() + PATIENCE_S
    while not gone_now(mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _text(path):
    try:
        return path.read_text().replace("\0", " ").removeprefix("sh") if "sleep" in path.read_text()[:12] else ""
    except OSError:
        return ""


def test_endless_output_is_cut_and_drained(sandbox):
    done = run_confined(
        ["head", "-c", "3000000", "/dev/zero"], sandbox=sandbox, limits=ProcessLimits(output_bytes=1000)
    )
    if sandbox.level is SandboxLevel.LANDLOCK:
        assert "Permission denied" in done.stderr  # no device but /dev/null
        done = shell("yes | head -c 3000000", sandbox, limits=ProcessLimits(output_bytes=1000))
    assert done.ok
    assert len(done.stdout) == 1000


def test_memory_and_file_size_are_bounded(sandbox):
    text = "a=x; while :; do a=$a$a; done"
    done = shell(text, sandbox, limits=ProcessLimits(memory_bytes=256 << 20, timeout_s=PATIENCE_S))
    assert not done.ok
    assert not done.timed_out
    big = run_confined(
        ["sh", "-c", "yes > big"],
        sandbox=sandbox,
        limits=ProcessLimits(file_bytes=1 << 20, timeout_s=PATIENCE_S),
        paths=VisiblePaths(writable=(folder := _scratch(sandbox),), folder=folder),
    )
    size = (folder / "big").stat().st_size
    subprocess.run(["rm", "-rf", folder], check=True)
    assert size == 1 << 20, big


def test_memory_in_use_is_bounded_where_addresses_cannot_be(sandbox):
    text = "a=xxxxxxxx; while [ ${#a} -lt 2000000000 ]; do a=$a$a; done; echo alive"
    limits = ProcessLimits(memory_bytes=None, resident_bytes=256 << 20, timeout_s=PATIENCE_S)
    done = shell(text, sandbox, limits=limits)
    assert done.signal == signal.SIGKILL
    assert not done.timed_out
    assert done.too_large
    assert not shell("echo little", sandbox, limits=limits).too_large
    assert "alive" not in done.stdout


def test_a_program_made_from_a_candidate_starts_no_other(sandbox):
    if not sandbox.seccomp:
        pytest.skip("no seccomp here")
    assert shell("exec echo alone", sandbox, children=Children.NONE).stdout == "alone\n"
    forked = shell("sleep 0 & echo started", sandbox, children=Children.NONE)
    assert "started" not in forked.stdout
    assert "fork" in forked.stderr.lower()


def _scratch(sandbox):
    folder = Path("/tmp") / f"evk-test-{os.getpid()}-{sandbox.level}-big"
    folder.mkdir(mode=0o755)
    return folder


def test_a_program_that_kills_its_supervisor_is_its_own_victim(sandbox):
    done = shell("kill -9 $PPID; sleep 0.2; echo alive", sandbox, limits=ProcessLimits(timeout_s=PATIENCE_S))
    assert done.ok or done.signal == signal.SIGKILL


def test_a_killed_judge_takes_the_program_along(sandbox):
    code = (
        "from evokernel.evaluate.sandbox.levels import *\n"
        "from evokernel.evaluate.sandbox.run_once import *\n"
        f"run_confined(['sleep', '{MARK}1'], sandbox=detect_sandbox(SandboxLevel('{sandbox.level}')))"
    )
    judge = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    while gone_now(MARK + "1"):
        assert judge.poll() is None
        time.sleep(0.02)
    judge.kill()
    judge.wait()
    assert gone(MARK + "1")


def gone_now(mark):
    return not any(mark in _text(path) for path in Path("/proc").glob("[0-9]*/cmdline"))


def test_a_compiler_call_imports_nothing_slow_before_the_compiler() -> None:
    imports = "import sys; sys.path.append(sys.argv[1]); import inside.process.run_program; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-B", "-c", imports, str(INSIDE.parent)]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert "inside.process.run_program" in loaded
    assert not loaded & {"enum", "typing", "re", "collections"}
