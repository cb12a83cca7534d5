"""`evokernel report` writes one file, where it is told to, and shows it where asked."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from archive.store import Store
from tests.cli.conftest import Call


def test_report_lies_beside_its_store(ids: dict[str, str], call: Call, project: Path) -> None:
    result = call("report")
    assert result.exit_code == 0
    assert "runs/gemm.html" in result.output
    assert ids["best"] in (project / "runs" / "gemm.html").read_text()
    assert sorted(each.name for each in (project / "runs").iterdir() if each.suffix == ".html") == ["gemm.html"]


def test_what_reads_a_long_run_says_at_once_what_it_is_at(ids: dict[str, str], call: Call, project: Path) -> None:
    store, other = project / "runs" / "gemm.db", project / "other.db"
    shutil.copy(store, other)
    commands = {"report": "packing", "status": "reading", "verify": "looking over", "compare": "reading"}
    named = {name: (str(store), str(other)) if name == "compare" else (str(store),) for name in commands}
    assert not any(call(name, *stores).stderr for name, stores in named.items())
    with Store.open(store, write=True) as opened:
        for number in range(3000):
            opened.inbox_put(store, "hint", {"text": f"{number}"})
        opened.take_inbox()
    for name, stage in commands.items():
        assert f"{stage} 30" in call(name, *named[name]).stderr


def test_report_holds_prompts_only_where_it_is_told_to(ids: dict[str, str], call: Call, project: Path) -> None:
    for options, held in (((), False), (("--with-prompts",), True)):
        result = call("report", *options)
        assert result.output.rstrip().endswith(" MB")
        assert ('data-kind="calls"' in (project / "runs" / "gemm.html").read_text()) is held


def test_report_goes_where_it_is_told_and_replaces_no_stranger(ids: dict[str, str], call: Call, project: Path) -> None:
    assert call("report", "runs/gemm.db", "--out", "a/b.html").exit_code == 0
    assert (project / "a" / "b.html").exists()
    for folder in ("a", "new/er/"):
        assert call("report", "runs/gemm.db", "--out", folder).exit_code == 0
        assert (project / folder / "gemm.html").exists()
    refused = call("report", "--out", "runs/gemm.db")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "is no report" in refused.stderr
    assert call("verify").exit_code == 0


def test_report_is_shown_in_the_browser(
    ids: dict[str, str], call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = project / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {project}/shown\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    assert call("report", "--open").exit_code == 0
    assert (project / "shown").read_text().strip() == (project / "runs" / "gemm.html").as_uri()


def test_report_without_a_browser_is_written_all_the_same(ids: dict[str, str], project: Path) -> None:
    environment = {"PATH": str(project / "nothing"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "evokernel", "report", "--open"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, (project / "runs" / "gemm.html").exists()) == (2, True)
    assert "no browser was found" in done.stderr


def test_report_of_nothing_is_refused(project: Path, call: Call) -> None:
    assert "there is no store" in call("report").stderr
