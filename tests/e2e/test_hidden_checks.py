"""A kernel that is wrong at a shape that is hardly ever drawn is an elite until an operator proposes that shape."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from archive.journal import EmptyStep, EvaluationEntry, InboxEntry, ResultEntry
from archive.store import Store
from evokernel.config.load import parse_config
from evokernel.config.run import RunConfig
from evokernel.engine.assemble import assemble
from evokernel.engine.search import Search
from evokernel.records.evaluation import Fidelity, Stage, Status
from evokernel.records.events import Event, Notice
from evokernel.records.remarks import RemarkKind
from evokernel.report.documents import status_document
from evokernel.report.status import read_status
from tests.llm.endpoint import Endpoint, Handler, completion, endpoint
from tests.support.engine import Heard

TASK = Path(__file__).parent / "gap_task.py"
HEAD = '#include <cstdint>\n#include <cstdlib>\nextern "C" void run(const float* x, int64_t M, int64_t N, float* y) {\n'
SEED = f"""{HEAD}    for (int64_t i = 0; i < M * N; ++i) {{
        volatile double slow = x[i];
        for (int round = 0; round < 50; ++round) slow = slow + 0.0;
        y[i] = (float)slow * 3.0f / (float)(std::llabs(M - 3) + std::llabs(N - 214));
    }}
}}
"""
PROPOSED = [
    {"sizes": {"M": 3, "N": 999}, "reason": "out of range"},
    {"sizes": {"M": 3, "N": 214}, "reason": "the reference divides by zero"},
    {"sizes": {"M": 3, "N": 200}, "contents": {"x": ["ties", "huge"]}, "reason": "no such word"},
    {"sizes": {"M": 3, "N": 210}, "contents": {"x": ["normal", "ties"]}, "reason": "the last element is left out"},
]
STEPS = 6


def wrong_at_210(variant: int) -> str:
    return (
        f"{HEAD}    const float scale = (float)(std::llabs(M - 3) + std::llabs(N - 214));  // variant {variant}\n"
        "    for (int64_t i = 0; i < M * N; ++i) y[i] = x[i] * 3.0f / scale;\n"
        f"    if (M * M == 9 && N * N == 44100) y[M * N - 1] = {variant}.0f;  // no number in it is N\n}}\n"
    )


class Script:
    """Answers as a model would: with the same fault each time, and with checks where it is asked for them."""

    def __init__(self) -> None:
        self.kernels = 0
        self.proposed = PROPOSED
        self.tested: list[str] = []
        self.written: list[str] = []

    def __call__(self, handler: Handler) -> None:
        prompt = handler.asked["messages"][-1]["content"]
        if "## What a check may be" in prompt:
            self.tested.append(prompt)
            text = f"```json\n{json.dumps({'checks': self.proposed})}\n```"
        else:
            self.kernels += 1
            self.written.append(prompt)
            text = f"IDEA: divide once {self.kernels}\nPREDICTED: 9x\n\n```cpp\n{wrong_at_210(self.kernels)}```\n"
        handler.give(json.dumps(completion(text)).encode())


class EndsAtCheck(Heard):
    """Ends the session the moment it hears of an added check: its step has not ended yet."""

    work: "asyncio.Task[str] | None" = None

    def hear(self, event: Event) -> None:
        super().hear(event)
        if isinstance(event, Notice) and event.kind is RemarkKind.HIDDEN_CHECK and self.work is not None:
            self.work.cancel()


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def served(script: Script) -> Iterator[Endpoint]:
    with endpoint(script) as found:
        yield found


def config_of(folder: Path, served: Endpoint) -> RunConfig:
    (folder / "seed.cpp").write_text(SEED, encoding="utf-8")
    return parse_config(
        {
            "task": str(TASK),
            "device": "cpu",
            "seed_sources": [str(folder / "seed.cpp")],
            "budget": {"evaluations": STEPS},
            "in_flight": 1,
            "evaluation": {"quick_ms": 10, "precise_ms": 20, "final_ms": 20, "final_processes": 1},
            "islands": [{"name": "one", "operators": {"mutate": 1, "testing": 1}}],
            "models": [
                {
                    "name": "main",
                    "model": "hosted_vllm/stub",
                    "api_base": served.url,
                    "key": "STUB_KEY",
                    "concurrency": 1,
                    "price": {"prompt_usd_per_mtok": 1, "completion_usd_per_mtok": 1},
                }
            ],
        },
        "the test",
    )


def session(path: Path, config: RunConfig, heard: Heard) -> tuple[str, Search]:
    async def scenario(search: Search) -> str:
        work = asyncio.create_task(search.run())
        if isinstance(heard, EndsAtCheck):
            heard.work = work
        try:
            return await work
        except asyncio.CancelledError:
            return "killed"

    with Store.open(path, write=True) as store:
        search = assemble(config, store, listeners=[heard])
        return asyncio.run(scenario(search)), search


@pytest.mark.slow  # a compiler, a judge and litellm, twice
def test_the_check_is_stored_elites_leave_and_later_kernels_are_refused(
    tmp_path: Path, script: Script, served: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB_KEY", "sk-stub")
    path, config = tmp_path / "run.db", config_of(tmp_path, served)
    heard = EndsAtCheck()
    assert session(path, config, heard)[0] == "killed"
    reason, search = session(path, config, Heard())
    assert reason == f"budget of {STEPS} evaluations used"

    with Store.open(path, write=False) as store:
        assert store.verify() == []
        facts, (added,) = list(store.facts()), store.added_checks()
        status = read_status(store)
    assert dict(added.check.sizes) == {"M": 3, "N": 210}
    assert (added.operator, added.model) == ("testing", "main")
    results = [fact for fact in facts if isinstance(fact, ResultEntry)]
    before = [fact for fact in results if fact.seq < added.seq]
    after = [fact for fact in results if fact.seq > added.seq]
    elites = {fact.proposal.candidate.id for fact in before if fact.proposal.operator == "mutate"}
    assert elites, "no wrong kernel was an elite before the check"
    assert [fact.evaluation.feedback for fact in before if not fact.evaluation.ok] == []
    assert set(added.broke) == elites
    assert any("is no elite any more" in note for note in heard.notes)
    assert after, "nothing was judged after the check"
    for fact in after:
        assert (fact.evaluation.status, fact.evaluation.stage) == (Status.NUMERICAL, Stage.CORRECTNESS)
        assert "a hidden check that was added in this run" in fact.evaluation.feedback
        said = re.sub(r"the error is \S+ times", "", fact.evaluation.feedback)  # any digits: contents are drawn
        assert "210" not in said.replace(fact.proposal.candidate.id, "")
        assert fact.evaluation.key.environment.startswith(before[0].evaluation.key.environment + "; hidden checks ")

    state = search.state.archipelago
    assert {elite.candidate.id for each in state.populations.values() for elite in each.held}.isdisjoint(elites)
    assert search.account.lead is not None
    assert search.account.lead.candidate not in elites
    again = session(path, config, Heard())[1]  # no step is left: the state comes from the facts alone
    assert again.state.fingerprint() == search.state.fingerprint()

    (reason,) = [fact.no_candidate.reason for fact in facts if isinstance(fact, EmptyStep)][:1]
    assert "N=999 is out of range: N is from 1 to 241" in reason or "in force already" in reason
    document = status_document(status)["hidden_checks"]
    assert [each["broke"] for each in document] == [list(added.broke)]
    assert not any("N=210" in prompt for prompt in script.written), "a prompt for kernels tells the size"


@pytest.mark.slow
def test_what_is_unfit_changes_nothing_and_the_reason_is_kept(
    tmp_path: Path, script: Script, served: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB_KEY", "sk-stub")
    script.proposed = PROPOSED[:3]
    path, config = tmp_path / "run.db", config_of(tmp_path, served)
    _, search = session(path, config, Heard())
    with Store.open(path, write=False) as store:
        facts = list(store.facts())
        assert store.added_checks() == ()
    assert not any(isinstance(fact, InboxEntry) for fact in facts)
    assert [
        fact.evaluation.feedback for fact in facts if isinstance(fact, ResultEntry) and not fact.evaluation.ok
    ] == []
    assert not any(
        isinstance(fact, EvaluationEntry) and fact.evaluation.key.budget is Fidelity.QUICK and not fact.evaluation.ok
        for fact in facts
    )
    said = next(fact.no_candidate.reason for fact in facts if isinstance(fact, EmptyStep))
    assert "N=999 is out of range: N is from 1 to 241" in said
    assert "the reference is not finite on distribution normal" in said
    assert "x cannot be huge; the words for it are normal, offset, equal, ties, outlier, run" in said
    assert search.state.archipelago.history.checks == []
    assert "- N: 1 to 241" in script.tested[0]
