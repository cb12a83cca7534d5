"""The command itself: help without heavy imports, unknown commands, errors as messages."""

import gc
import logging
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from evokernel.cli.group import SECTIONS, main
from tests.cli.conftest import Call
from tests.support.serving import wait_until
from tests.support.stores import StoreBuilder, fill_store

ROOT = Path(__file__).parents[2]

HEAVY = {"torch", "numpy", "networkx", "pydantic", "yaml", "zstandard", "deap", "litellm"}
FAILS_OTHERWISE = """
            try:
                raise_signal(SIGINT)
            except KeyboardInterrupt:
                raise ImportError("cannot load module more than once per process")"""
"""What numpy does where an interrupt stops its import."""
HELP = "from evokernel.cli.group import main; main(['--help'], prog_name='evokernel')"


def test_help_imports_nothing_heavy() -> None:
    report = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", HELP], capture_output=True, text=True, check=True
    ).stderr
    imported = {match.split(".")[0] for match in re.findall(r"\|\s+(\S+)$", report, flags=re.M)}
    assert not imported & HEAVY
    assert "click" in imported


def test_help_is_quick() -> None:
    def seconds() -> float:
        """Processor time, which a busy machine does not prolong as it does the time until the end."""
        began = os.times()
        subprocess.run([sys.executable, "-c", HELP], capture_output=True, check=True)
        ended = os.times()
        return ended.children_user + ended.children_system - began.children_user - began.children_system

    assert min(seconds() for _ in range(4)) < 0.3


def test_help_lists_every_command(call: Call) -> None:
    text = " ".join(call("--help").output.split())
    for entries in SECTIONS.values():
        for name, line in entries.items():
            assert name in text
            assert line in text


def test_version(call: Call) -> None:
    assert call("--version").output.startswith("evokernel 0.")


def test_unknown_command_suggests_the_nearest(call: Call) -> None:
    result = call("bets")
    assert result.exit_code == 2
    assert "did you mean 'best'" in result.stderr


def test_our_errors_are_one_message_and_exit_code_2(project: object, call: Call) -> None:
    result = call("best")
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: there is no store under runs/; "
        "name one or its config, or start a search with `evokernel evolve CONFIG`\n"
    )
    assert result.stdout == ""


def test_an_error_cannot_steer_the_terminal(project: object, call: Call) -> None:
    result = call("best", "no\x1b[2Jsuch.db")
    assert result.exit_code == 2
    assert "\x1b" not in result.stderr


def test_a_missing_config_is_a_message(project: object, call: Call) -> None:
    result = call("evolve", "nowhere.yaml")
    assert result.exit_code == 2
    assert "there is no config nowhere.yaml" in result.stderr


def test_a_missing_torch_is_a_message(project: Path) -> None:
    (project / "a.yaml").write_text(
        "task: gemm\nbudget: {evaluations: 1}\nislands: [{name: a, operators: {tune: 1}}]\n"
    )
    without = (
        "import sys; sys.modules['torch'] = None; from evokernel.cli.group import main; main(['evolve', 'a.yaml'])"
    )
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "needs torch, which is not installed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_tasks_ids_operators_and_stores(project: Path, call: Call, shell: str) -> None:
    ids = fill_store(project / "runs" / "gemm.db")

    def completed(*words: str) -> str:
        instruction = {"_EVOKERNEL_COMPLETE": f"{shell}_complete", "COMP_WORDS": " ".join(words)}
        word = words[-1] if shell == "fish" else str(len(words) - 1)
        result = CliRunner().invoke(main, env={**instruction, "COMP_CWORD": word}, prog_name="evokernel")
        return result.output

    assert "softmax" in completed("evokernel", "tasks", "sof")
    assert ids["best"] in completed("evokernel", "show", "--store", "runs/gemm.db", ids["best"][:3])
    assert ids["best"] in completed("evokernel", "lineage", ids["best"][:3])
    assert "refine" in completed("evokernel", "ask", "--operator", "ref")
    assert "runs/gemm.db" in completed("evokernel", "best", "runs/g")
    assert completed("evokernel", "show", "--store", "runs/nothing.db", "a").strip() == ""


def test_a_reader_that_goes_away_ends_a_command_quietly(project: Path) -> None:
    with StoreBuilder(project / "runs" / "long.db") as builder:
        first = builder.seed(source="// seed\n")
        second = builder.add("// a line\n" * 20_000, speedup=2.0, parents=(first,))
    command = [sys.executable, "-m", "evokernel", "diff", "runs/long.db", first, second]
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (128 + signal.SIGPIPE, b"")


def test_an_interrupt_is_no_verdict(project: Path) -> None:
    Path("endless.py").write_text("def endless(x):\n    while True:\n        pass\n")
    command = [sys.executable, "-m", "evokernel", "init", "endless.py", "--inputs", "x: 4x4"]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert b"running the operation" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 128 + signal.SIGINT
    assert said.splitlines()[-1] == b"interrupted"


def test_init_stops_and_goes_on_as_a_whole(project: Path) -> None:
    Path("sleeps.py").write_text("import os, time\n\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    command = [sys.executable, "-m", "evokernel", "init", "sleeps.py", "--inputs", "x: 4x4"]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        at_work = int(process.stdout.readline())
        try:
            process.send_signal(signal.SIGTSTP)  # as a terminal does on Ctrl-Z
            wait_until(lambda: _states(process.pid, at_work) == ["T", "T"])
            process.send_signal(signal.SIGCONT)
            wait_until(lambda: "T" not in _states(process.pid, at_work))
        finally:
            process.kill()


def _states(*processes: int) -> list[str]:
    return [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[0] for each in processes]


@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [
        ("os.abort()", 2, "Error: SIGABRT ended the process that ran the operation"),
        ("os.kill(os.getpid(), 15)", 128 + signal.SIGTERM, ""),  # as somebody would who wants it to end
    ],
)
def test_native_code_that_dies_is_told_apart_from_a_fault_of_ours(
    project: Path, ending: str, code: int, said: str
) -> None:
    Path("dies.py").write_text(f"import os\n\ndef dies(x):\n    {ending}\n")
    command = [sys.executable, "-m", "evokernel", "init", "dies.py", "--inputs", "x: 4x4"]
    died = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert (died.returncode, died.stdout) == (code, "")
    assert said in died.stderr
    assert bool(said) == ("Error" in died.stderr)
    assert "Traceback" not in died.stderr


@pytest.mark.parametrize(
    "command",
    [("tasks", "ends.py"), ("evaluate", "k.cpp", "--task", "ends.py"), ("init", "ends.py", "--inputs", "x: 4")],
)
def test_a_file_that_ends_the_process_is_no_verdict(
    project: Path, call: Call, command: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    (project / "ends.py").write_text("import sys\n\nsys.exit()\n")
    (project / "k.cpp").write_text("// a kernel\n")
    refused = call(*command)
    assert (refused.exit_code, f"{project / 'ends.py'}:3 ends the process" in refused.stderr) == (2, True)
    gc.collect()  # a task whose exception nobody read says so when it goes, in the middle of other work
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    "command",
    [("doctor", "--model", " "), ("evolve", "c.yaml", "--model", ""), ("watch", "c.yaml.txt"), ("watch", ".")],
)
def test_what_cannot_be_meant_is_refused_at_once(project: Path, call: Call, command: tuple[str, ...]) -> None:
    (project / "c.yaml").touch()
    (project / "c.yaml.txt").write_text("a text\n")
    refused = call(*command)
    assert (refused.exit_code, type(refused.exception)) == (2, SystemExit), refused.output


@pytest.mark.parametrize(
    ("module", "stopped"),
    [
        ("click", "raise_signal(SIGINT)"),
        ("click._textwrap", "raise_signal(SIGINT)"),  # where the command line is read, by --help
        ("sqlite3", "raise_signal(SIGINT)"),
        ("sqlite3", FAILS_OTHERWISE),
    ],
)
def test_an_interrupt_while_parts_are_imported_is_quiet(project: Path, module: str, stopped: str) -> None:
    program = f"""
import sys
from signal import SIGINT, raise_signal


class Interrupter:
    def find_spec(self, name, *others):
        if name == {module!r}:
            {stopped}


sys.meta_path.insert(0, Interrupter())
from evokernel.cli import main

main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, *(["--help"] if "textwrap" in module else ["status"])],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (130, b"\ninterrupted\n")


def test_an_interrupt_of_the_script_before_anything_of_ours_is_imported_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "evokernel.py").write_text("from signal import SIGINT, raise_signal\n\nraise_signal(SIGINT)\n")
    script = ROOT / "evokernel" / "__main__.py"
    done = subprocess.run(
        [sys.executable, script, "status"], env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True
    )
    assert (done.returncode, done.stderr) == (130, b"")
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"evokernel": "evokernel.__main__:start"}


@pytest.mark.parametrize(
    ("command", "missing"), [("diff", "'A': an id"), ("fork", "'ID': an id"), ("pin", "'ID': an id"), ("tell", "'DIR'")]
)
def test_a_store_alone_is_no_candidate_and_no_folder(call: Call, command: str, missing: str) -> None:
    refused = call(command, "runs/gemm.db")
    assert (refused.exit_code, f"Missing argument {missing}" in refused.stderr) == (2, True)


@pytest.mark.parametrize("command", [("best",), ("verify",), ("lineage",), ("diff", "seed", "best")])
def test_an_option_and_an_argument_name_a_store_alike(project: Path, call: Call, command: tuple[str, ...]) -> None:
    fill_store(project / "runs" / "gemm.db")
    fill_store(project / "other.db")
    name, *rest = command
    option, argument = call(name, "-s", "other.db", *rest), call(name, "other.db", *rest)
    assert (option.exit_code, argument.exit_code) == (0, 0), option.output + argument.output
    assert option.output == argument.output
    refused = call(name, "-s", "other.db", "runs/gemm.db", *rest)
    assert (refused.exit_code, "two stores are named" in refused.stderr) == (2, True)
