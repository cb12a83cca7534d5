"""`evokernel serve` as a process: it says where it is, answers there, and ends quietly when it is told to."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evokernel.serve.access import TOKEN_VARIABLE
from tests.cli.conftest import Call
from tests.support.serving import Listener, exchange
from tests.support.stores import fill_store

GET = "GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def served(*arguments: str, **environment: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run the command; give the process and the address that it prints."""
    known = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    command = [sys.executable, "-m", "evokernel", "serve", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=known)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def ended(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """Wait for the end of the command; return what it printed after its first line, and its complaints."""
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = process.stdout.read(), process.stderr.read()
    process.wait(600)
    return out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_until_it_is_told_to_end(ids: dict[str, str], number: signal.Signals) -> None:
    with served("runs/gemm.db", "runs/later.db") as (process, url):
        port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/", url)[1])  # type: ignore[index]
        assert exchange(port, GET.format("/0").encode()).status == 200
        with Listener(port, "/events") as stream:
            first, _ = stream.until(lambda news: news["stores"][0]["version"])["stores"]
            assert first["run"]["results"] == 4
            stream.until(lambda news: "there is no store" in news["stores"][1]["problem"])
            fill_store(Path("runs/later.db"))
            stream.until(lambda news: news["stores"][1]["version"] and not news["stores"][1]["problem"])
            process.send_signal(number)
            out, err = ended(process)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1] == "ended"
    assert "runs/later.db, when it is there" in out


def test_beyond_loopback_a_token_is_made_and_asked_for(ids: dict[str, str]) -> None:
    with served("--host", "0.0.0.0") as (process, url):
        found = re.fullmatch(r"http://[^/]+:(\d+)/\?token=([\w-]{32,})", url)
        assert found is not None
        port, token = int(found[1]), found[2]
        assert exchange(port, GET.format("/0").encode()).status == 401
        entered = exchange(port, GET.format(f"/?token={token}").encode())
        cookie = entered.headers["set-cookie"].partition(";")[0]
        assert (
            exchange(port, GET.format("/0").replace("\r\n\r\n", f"\r\nCookie: {cookie}\r\n\r\n").encode()).status == 200
        )
        process.send_signal(signal.SIGINT)
        _, err = ended(process)
    assert "not encrypted" in err


def test_the_token_of_the_environment_is_asked_for_on_loopback_too(ids: dict[str, str]) -> None:
    token = "of-my-own-choosing-0123"
    with served(**{TOKEN_VARIABLE: token}) as (_, url):
        port = int(re.fullmatch(rf"http://127\.0\.0\.1:(\d+)/\?token={token}", url)[1])  # type: ignore[index]
        assert exchange(port, GET.format("/0").encode()).status == 401


def test_it_is_shown_in_the_browser(ids: dict[str, str], project: Path) -> None:
    browser, shown = project / "browser", project / "shown"
    os.mkfifo(shown)
    browser.write_text(f'#!/bin/sh\necho "$1" > {shown}\n')
    browser.chmod(0o755)
    with served("--open", BROWSER=f"{browser} %s") as (_, url):
        assert shown.read_text().strip() == url


def test_what_cannot_be_served_is_refused(project: Path, call: Call) -> None:
    assert "there is no store" in call("serve").stderr
    Path("notes.db").write_text("no store")
    refused = call("serve", "notes.db")
    assert (refused.exit_code, "notes.db is no store" in refused.stderr) == (2, True)
    assert "cannot listen" in call("serve", "a.db", "--host", "no-such-host.invalid").stderr
    assert call("serve", "a.db", "--port", "70000").exit_code == 2


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("run('serve', 'a.db')", "pip install -e '.[serve]'"),
        ("run('judge-server', 'gemm')", "pip install -e '.[serve]'"),
        ("run('judge-server', 'gemn')", "unknown task 'gemn'"),
        ("import evokernel.testing", "evokernel.testing needs pytest, which is not installed: pip install -e '.[test"),
    ],
)
def test_without_its_packages_a_part_names_the_extra_that_brings_them(project: Path, code: str, said: str) -> None:
    """As on a machine without them: an interpreter that finds no module of that name."""
    before = (
        "import sys\n"
        "sys.modules['uvicorn'] = sys.modules['pytest'] = None\n"
        "from evokernel.cli.group import main\n"
        "def run(*words): main(words, prog_name='evokernel')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", before + code], capture_output=True, text=True, env=environment)
    assert done.returncode in (1, 2)
    assert said in " ".join(done.stderr.split())
