"""What hypothesis draws in CI depends on no test before."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SCRIPT = """
import importlib, sys
import tests.conftest
from hypothesis import given, strategies as st

def draws():
    seen = []
    @given(st.integers(), st.text(), st.floats(allow_nan=False))
    def note(number, text, real):
        seen.append((number, text, real))
    note()
    return seen

before = draws()
sys.path.insert(0, sys.argv[1])
importlib.import_module("local_numbers")
assert len(before) > 50
assert draws() == before
"""


def test_modules_that_were_imported_meanwhile_change_nothing(tmp_path: Path) -> None:
    """Tests of a process import more and more of the product, each process in an order of its own."""
    numbers = "".join(f"N{number} = {987_000 + number}, {number}.1234567, 'text{number}'\n" for number in range(200))
    (tmp_path / "local_numbers.py").write_text(numbers, encoding="utf-8")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    environment = {**os.environ, "CI": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
