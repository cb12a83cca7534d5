"""`evokernel recheck` with real processes: what holds, what was spoilt, what cannot be judged here."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from evokernel.cli.group import main
from evokernel.config.load import parse_config
from evokernel.evaluate.device.device_class import this_machine
from evokernel.export.cuda_helper import with_helper, without_helper
from evokernel.export.recheck import RecheckOutcome, outcome_of, word_changes
from evokernel.languages.gpu.cuda_static_check import HELPER_IMPORT
from evokernel.records.timing import Speedup
from tests.cli.test_export import make_store


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments], prog_name="evokernel")


@pytest.mark.slow
def test_exports_are_judged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = make_store(tmp_path)
    assert call("export", "runs/small.db", "--out", "taken", "--sizes", "0", "--accept-from", "0").exit_code == 0
    facts = json.loads(Path("taken/provenance.json").read_text(encoding="utf-8"))
    Path("taken/provenance.json").write_text(json.dumps(facts | {"evokernel": "0.0.1"}), encoding="utf-8")
    held = call("recheck", "taken", "--accept-from", "0.0001", "--json")
    assert held.exit_code == 0, held.output
    document = json.loads(held.stdout)
    (row,) = document["kernels"]
    assert document["ok"]
    assert (row["candidate"], row["outcome"], row["status"]) == (made["right"], "holds", "ok")
    assert row["then"]["value"] == facts["final"]["evaluations"][-1]["speedup"]["value"] != row["now"]["value"]
    assert [change.partition(" -> ")[0] for change in row["changes"]] == ["evokernel 0.0.1"]

    other = call("recheck", "taken", "--task", "softmax")
    assert other.exit_code == 2, other.output
    assert "softmax is another task than that of the export" in " ".join(other.output.split())

    assert facts["hidden_checks"] == []
    # As a run adds them. Only this one sees what is spoilt: no hidden shape that is drawn has all three sizes.
    checks = [{"sizes": {"M": 5, "N": 7, "K": 29}}]
    Path("taken/provenance.json").write_text(json.dumps(facts | {"hidden_checks": checks}), encoding="utf-8")
    shipped = Path("taken/kernel.cpp")
    shipped.write_text(
        shipped.read_text(encoding="utf-8").replace("k < K", "k < K - (M * N * K == 5 * 7 * 29)"), encoding="utf-8"
    )
    wrong = call("recheck", "taken")
    assert wrong.exit_code == 1, wrong.output
    assert "a hidden check that was added in this run" in " ".join(wrong.output.split())
    assert "the text of the kernel" in " ".join(wrong.output.split())


@pytest.mark.skipif(this_machine().gpu is not None, reason="for machines without a GPU")
def test_what_cannot_be_judged_here_is_an_error(tmp_path: Path) -> None:
    config = {"task": "softmax", "budget": {"evaluations": 1}, "islands": [{"name": "one", "operators": {"tune": 1}}]}
    speedup = {"value": 1.2, "low": 1.1, "high": 1.3}
    facts = {
        "format": 1, "language": "triton", "candidate": "a" * 16, "others": {}, "task": {"spec": "softmax"},
        "config": parse_config(config, "the test").model_dump(mode="json"),
        "final": {"evaluations": [{"speedup": speedup, "workloads": []}]},
    }  # fmt: skip
    (tmp_path / "provenance.json").write_text(json.dumps(facts), encoding="utf-8")
    (tmp_path / "kernel.py").write_text("def run(x, M, N, y):\n    pass\n", encoding="utf-8")
    result = call("recheck", str(tmp_path))
    assert result.exit_code == 2, result.output
    assert "not judged" in result.output
    assert "none is visible here" in " ".join(result.output.split())
    (tmp_path / "provenance.json").write_text("{}", encoding="utf-8")
    assert "is no export" in call("recheck", str(tmp_path)).output


def test_only_a_whole_interval_below_is_slower() -> None:
    assert outcome_of(Speedup(0.98, 0.95, 1.01), least=1.0) is RecheckOutcome.HOLDS
    assert outcome_of(Speedup(0.98, 0.97, 0.99), least=1.0) is RecheckOutcome.SLOWER
    assert outcome_of(None, least=0.5) is RecheckOutcome.WRONG


def test_the_helper_of_cuda_is_taken_out_again() -> None:
    source = f'{HELPER_IMPORT}  # ours\n\nkernels = Module("")\n\n\ndef run(x):\n    kernels.f[1, 1](x)\n'
    assert without_helper(with_helper(source)) == source


def test_changed_words_come_with_the_word_before_them() -> None:
    then = "triton 3.6.0 ptxas 12.9 torch 2.11.0 sm_90; torch 2.11.0"
    now = "triton 3.7.0 ptxas 12.9 torch 2.12.0 sm_90; torch 2.12.0"
    assert list(word_changes(then, now)) == ["triton 3.6.0 -> 3.7.0", "torch 2.11.0 -> 2.12.0"]
