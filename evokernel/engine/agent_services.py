"""Services of a search for its agents: the texts of a step as files, and notes on what they did."""

from collections.abc import Mapping
from typing import Any

from archive.store import Store
from evokernel.engine.context import SearchSetting, context_for
from evokernel.engine.state_fold import StateFold
from evokernel.errors import StoreError
from evokernel.protocols import Language
from evokernel.records.llm import Origin
from evokernel.records.remarks import RemarkKind
from evokernel.records.step import Selection

_FILES = ("task", "device", "guide", "constraints", "hints")


class SearchServices:
    """What a search gives its agents. Implements `AgentServices`.

    Args:
        store: of the run.
        fold: holds the state.
        setting: of every step.
        language: of the candidates.
    """

    def __init__(self, store: Store, fold: StateFold, setting: SearchSetting, language: Language) -> None:
        self._store = store
        self._fold = fold
        self._setting = setting
        self._language = language

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

    def remark(self, text: str, *, step: int, **detail: Any) -> None:
        """Keep one line on an agent's work in the store, with further JSON values."""
        self._store.remarks.add(RemarkKind.AGENT_EVENT, text, step=step, **detail)
