"""The fields of docs/json.md, which scripts rely on."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.support.stores import fill_store

DOCUMENT = Path(__file__).parents[2] / "docs" / "json.md"
SPEEDUP = {"value", "low", "high"}
WORKLOAD = {
    "name",
    "baseline",
    "candidate_us",
    "baseline_us",
    "speedup",
    "verdict",
    "pairs",
    "floor_us",
    "limit",
}
FIELDS = {
    "best": {
        "format", "store", "task", "candidate", "language", "kind", "holdout", "holdout_speedup", "mode", "speedup",
        "speedup_over_seed", "over_seed", "baselines", "workloads", "floor_share", "device", "environment", "sandbox",
        "contender", "contender_speedup", "contender_leads", "nondeterministic", "nowhere_faster",
    },
    "status": {
        "format", "store", "run_id", "state", "forked_from", "task", "language", "seed", "mode", "device",
        "environment", "sandbox", "results", "correct", "in_flight", "left", "by_status", "by_mode", "seconds",
        "cost_usd",
        "priced", "calls", "tokens", "insights", "hints", "edits", "last_stop", "operators", "models",
        "pairs", "predicted", "islands", "best", "since", "front", "diversity", "hosts", "hidden_checks",
    },
    "show": {
        "format", "candidate", "language", "program_hash", "skeleton", "origin", "kind", "holdout", "speedup",
        "speedup_over_seed", "over_seed", "proposal", "evaluations", "source",
    },
    "watch": {
        "format", "store", "task", "state", "halted", "results", "correct", "in_flight", "left", "remaining", "seconds",
        "cost_usd", "priced", "calls", "tokens", "best", "islands", "hosts", "improvements", "notes",
    },
    "compare": {
        "format", "task", "comparable", "notes", "runs", "levels", "differing", "groups", "differences",
    },
}  # fmt: skip
ARGUMENTS = {"watch": ("--until-stopped",), "compare": ("runs/gemm.db", "other.db")}
"""What a command needs beside `--json`."""


def document(call: Call, command: str) -> dict[str, Any]:
    if command == "compare" and not Path("other.db").exists():
        fill_store(Path("other.db"))
    parsed = json.loads(call(command, *ARGUMENTS.get(command, ()), "--json").output)
    assert isinstance(parsed, dict)
    return parsed


@pytest.mark.parametrize("command", list(FIELDS))
def test_fields_stay(ids: dict[str, str], call: Call, command: str) -> None:
    found = document(call, command)
    assert set(found) == FIELDS[command]
    assert found["format"] == 1


@pytest.mark.parametrize("command", list(FIELDS))
def test_every_field_is_described(command: str) -> None:
    section = DOCUMENT.read_text().split(f"\n## {command}\n")[1].split("\n## ")[0]
    described = set(
        re.findall(r"`(\w+)`", "\n".join(line.split("|")[1] for line in section.splitlines() if "|" in line))
    )
    assert described == FIELDS[command]


def test_inner_fields_stay(ids: dict[str, str], call: Call) -> None:
    best, status, show = (document(call, command) for command in ("best", "status", "show"))
    assert set(best["speedup"]) == SPEEDUP
    assert set(best["over_seed"]) == {"seed", "kind", "mode", *SPEEDUP}
    assert set(best["baselines"]["torch"]) == {"speedup", "low", "high"}
    assert set(best["workloads"][0]) == WORKLOAD
    assert set(status["operators"]["tune"]) == {
        "results", "correct", "unusable", "validity", "improvements", "best_gain", "insights", "barren", "calls",
        "tokens", "cost_usd",
    }  # fmt: skip
    assert set(status["islands"]["tuners"]) == {"results", "correct", "best_speedup", "mode"}
    assert set(status["best"]) == FIELDS["best"]
    assert set(show["proposal"]) == {
        "step", "operator", "island", "parents", "inspirations", "rationale", "predicted_speedup", "gain", "model",
        "calls", "tokens", "cost_usd", "priced", "insights", "hints",
    }  # fmt: skip
    assert set(show["evaluations"][0]) == {
        "seq", "budget", "mode", "status", "stage", "device", "environment", "workloads", "baselines", "descriptor",
        "metrics", "feedback", "stopped_early", "origin", "nondeterministic",
    }  # fmt: skip


def test_inner_fields_of_watch_stay(ids: dict[str, str], call: Call) -> None:
    watch = document(call, "watch")
    assert set(watch["best"]) == {
        "candidate", "mode", "speedup", "low", "speedup_over_seed", "baselines", "floor_share", "since",
    }  # fmt: skip
    assert set(watch["islands"]["tuners"]) == {"niches", "best_speedup", "stale"}
    assert set(watch["improvements"][0]) == {
        "seq", "at", "candidate", "operator", "island", "mode", "speedup", "low", "rationale",
    }  # fmt: skip


def test_inner_fields_of_compare_stay(ids: dict[str, str], call: Call) -> None:
    compare = document(call, "compare")
    assert set(compare["runs"]) == {"gemm", "other"}
    assert set(compare["runs"]["gemm"]) == {
        "store", "run_id", "forked_from", "language", "seed", "device", "environment", "evokernel_version", "judged",
        "correct", "seconds", "device_s", "cost_usd", "calls", "tokens", "best",
    }  # fmt: skip
    assert set(compare["runs"]["gemm"]["best"]) == FIELDS["best"]
    assert set(compare["levels"][0]) == {"name", "runs"}
    assert set(compare["levels"][0]["runs"]["gemm"]) == {"speedup", "reached"}
    assert set(compare["levels"][0]["runs"]["gemm"]["reached"]) == {"evaluations", "hours", "dollars"}
    assert set(compare["groups"][0]) == {"runs", "seeds", "spreads"}
    assert set(compare["groups"][0]["spreads"]["speedup"]) == {"median", "low", "high", "count"}
    assert set(compare["differences"][0]) == {"one", "other", "kind", "over", "ratio", "told_apart", "reason"}
    assert set(compare["differences"][0]["ratio"]) == SPEEDUP
