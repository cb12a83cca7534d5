"""Source of a kernel in a model's reply, read as operators read replies."""

from evokernel.config.run import DEVICE_OF
from evokernel.errors import LanguageError
from evokernel.task import Task
from evokernel.tasks import load_task
from operators.llm.replies.kernels import ReplyExpectation, read_kernel
from operators.llm.replies.words import tidy


def source_of_reply(reply: str, task: str | Task, *, language: str, parent: str | None = None) -> str:
    """Return the source in a reply: a fenced file, or the parent with the reply's SEARCH/REPLACE blocks or diff.

    Args:
        reply: the whole text of a model; words around the code, hidden thoughts and lines such as IDEA are left out.
        task: the task, its name or its file.
        language: of the kernel, such as `cpp` or `triton`.
        parent: the source that the prompt showed.

    Raises:
        ValueError: there is no kernel for the task in it; the message is the reason, fit for a model.
        TaskError, LanguageError: there is no such task, or no such language.
    """
    if language not in DEVICE_OF:
        raise LanguageError(f"unknown language {language!r}: expected one of {', '.join(DEVICE_OF)}")
    known = task if isinstance(task, Task) else load_task(task)
    wanted = ReplyExpectation(language=language, signature=known.signature, original=parent)
    return read_kernel(tidy(reply), wanted)
