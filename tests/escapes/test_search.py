"""A search that is handed every hostile program, between good ones: it goes on, and what it ends with is right."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from archive.journal import ResultEntry
from archive.store import Store
from evokernel.engine.search_session import UNBEATEN
from evokernel.evaluate.sandbox.levels import detect_sandbox
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Status
from tests.e2e.kill_and_resume import children, wait_for_no_children, write_config
from tests.escapes.judging import KEY, MEMORY_MIB, TASK, Place, make_place, source_of
from tests.escapes.tricks import COMPILE_S, OUT_OF_TIME, TRICKS
from tests.support.processes import take_orphans

pytestmark = pytest.mark.slow

GOOD = 6
MORE = 4  # evaluations that are left for the operators
CONFIG = "kill.yaml"
AS_SEEDS = ("segfault", "exit_0", "endless_loop")


@pytest.fixture
def ours() -> Iterator[list[str]]:
    """Become the parent of every orphan, so that none can hide; gives the children that other tests started."""
    take_orphans(True)
    yield children()
    take_orphans(False)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """Make a place in which a search has judged its seeds."""
    with make_place(os.geteuid()) as made:
        begun = call(made, "evolve", str(config_of(made)), "--budget", f"evaluations={len(AS_SEEDS) + 1}")
        assert begun.returncode == 0, begun.stdout + begun.stderr
        yield made


def call(place: Place, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        KEY: place.key,
        "HOME": str(place.folder / "home"),
        "TMPDIR": str(place.folder / "tmp"),
        "XDG_CACHE_HOME": str(place.folder / "cache"),
    }
    command = [sys.executable, "-m", "evokernel", *arguments]
    given = {**os.environ, **environment}
    return subprocess.run(command, cwd=place.folder, env=given, capture_output=True, text=True, timeout=1500)


def config_of(place: Place) -> Path:
    """Write and return the config of a search whose seeds are hostile but for the last."""
    path = write_config(place.folder, TASK)
    limits = f"final_processes: 1, timeout_s: 2, compile_timeout_s: {COMPILE_S}, memory_mib: {MEMORY_MIB}"
    seeds = []
    for name in AS_SEEDS:
        (place.folder / f"{name}.cpp").write_text(place.source(name))
        seeds.append(f"{name}.cpp")
    (place.folder / "good.cpp").write_text(good(0))
    text = path.read_text().replace("final_processes: 1, compile_timeout_s: 120", limits)
    path.write_text(f"{text}seed_sources: [{', '.join([*seeds, 'good.cpp'])}]\n")
    return path


def good(number: int) -> str:
    """Return a right kernel, another one for each number."""
    return f"""#include <cstdint>
extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {{
    volatile int number = {number};
    (void)number;
    for (int64_t i = 0; i < M; ++i)
        for (int64_t j = 0; j < N; ++j) {{
            float sum = 0;
            for (int64_t k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
            c[i * N + j] = sum;
        }}
}}
"""


def hand_in(store: Path, source: str) -> None:
    Store.inbox_put(store, "source", {"source": source, "language": "cpp", "rationale": "inject: by hand"})


def test_a_search_goes_on_whatever_it_is_handed(place: Place, ours: list[str]) -> None:
    config, store = place.folder / CONFIG, place.folder / "kill.db"
    hostile = {name: source_of(place, name) for name in TRICKS if name not in AS_SEEDS}
    for turn, source in enumerate(hostile.values()):
        hand_in(store, source)
        if turn % (len(hostile) // (GOOD - 1)) == 0:
            hand_in(store, good(1 + turn))
    budget = len(AS_SEEDS) + 1 + len(hostile) + GOOD + MORE
    second = call(place, "evolve", str(config), "--budget", f"evaluations={budget}")
    assert second.returncode == 0, second.stdout + second.stderr
    best = json.loads(call(place, "best", str(config), "--json").stdout)
    assert best["holdout"] == ("pending" if UNBEATEN in second.stdout else "passed")
    with Store.open(store, write=False) as opened:
        assert opened.verify() == []
        results = [fact for fact in opened.facts() if isinstance(fact, ResultEntry)]
        found = {fact.evaluation.candidate_id: fact.evaluation for fact in results}
        refused = {name for name in hostile if Candidate(hostile[name], "cpp").id not in found}
    assert refused == {"empty", "no_text"}  # these never become candidates
    holes = detect_sandbox().holes()
    for name in (*AS_SEEDS, *(set(hostile) - refused)):
        source = hostile.get(name) or place.source(name)
        evaluation, trick = found[Candidate(source, "cpp").id], TRICKS[name]
        fitting = (Status.WORKER_DIED,) if trick.is_open(holes) else trick.statuses
        if trick.sanitized and not evaluation.metrics.get("sanitized"):
            fitting += (Status.OK,)
        if trick.sanitized and OUT_OF_TIME in evaluation.feedback:
            fitting += (Status.SANITIZER,)
        assert evaluation.status in fitting, (name, evaluation.feedback)
    assert Status.HARNESS_ERROR not in {evaluation.status for evaluation in found.values()}
    after = [fact.evaluation for fact in results if fact.evaluation.candidate_id not in {*_ids(place, hostile)}]
    assert sum(evaluation.ok for evaluation in after) >= GOOD  # the good ones, and what came of them
    assert place.key not in second.stdout + second.stderr
    assert wait_for_no_children(besides=ours, seconds=60) == []
    assert place.left() == []


def _ids(place: Place, hostile: dict[str, str]) -> Iterator[str]:
    yield from (Candidate(source, "cpp").id for source in hostile.values())
    yield from (Candidate(place.source(name), "cpp").id for name in AS_SEEDS)


def test_files_that_are_no_text_are_refused_by_name(place: Place) -> None:
    (place.folder / "bytes.cpp").write_bytes(b'extern "C" void run() {}  // \xff\xfe\n')
    (place.folder / "fifty.cpp").write_text(source_of(place, "fifty_mib"))
    (place.folder / "none.cpp").write_text("")
    for name, said in (("bytes.cpp", "cannot read"), ("fifty.cpp", "the limit is"), ("none.cpp", "is empty")):
        done = call(place, "inject", CONFIG, name)
        assert done.returncode == 2, done.stdout
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    done = call(place, "evaluate", "bytes.cpp", "--task", str(TASK))
    assert done.returncode == 2, done.stdout
    assert "cannot read the kernel" in done.stderr
