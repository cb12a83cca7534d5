"""Runs a script as somebody who is not root, where the tests are."""

import subprocess
import sys
from pathlib import Path

import pytest

from evokernel.evaluate.sandbox.levels import detect_sandbox

UID = 12345


def run_as_user(script: str, *, timeout_s: float = 300, uid: int = UID) -> "subprocess.CompletedProcess[str]":
    """Run a script with this interpreter and its search path, as user `uid`; skips where that cannot be arranged."""
    bwrap = detect_sandbox().bwrap
    if bwrap is None:
        pytest.skip("needs bubblewrap, to open private folders of the interpreter to an ordinary user")
    interpreter = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    opened = ["--dev-bind", "/", "/"]
    if interpreter.is_relative_to("/root"):
        opened += ["--tmpfs", "/root", "--chmod", "0755", "/root"]
        for parent in list(interpreter.parents)[-3:1:-1]:
            opened += ["--perms", "0755", "--dir", str(parent)]
        opened += ["--ro-bind", str(interpreter.parents[1]), str(interpreter.parents[1])]
    identity = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "--inh-caps=-all"]
    start = f"import os, sys; sys.path[:0] = {list(filter(None, sys.path))!r}; os.chdir('/')\n"
    command = [str(bwrap), *opened, "--cap-add", "ALL", *identity, str(interpreter), "-c", start + script]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
