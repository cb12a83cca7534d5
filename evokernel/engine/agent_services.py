"""Services of a search for its agents: the texts of a step as files, verdicts, what is known, and notes on them."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from archive.lineage import main_line
from archive.store import Store
from evokernel.engine.context import SearchSetting, context_for
from evokernel.engine.inbox import LOOK
from evokernel.engine.promotion import PromotionPolicy
from evokernel.engine.state_fold import StateFold
from evokernel.engine.verdicts import Verdicts
from evokernel.errors import ConfigError, StoreError
from evokernel.protocols import Language
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity
from evokernel.records.evaluation_document import evaluation_document
from evokernel.records.events import Notice
from evokernel.records.llm import Origin
from evokernel.records.remarks import RemarkKind
from evokernel.records.step import Selection

LARGEST_SOURCE_BYTES = 256 << 10
LONGEST_HINT = 400
_FILES = ("task", "device", "guide", "constraints", "hints", "agent_hints")
_VERDICT = ("status", "stage", "feedback", "speedup", "workloads", "metrics")
_PROFILE = ("status", "stage", "speedup", "workloads", "descriptor", "metrics")


class SearchServices:
    """What a search gives its agents. Implements `AgentServices`.

    Args:
        promotion: keeps two tasks from judging one program at a time.
    """

    def __init__(
        self,
        store: Store,
        fold: StateFold,
        *,
        setting: SearchSetting,
        language: Language,
        verdicts: Verdicts,
        promotion: PromotionPolicy,
        notify: Callable[[Notice], None],
    ) -> None:
        self._store = store
        self._fold = fold
        self._setting = setting
        self._language = language
        self._verdicts = verdicts
        self._promotion = promotion
        self._notify = notify
        self._looks: set[asyncio.Task[tuple[Evaluation, float]]] = set()

    def files(self, origin: Origin) -> Mapping[str, str]:
        """Return the contract, the device, the guide, constraints and hints, and the source of each parent."""
        from operators.llm.prompt import fill, place
        from operators.llm.sections import GROUPS, sections_of  # runs by rule do without them

        nothing = Selection(origin.step, origin.island, "", ())
        sections = sections_of(context_for(nothing, self._fold, setting=self._setting), frozenset())
        names = [name for name in _FILES if any(section.name == name for section in sections)]
        files = {f"{name}.md": fill(place(name), sections, [], GROUPS) + "\n" for name in names}
        for parent in origin.parents:
            try:
                source = self._store.candidate(parent).candidate.source
            except StoreError:
                continue  # a fork leaves some behind
            files[f"parents/{parent}{self._language.suffix}"] = source
        return files

    async def evaluate(self, source: str, origin: Origin, *, agent: str) -> dict[str, Any]:
        """Return the verdict on a kernel as JSON values, after it was put into the store under its step.

        Raises:
            ConfigError: the source is empty or too long.
            HarnessError: our own machinery failed.
        """
        candidate = Candidate(source, self._language.name)
        if not source.strip() or len(candidate.source.encode()) > LARGEST_SOURCE_BYTES:
            raise ConfigError(f"a source has 1 to {LARGEST_SOURCE_BYTES} bytes")
        look = asyncio.create_task(self._look(candidate))
        self._looks.add(look)
        look.add_done_callback(self._ended)
        # an agent that is stopped must not break off a judge's work
        evaluation, taken_s = await asyncio.shield(look)
        verdict = {"candidate": candidate.id, **evaluation_document(evaluation, *_VERDICT)}
        kept = {
            "step": origin.step,
            "island": origin.island,
            "source": candidate.source,
            "verdict": verdict,
            "device_s": taken_s,
        }
        Store.inbox_put(self._store.database.path, LOOK, kept, author=agent)
        return verdict

    async def close(self) -> None:
        """Break off the evaluations under way."""
        for look in self._looks:
            look.cancel()
        await asyncio.gather(*self._looks, return_exceptions=True)

    async def _look(self, candidate: Candidate) -> tuple[Evaluation, float]:
        program = self._language.program_hash(candidate.source)
        with await self._promotion.alone(program):
            return await self._verdicts.look(EvaluationRequest(candidate, program, Fidelity.QUICK))

    def _ended(self, look: "asyncio.Task[tuple[Evaluation, float]]") -> None:
        self._looks.discard(look)
        if not look.cancelled():
            look.exception()  # nobody may wait for it any more

    def lineage(self, candidate: str) -> list[dict[str, Any]]:
        """Return the line of first parents of a candidate, oldest first. Raises `StoreError`."""
        found = []
        for name in main_line(self._store, self._store.candidate(candidate).candidate.id):
            proposal, profile = self._store.proposal_of(name), self.profile(name)
            found.append(
                {
                    "candidate": name,
                    "operator": proposal.operator if proposal else "",
                    "rationale": proposal.rationale if proposal else "",
                    "status": profile.get("status", "not judged"),
                    "speedup": profile.get("speedup"),
                }
            )
        return found

    def profile(self, candidate: str) -> dict[str, Any]:
        """Return what was measured of a candidate in the search. Raises `StoreError`.

        Final measurements stay out: they hold workloads that must not guide proposals.
        """
        stored = self._store.candidate(candidate)
        judged = [each.evaluation for each in self._store.evaluations_of(stored.program_hash)]
        searched = [each for each in judged if each.key.budget is not Fidelity.FINAL]
        known = evaluation_document(searched[-1], *_PROFILE) if searched else {}
        return {"candidate": stored.candidate.id, **known}

    def hint(self, text: str, origin: Origin, *, agent: str) -> None:
        """Say something to the later prompts of a step's island."""
        words = " ".join(text.split())[:LONGEST_HINT]
        said = {"text": f"{agent}: {words}", "island": origin.island, "agent": agent}
        Store.inbox_put(self._store.database.path, "hint", said, author=agent)

    def remark(self, text: str, *, step: int, **detail: Any) -> None:
        """Keep one line on an agent's work, with further JSON values, and say it where it was refused a host."""
        if detail.get("refused"):
            self._notify(Notice(text, warning=True))
        self._store.remarks.add(RemarkKind.AGENT_EVENT, text, step=step, **detail)
