"""Two kernels of different structure exchange a region in a real search, and what comes of it is right."""

import json
from pathlib import Path

import pytest

from archive.journal import ResultEntry
from archive.store import Store
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Status
from evokernel.source.regions import read_regions
from tests.e2e.test_evolve import TASK, evokernel, here
from tests.support.skeletons import ROWS, SPLIT

CONFIG = """
task: {task}
store: graft.db
seed_sources: [rows.cpp, split.cpp]
budget: {{evaluations: 14}}
evaluation: {{quick_ms: 4, precise_ms: 8, final_ms: 10, final_processes: 1, compile_timeout_s: 120}}
islands:
  - name: one
    operators: {{graft: 0.6, tune: 0.4}}
    niches: {{axes: {{code_bytes: [300, 400, 500, 600, 700, 800, 1000, 1200, 1500]}}}}
"""


@pytest.mark.slow
def test_a_search_grafts_regions_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "rows.cpp").write_text(ROWS)
    (tmp_path / "split.cpp").write_text(SPLIT)
    (tmp_path / "graft.yaml").write_text(CONFIG.format(task=TASK))
    done = evokernel("evolve", "graft.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    with Store.open(tmp_path / "graft.db", write=False) as store:
        assert store.verify() == []
        results = [fact for fact in store.facts() if isinstance(fact, ResultEntry)]
    grafted = [fact for fact in results if fact.proposal.operator == "graft"]
    assert grafted
    assert [fact.evaluation.status for fact in grafted] == [Status.OK] * len(grafted)
    child = grafted[0].proposal
    shown = json.loads(here("show", child.candidate.id, "--store", str(tmp_path / "graft.db"), "--json"))
    assert shown["proposal"]["rationale"].startswith("graft: region")
    assert len(shown["proposal"]["parents"]) == 2
    assert {region.name for region in read_regions(shown["source"])} == {"dot", "store"}
    assert Candidate(shown["source"], "cpp").id not in shown["proposal"]["parents"]
