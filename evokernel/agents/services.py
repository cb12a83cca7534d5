"""Services of a search for its agents: files to read, and kernels to have judged."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from evokernel.records.llm import Origin


class AgentServices(Protocol):
    """A search as an agent sees it, for one step."""

    def files(self, origin: Origin) -> Mapping[str, str]:
        """Return the texts that a step's agent finds in its workspace, by relative path."""

    async def evaluate(self, source: str, origin: Origin, *, agent: str) -> dict[str, Any]:
        """Return the verdict on a kernel as JSON values, after it was written down; it enters no population.

        Raises `EvokernelError` if the source is too long, or our own machinery failed.
        """

    def lineage(self, candidate: str) -> list[dict[str, Any]]:
        """Return the line of first parents of a candidate, oldest first. Raises `StoreError`."""

    def profile(self, candidate: str) -> dict[str, Any]:
        """Return what was measured of a candidate in the search. Raises `StoreError`."""

    def hint(self, text: str, origin: Origin, *, agent: str) -> None:
        """Say something to the later prompts of a step's island."""

    def remark(self, text: str, *, step: int, **detail: Any) -> None:
        """Keep one line on an agent's work, with further JSON values."""


@dataclass(slots=True)
class ServiceReference:
    """A place for the services of a search, which begins after its agents were made."""

    current: AgentServices | None = None
    """The services; None before the search has begun."""
