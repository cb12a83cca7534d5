"""docs/tutorial.md: every command on the page, in its order, in an empty folder; only what it waits for is shorter."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
LIMIT_S = 3600
BLOCK = re.compile(r"^(?P<fence>`{3,})(?P<language>sh|python)\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)


SHORTER = {
    '"x: 512x1024, gain: 1024"': '"x: 64x128, gain: 128"',
    "torch.randn(512, 1024), torch.randn(1024)": "torch.randn(64, 128), torch.randn(128)",
    "-ge 4 ]": "-ge 2 ]",
    "evolve rmsnorm.yaml --budget evaluations=12\n": "evolve rmsnorm.yaml --budget evaluations=6\n",
    "quick_ms: 20, precise_ms: 60, final_ms: 400": "quick_ms: 10, precise_ms: 20, final_ms: 40",
    "--out rmsnorm_kernel\n": "--out rmsnorm_kernel --sizes 1 --accept-from 0\n",
}
"""What the page says, and what the test says in its place: smaller tensors, fewer kernels, shorter measurements."""


def script() -> str:
    """Return the page as one script, in which each block says where it begins."""
    parts = ["set -euo pipefail"]
    for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        line = PAGE.read_text(encoding="utf-8")[: match.start()].count("\n") + 1
        text = match["text"]
        if match["language"] == "python":
            text = f"python - <<'PYTHON'\n{text}PYTHON\n"
        parts += [f"echo '=== line {line}'", text]
    return "\n".join(parts)


def shorter_script() -> str:
    """Return the page as a script that takes less time."""
    text = script()
    for pages, ours in SHORTER.items():
        assert pages in text, f"the page no longer says {pages}"
        text = text.replace(pages, ours)
    return text


def commands() -> set[str]:
    """Return the commands that the page runs."""
    return set(re.findall(r"^(?:\S+\(\) \{ )?evokernel (\w+)", script(), flags=re.MULTILINE))


def test_the_whole_way_is_shown() -> None:
    assert commands() == {
        *("init", "tasks", "evolve", "status", "verify", "best", "lineage", "report"),
        *("inject", "pin", "hint", "ask", "tell", "export", "evaluate"),
    }


@pytest.mark.slow
def test_every_command_works(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="the last part compiles for a GPU")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, words in {"evokernel": "-m evokernel", "python": ""}.items():
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (tools / name).chmod(0o755)
    folder = tmp_path / "empty"
    folder.mkdir()
    bash = shutil.which("bash")
    assert bash is not None
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    done = subprocess.run(
        [bash, "-c", shorter_script()],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    for words in ("fit to judge kernels", "is sound", "Killed", "handed in", "passed", "exported", "built, not run"):
        assert words in done.stdout, words
    assert (folder / "my_op" / "rmsnorm.html").stat().st_size > 100_000
