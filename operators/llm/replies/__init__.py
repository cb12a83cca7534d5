"""Reading of replies: a kernel, an insight or hidden checks, or the exact reason why neither is there."""

from operators.llm.replies.checks import read_checks
from operators.llm.replies.kernels import read_kernel
from operators.llm.replies.notes import TitledNote, read_note, read_notes
from operators.llm.replies.words import UnreadableReply, ends_open, join, read_idea, read_prediction, tidy

__all__ = [
    "TitledNote",
    "UnreadableReply",
    "ends_open",
    "join",
    "read_checks",
    "read_idea",
    "read_kernel",
    "read_note",
    "read_notes",
    "read_prediction",
    "tidy",
]
