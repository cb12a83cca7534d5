"""`evokernel hint`, `pin`, `ban` and `inject`: what people hand to a run, and what its engine makes of it."""

import json
from pathlib import Path

import pytest

from archive.journal import InboxEntry
from archive.store import Store
from evokernel.records.candidate import Candidate
from tests.cli.asked import asking_config, engage
from tests.cli.conftest import Call
from tests.support.fakes import TOY
from tests.support.stores import StoreBuilder

OWN = TOY.replace("int A = 1", "int A = 8").replace("// a toy", "// mine")


@pytest.fixture
def store(project: Path) -> Path:
    path = project / "toy.db"
    engage(path, asking_config(budget={"evaluations": 4}))
    return path


def waiting(path: Path) -> list[tuple[str, dict[str, str], str]]:
    with Store.open(path, write=False) as opened:
        rows = opened.database.rows("SELECT * FROM inbox WHERE taken_seq IS NULL ORDER BY id")
        return [(row["kind"], json.loads(row["payload"]), row["author"]) for row in rows]


def test_what_people_say_reaches_the_engine(store: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    with Store.open(store, write=False) as opened:
        best, second = (ranked.candidate.candidate.id for ranked in opened.best(2))
    result = call("hint", store, "try wider vectors", "--island", "one")
    assert (result.exit_code, result.output) == (0, "hint for one: the next `evokernel evolve` takes it in\n")
    assert call("pin", store, best[:10]).output == f"{best} pinned: the next `evokernel evolve` takes it in\n"
    assert call("pin", store, "best", "--undo").output.startswith(f"{best} pinned no more:")
    assert call("ban", store, second).output.startswith(f"{second} banned:")
    assert waiting(store) == [
        ("hint", {"text": "try wider vectors", "island": "one"}, "ada"),
        ("pin", {"candidate": best}, "ada"),
        ("unpin", {"candidate": best}, "ada"),
        ("ban", {"candidate": second}, "ada"),
    ]
    notes = engage(store, asking_config(budget={"evaluations": 5})).notes
    assert "hint: try wider vectors by ada" in notes
    assert f"{best} is pinned: a parent more often than others by ada" in notes
    assert f"{second} is banned: never a parent again by ada" in notes
    assert waiting(store) == []
    with Store.open(store, write=False) as opened:
        taken = [fact.kind for fact in opened.facts() if isinstance(fact, InboxEntry)]
    assert taken == ["hint", "pin", "unpin", "ban"]


def test_a_banned_kernel_is_not_the_best(store: Path, call: Call) -> None:
    first = json.loads(call("best", store, "--json").output)["candidate"]
    call("ban", store, "best")
    engage(store, asking_config(budget={"evaluations": 4}), handed_in_only=True)
    with Store.open(store, write=False) as opened:
        others = [ranked.candidate.candidate.id for ranked in opened.best(20)]
    assert others
    assert first not in others
    assert json.loads(call("best", store, "--json").output)["candidate"] == others[0]
    for name in others:
        call("ban", store, name)
    engage(store, asking_config(budget={"evaluations": 4}), handed_in_only=True)
    assert "or none that is not banned" in call("best", store).stderr


def test_a_kernel_of_ones_own_is_judged(store: Path, call: Call, project: Path) -> None:
    (project / "mine.cpp").write_text(OWN)
    name = Candidate(OWN, "cpp").id
    result = call("inject", store, "mine.cpp", "--why", "wider")
    assert (result.exit_code, result.output) == (0, f"{name} handed in: the next `evokernel evolve` takes it in\n")
    engage(store, asking_config(budget={"evaluations": 5}), handed_in_only=True)
    with Store.open(store, write=False) as opened:
        proposal = opened.proposal_of(name)
        assert proposal is not None
        assert (proposal.operator, proposal.rationale) == ("inject", "inject: wider")
        assert opened.evaluations_of(opened.candidate(name).program_hash)[0].evaluation.ok
    result = call("inject", store, "mine.cpp")
    assert result.exit_code == 2
    assert "in the run already" in result.stderr


def test_a_kernel_in_another_language_is_an_idea(store: Path, call: Call, project: Path) -> None:
    text = "import triton\ndef run(x, n, y): ...\n"
    (project / "mine.py").write_text(text)
    name = Candidate(text, "triton").id
    assert f"{name} handed in as an idea from triton: the next" in call("inject", store, "mine.py", "--why", "a").output
    kind, payload, _ = waiting(store)[0]
    assert (kind, payload) == ("foreign", {"source": text, "language": "triton", "rationale": "inject: a"})
    notes = engage(store, asking_config(budget={"evaluations": 4}), handed_in_only=True).notes
    assert any(f"{name} in triton is at hand for prompts" in note for note in notes)


def test_the_winner_of_another_run_of_the_task_can_be_handed_in(store: Path, call: Call, project: Path) -> None:
    engage(project / "other.db", asking_config(budget={"evaluations": 30}))
    engage(project / "copy.db", asking_config(task="a/copy.py", budget={"evaluations": 30}))
    with StoreBuilder(project / "gemm.db") as builder:
        builder.seed()
    result = call("inject", store, project / "other.db")
    kind, payload, _ = waiting(store)[0]
    assert (kind, payload["language"]) == ("source", "cpp")
    assert payload["rationale"].startswith("inject: winner of other.db: ")
    assert f"{Candidate(payload['source'], 'cpp').id} handed in: the next" in result.output
    assert "handed in: the next" in call("inject", store, project / "copy.db").output  # the same task, elsewhere
    result = call("inject", store, project / "gemm.db")
    assert result.exit_code == 2
    assert "holds a run of task gemm, and this run is of task" in " ".join(result.stderr.split())


def test_a_running_search_is_told_of(store: Path, call: Call) -> None:
    with Store.open(store, write=True) as opened:
        opened.session_start()
        opened.heartbeat(0.0)
        assert "the running search takes it in now" in call("hint", store, "go on").output


def test_what_cannot_be_handed_in(store: Path, call: Call, project: Path) -> None:
    (project / "mine.f90").write_text("end\n")
    (project / "empty.cpp").write_text("\n")
    (project / "long.cpp").write_text("x" * 524289)
    wrong = "// wrong\n" + TOY.replace("int A = 1", "int A = 16")
    (project / "wrong.cpp").write_text(wrong)
    (project / "plain.py").write_text("import torch\n\ndef route(x):\n    return torch.softmax(x, dim=-1)\n")
    (project / "other.cpp").write_text("void f() {}\n")
    assert call("inject", store, "wrong.cpp").exit_code == 0
    engage(store, asking_config(budget={"evaluations": 5}), handed_in_only=True)
    for arguments, said in (
        (("hint", store, " "), "a hint has 1 to 8000 characters"),
        (("hint", store, "x" * 8001), "a hint has 1 to 8000 characters"),
        (("hint", store, "yes", "--island", "three"), "no island 'three'; the run has one, two"),
        (("pin", store, "ffff"), "ffff"),
        (("pin", store, Candidate(wrong, "cpp").id), "is no correct kernel"),
        (("ban", store, Candidate(wrong, "cpp").id), "is no correct kernel"),
        (("inject", store, "mine.f90"), "its language is not known"),
        (("inject", store, "empty.cpp"), "is empty"),
        (("inject", store, "long.cpp"), "the limit is 524288"),
        (("inject", store, "nowhere.cpp"), "cannot read nowhere.cpp"),
        (("inject", store, "plain.py"), "plain.py is no triton kernel: it does not name triton; a function in PyTorch"),
        (("inject", store, "other.cpp"), 'the source must define `extern "C" void run(...)`'),
        (("hint", project / "nowhere.db", "yes"), "nowhere.db"),
    ):
        result = call(*arguments)
        assert result.exit_code == 2, (arguments, result.output)
        assert said in " ".join(result.stderr.split())
    assert waiting(store) == []
