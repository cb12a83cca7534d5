"""Reflection: a model edits a prompt after reading full traces of it.

After GEPA: Agrawal et al., Reflective Prompt Evolution Can Outperform Reinforcement Learning, arXiv 2507.19457.
"""

from collections.abc import Sequence
from pathlib import Path

import jinja2

from evokernel.evolve_prompts.trial import PromptTrace
from evokernel.records.llm import Message, ModelRequest, Origin
from operators.llm.prompt import tokens_of
from operators.llm.replies import UnreadableReply, read_idea, tidy
from operators.llm.replies.patches import PatchError, apply_edits, has_edits, read_edits
from operators.llm.templates import TemplateSettings
from operators.quoting import fence

OPERATOR = "evolve-prompts"
"""The operator that calls of a reflection name in the store."""
TRACE_TOKENS = 64_000
"""The most that traces take in a prompt, as estimated; the newest are kept, and one at least."""
_FILE = Path(__file__).with_name("reflection.md.j2")


def reflection_request(
    settings: TemplateSettings, text: str, traces: Sequence[PromptTrace], *, step: int, about: str
) -> ModelRequest:
    """Return the request for an edit.

    Args:
        text: the file to edit.
        traces: of the text on one task, oldest first.
        step: number of the text to be made.
        about: name of the task, for the record of calls.
    """
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True)
    shown = environment.from_string(_FILE.read_text(encoding="utf-8")).render(
        operator=settings.name,
        about=settings.about,
        file=fence(text),
        traces=[PromptTrace(fence(each.prompt), fence(each.reply), fence(each.verdict)) for each in _newest(traces)],
    )
    return ModelRequest(Origin(step, about, OPERATOR), 0, "think", (Message("user", shown),))


def read_edit(reply: str, text: str) -> tuple[str, str]:
    """Return the edited file and the reason. Raises `UnreadableReply` if the reply holds no edit that fits the file."""
    said = tidy(reply)
    if not has_edits(said):
        raise UnreadableReply("the reply holds no SEARCH/REPLACE blocks")
    try:
        edited = apply_edits(text, read_edits(said))
    except PatchError as error:
        raise UnreadableReply(f"the changes cannot be applied, so none was: {error}") from None
    if edited == text:
        raise UnreadableReply("the edit changes nothing")
    return edited, read_idea(said.partition("<<<<<<<")[0])


def _newest(traces: Sequence[PromptTrace]) -> list[PromptTrace]:
    kept: list[PromptTrace] = []
    left = TRACE_TOKENS
    for trace in reversed(traces):
        left -= tokens_of(len(trace.prompt) + len(trace.reply) + len(trace.verdict))
        if left < 0 and kept:
            break
        kept.insert(0, trace)
    return kept
