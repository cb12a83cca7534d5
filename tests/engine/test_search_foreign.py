"""A kernel of another language that a person hands in: `port` has work, and other operators have an idea."""

from pathlib import Path

from archive.journal import ResultEntry
from archive.store import Store
from evokernel.records.llm import ModelRequest
from tests.support.model_search import facts
from tests.support.template_search import kernel, run_templates, same_state

HANDED_IN = {"source": "def run(x, N, y): FOREIGN\n", "language": "triton", "rationale": "inject: winner of t.db: 3x"}


def test_port_and_others_see_a_kernel_that_was_handed_in(tmp_path: Path) -> None:
    prompts: dict[str, list[str]] = {}

    def script(request: ModelRequest) -> str:
        prompts.setdefault(request.origin.operator, []).append(request.messages[-1].text)
        return kernel(10 + request.origin.step, f"step {request.origin.step}")

    chosen = {}
    for name in ("without", "with"):
        path, shares = tmp_path / f"{name}.db", {"port": 1.0, "mutate": 1.0}
        prompts.clear()
        run_templates(path, script, shares, budget={"evaluations": 1})
        if name == "with":
            Store.inbox_put(path, "foreign", HANDED_IN, author="ada")
            Store.inbox_put(path, "foreign", {**HANDED_IN, "language": "cpp"}, author="ada")  # left alone
        search = run_templates(path, script, shares, budget={"evaluations": 8})
        assert same_state(path, search)
        chosen[name] = {fact.proposal.operator for fact in facts(path, ResultEntry)}
        assert all(("FOREIGN" in text) == (name == "with") for texts in prompts.values() for text in texts)
    assert chosen == {"without": {"seed", "mutate"}, "with": {"seed", "mutate", "port"}}
    assert all("winner of t.db: 3x" in text for text in prompts["port"])
    history = search.state.archipelago.history
    assert [(candidate.language, words) for candidate, words in history.foreign] == [("triton", HANDED_IN["rationale"])]
