"""A run as tools for agents, by the Model Context Protocol: read it, propose a kernel, get the verdict.

Nothing here judges or writes facts: a proposal goes into the inbox, and an engine on the same store does the rest.
"""

import asyncio
import contextlib
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

from archive.inbox import handed_in_sources
from archive.store import Store
from evokernel.agents.tools import with_tool_errors
from evokernel.config.run import RunConfig
from evokernel.errors import ConfigError, StoreError
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Fidelity
from evokernel.records.evaluation_document import evaluation_document, speedup_document
from evokernel.records.step import Selection
from evokernel.records.timing import combined_speedup
from evokernel.report.best import candidate_id
from evokernel.report.lineage import CandidateDetails, portrait, story
from operators.llm.prompt import fill, place
from operators.llm.sections import GROUPS, sections_of
from operators.quoting import fence

SOURCE_LIMIT_CHARACTERS = 1_000_000
HINT_LIMIT_CHARACTERS = 2000
LONGEST_WAIT_S = 600.0
LOOK_EVERY_S = 0.5
MOST_ELITES = 100
_SECTIONS = ("task", "device", "guide", "constraints", "best", "hints", "agent_hints")
_WAITS = "it waits for an engine: a running `evokernel evolve` takes it in, otherwise start one on this store"
_IN_FLIGHT = "it is in flight: an engine has taken it in and judges it; ask again, or start `evokernel evolve` again"
_INSTRUCTIONS = (
    "A search for a fast kernel that is proved right. Call task first: it says what to compute, on which device, and "
    "how a kernel is written. Look at elites and their sources, write a kernel of your own, and evaluate it; or "
    "propose it and ask for its verdict later."
)
_IMPROVE = (
    "Make this kernel faster, with `evaluate` as the only judge: a kernel counts where its status is `ok`. Change one "
    "thing at a time, say what you expect of it before you measure it, and stop when three ideas in a row gain nothing."
)
_READERS = ("task", "elites", "lineage", "source", "profile", "verdict")


def make_server(path: Path, config: RunConfig | None = None) -> MCPServer[Any]:
    """Return a server on a store; a config replaces the one in the store.

    Raises `StoreError` if there is no store, or no run in it.
    """
    with Store.open(path, write=False) as store:
        if store.identity() is None:
            raise StoreError(f"{path} holds no run yet: `evokernel evolve CONFIG` begins one and judges its seed")
    run = RunTools(path, config)
    server: MCPServer[Any] = MCPServer("evokernel", instructions=_INSTRUCTIONS, log_level="WARNING")
    tools = (run.task, run.elites, run.lineage, run.source, run.profile, run.verdict, run.propose, run.hint)
    for tool in (*tools, run.evaluate):
        reads = tool.__name__ in _READERS
        hints = ToolAnnotations(read_only_hint=reads, destructive_hint=False, open_world_hint=False)
        server.add_tool(with_tool_errors(tool), annotations=hints)
    server.resource("evokernel://task", mime_type="text/markdown", description="The contract of the task.")(run.task)
    kernels = server.resource("evokernel://kernels/{id}", mime_type="text/plain", description="The source of a kernel.")
    kernels(run.source)
    server.prompt(description="Make a kernel of this run faster.")(run.improve)
    return server


class RunTools:
    """Tools of the server. Each call opens the store anew: it may come from any thread, and the store grows."""

    def __init__(self, path: Path, config: RunConfig | None) -> None:
        self._path = path
        self._config = config

    def task(self) -> str:
        """Return what a kernel must compute, on which device and inputs, and how it is written (the contract)."""
        from evokernel.engine.context import context_for
        from evokernel.offline.prompts import read_run  # takes seconds: it loads the task

        with contextlib.redirect_stdout(sys.stderr), self._open() as store:  # stdout belongs to the protocol
            run = read_run(store, self._config)
        no_operator = Selection(run.next_step, "", "", ())
        sections = sections_of(context_for(no_operator, run.fold, setting=run.setting), frozenset())
        shown = [section for section in sections if section.name in _SECTIONS]
        present = {section.name for section in shown}
        return fill("\n\n".join(place(name) for name in _SECTIONS if name in present), shown, [], GROUPS)

    def elites(self, n: int = 10) -> list[dict[str, Any]]:
        """Return the n fastest correct kernels, best first: id, speed-up over the fastest baseline, where it came from.

        `speedup_low` is the low end of its 95 % interval, which the search goes by.
        """
        with self._open() as store:
            ranked = store.best(max(1, min(n, MOST_ELITES)))
            return [_elite(portrait(store, each.candidate.candidate.id)) for each in ranked]

    def lineage(self, id: str) -> list[dict[str, Any]]:
        """Return how a kernel came about, from the seed on: each ancestor with operator, reason, speed-up and gain.

        `id` is an id, the beginning of one, `best` or `seed`.
        """
        with self._open() as store:
            return [asdict(step) for step in story(store, candidate_id(store, id))]

    def source(self, id: str) -> str:
        """Return the source of a kernel, given by id, the beginning of one, `best` or `seed`."""
        with self._open() as store:
            return store.candidate(candidate_id(store, id)).candidate.source

    def profile(self, id: str) -> dict[str, Any]:
        """Return what the search measured of a kernel: status, speed-up, times, descriptors, metrics and counters.

        `id` is an id, the beginning of one, `best` or `seed`.
        """
        with self._open() as store:
            stored = store.candidate(candidate_id(store, id))
            judged = [each.evaluation for each in store.evaluations_of(stored.program_hash)]
        found = [each for each in judged if each.key.budget is not Fidelity.FINAL]  # finals hold held-out workloads
        fields = ("status", "stage", "speedup", "workloads", "descriptor", "metrics")
        return {
            "candidate": stored.candidate.id,
            **(evaluation_document(found[-1], *fields) if found else _not_judged(taken=True)),
        }

    def hint(self, text: str, island: str = "") -> str:
        """Say something to the models of the run, in every later prompt of an island, or of all without one."""
        said = " ".join(text.split())
        if not 0 < len(said) <= HINT_LIMIT_CHARACTERS:
            raise ConfigError(f"a hint has 1 to {HINT_LIMIT_CHARACTERS} characters, this one has {len(said)}")
        Store.inbox_put(self._path, "hint", {"text": said, **({"island": island} if island else {})}, author="mcp")
        return f"kept; {_WAITS}"

    async def evaluate(
        self, source: str, rationale: str, parents: list[str] | None = None, wait_s: float = 120
    ) -> dict[str, Any]:
        """Propose the whole source of a kernel and wait for its verdict, which an engine on this store gives.

        After `wait_s`, at most 600, the status is still `waits` or `in flight`; ask for the verdict again then.
        """
        name = self.propose(source, rationale, parents)["candidate"]
        ends_s = asyncio.get_running_loop().time() + min(max(wait_s, 0), LONGEST_WAIT_S)
        while True:
            found = self.verdict(name)
            if "next" not in found or asyncio.get_running_loop().time() >= ends_s:
                return found
            await asyncio.sleep(LOOK_EVERY_S)

    def improve(self, kernel: str = "best") -> str:
        """Return a prompt that asks for a faster kernel than the one given by id, `best` or `seed`."""
        known, source = self.profile(kernel), self.source(kernel)
        measured = "\n".join(f"* {name}: {known[name]}" for name in ("status", "speedup", "metrics") if name in known)
        return f"{self.task()}\n\n## The kernel {known['candidate']}\n\n{fence(source)}\n\n{measured}\n\n{_IMPROVE}\n"

    def propose(self, source: str, rationale: str, parents: list[str] | None = None) -> dict[str, Any]:
        """Hand in the whole source of a kernel; return its id, by which verdict tells what became of it.

        `rationale` is one sentence on what is new about it, `parents` are the ids of the kernels it was made from.
        """
        if not source.strip() or len(source) > SOURCE_LIMIT_CHARACTERS:
            raise ConfigError(f"a source has 1 to {SOURCE_LIMIT_CHARACTERS} characters, this one has {len(source)}")
        with self._open() as store:
            identity = store.identity()
            assert identity is not None  # `make_server` refuses a store without a run
            candidate = Candidate(source, identity.language)
            if self._found(store, candidate.id) is not None:
                return {"candidate": candidate.id, "next": "it was proposed before; ask for its verdict"}
            family = [candidate_id(store, parent) for parent in parents or ()]
        payload = {
            "source": candidate.source,
            "language": candidate.language,
            "rationale": f"inject: {rationale.strip() or 'by an agent'}",
            "parents": family,
        }
        Store.inbox_put(self._path, "source", payload, author="mcp")
        return {"candidate": candidate.id, "next": _WAITS}

    def verdict(self, id: str) -> dict[str, Any]:
        """Return what was found of a kernel: status (`ok` for a right one), feedback, speed-up in all and per workload.

        `status` is `waits` or `in flight` where nothing is known yet, with what to do in `next`.
        """
        with self._open() as store:
            waiting = self._found(store, id)
            if waiting is not None and store.proposal_of(waiting) is None:
                return {"candidate": waiting, **_not_judged(taken=self._handed_in(store).get(waiting) is not None)}
            return _verdict(portrait(store, candidate_id(store, id)))

    def _open(self) -> Store:
        return Store.open(self._path, write=False)

    def _found(self, store: Store, name: str) -> str | None:
        """Return the id of a candidate that the run or its inbox has, or None."""
        if store.proposal_of(name) is not None:
            return name
        return name if name in self._handed_in(store) else None

    def _handed_in(self, store: Store) -> dict[str, int | None]:
        """Return the ids of all sources that were handed in, with the seq at which an engine took them in."""
        language = getattr(store.identity(), "language", "")
        handed_in = handed_in_sources(store.database)
        return {Candidate(each.source, each.language or language).id: each.taken_seq for each in handed_in}


def _not_judged(*, taken: bool) -> dict[str, Any]:
    return {"status": "in flight", "next": _IN_FLIGHT} if taken else {"status": "waits", "next": _WAITS}


def _elite(found: CandidateDetails) -> dict[str, Any]:
    proposal, speedup = found.proposal, _search_speedup(found)
    return {
        "candidate": found.stored.candidate.id,
        "speedup": speedup["value"] if speedup else None,
        "speedup_low": speedup["low"] if speedup else None,
        "holdout": found.verdicts.holdout.value,
        "operator": proposal.operator if proposal else "",
        "rationale": proposal.rationale if proposal else "",
        "parents": list(proposal.parents) if proposal else [],
    }


def _verdict(found: CandidateDetails) -> dict[str, Any]:
    name, verdicts = found.stored.candidate.id, found.verdicts
    evaluation = verdicts.failure or verdicts.search
    if evaluation is None:
        return {"candidate": name, **_not_judged(taken=True)}
    judged = evaluation_document(evaluation, "status", "stage", "feedback", "workloads", "metrics")
    return {
        "candidate": name,
        "status": judged["status"],
        "reached": judged["stage"],
        "feedback": judged["feedback"],
        "speedup": _search_speedup(found) if verdicts.failure is None else None,
        "holdout": verdicts.holdout.value,
        "workloads": [
            {
                "name": timed["name"],
                "kernel_us": timed["candidate_us"],
                "baseline": timed["baseline"],
                "baseline_us": timed["baseline_us"],
                "speedup": timed["speedup"]["value"],
            }
            for timed in judged["workloads"]
        ],
        "metrics": judged["metrics"],
    }


def _search_speedup(found: CandidateDetails) -> dict[str, float | None] | None:
    """Return the speed-up on the search workloads; held-out ones must not guide proposals."""
    return None if found.verdicts.search is None else speedup_document(combined_speedup(found.verdicts.search.timings))
