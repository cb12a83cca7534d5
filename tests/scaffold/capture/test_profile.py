"""`evokernel profile`: operations of a program, ranked by what a better kernel could save."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from evokernel.cli.group import main

pytestmark = pytest.mark.slow
NORMS = """
import torch

def geglu(x, gate):
    return x * torch.nn.functional.gelu(gate)
"""
MODEL = """
import sys
import torch
from norms import geglu

def rmsnorm(x, gain):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * gain

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 128), torch.nn.Linear(64, 64)

    def forward(self, x):
        return self.down(geglu(*self.up(rmsnorm(x, torch.ones(64))).chunk(2, -1)))

def main(rows):
    net = Block()
    for rows in (rows, 2 * rows, rows):
        net(torch.randn(rows, 64))

if __name__ == "__main__":
    print("to nobody's JSON")
    main(int(sys.argv[1]))
    raise ValueError("at the end")
"""


def test_operations_are_ranked(tmp_path: Path) -> None:
    (tmp_path / "norms.py").write_text(NORMS, encoding="utf-8")
    script = tmp_path / "model.py"
    script.write_text(MODEL, encoding="utf-8")
    result = CliRunner().invoke(main, ["profile", "--json", str(script), "32"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    found = {each["name"]: each for each in told["operations"]}
    assert {name: each["calls"] for name, each in found.items()} == {"Block": 3, "Linear": 6, "geglu": 3, "rmsnorm": 3}
    assert {name for name, each in found.items() if each["inner"]} == {"Block"}
    assert {name for name, each in found.items() if not each["alike"]} == {"Linear"}
    assert found["rmsnorm"]["place"] == "model.py:6"
    assert sorted(found["geglu"]["sizes"]) == [f"float32[{n}, 64], float32[{n}, 64]" for n in (32, 64)]
    assert all(each["total_us"] > 0 and each["floor_us"] > 0 for each in found.values())
    assert [each["saved_us"] for each in told["operations"]] == sorted(
        (each["saved_us"] for each in told["operations"]), reverse=True
    )
    assert told["remark"] == "line 25 raised ValueError: at the end"


def test_an_operation_whose_first_call_was_the_fastest_saves_no_more_than_all(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text(
        "import time, torch\ncalls = []\ndef slow(x):\n    time.sleep(0.1 * bool(calls))\n    calls.append(1)\n"
        "    return x + 1\nfor _ in range(4): slow(torch.ones(9))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "evokernel", "profile", str(script)], capture_output=True, text=True, check=True
    )
    assert [line.split()[0] for line in ended.stdout.splitlines() if " slow " in line] == ["100%"]
    assert ended.stderr == ""  # torch's profiler has nothing to say


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import torch\ntorch.ones(3) + 1\n", "called no function of its folder and no module with tensors"),
        ("import torch\nraise ValueError('no weights')\n", "with tensors: line 2 raised ValueError: no weights"),
        ("import os\nos._exit(3)\n", "ended its process with 3 before it could be profiled"),
    ],
)
def test_what_cannot_be_ranked(tmp_path: Path, text: str, said: str) -> None:
    script = tmp_path / "model.py"
    script.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(main, ["profile", str(script)])
    assert result.exit_code == 2
    words = " ".join(result.output.split())
    assert said in words
    assert words.endswith("no weights") == ("no weights" in text)  # what it raised is all there is to say
