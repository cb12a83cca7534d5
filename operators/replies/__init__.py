"""Replies of models, read strictly and kindly: a kernel, or words to keep, or the exact reason why neither is there."""

from operators.replies.kernels import read_kernel
from operators.replies.notes import Note, read_note
from operators.replies.words import Unread, ends_open, join, read_idea, read_prediction, tidy

__all__ = ["Note", "Unread", "ends_open", "join", "read_idea", "read_kernel", "read_note", "read_prediction", "tidy"]
