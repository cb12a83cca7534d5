"""Trial of a generated GPU program by the judge, where there is a GPU."""

from pathlib import Path

from evokernel.config.run import EvaluationConfig
from evokernel.errors import ConfigError, EvokernelError, HarnessError, LanguageError, TaskError
from evokernel.evaluate.client.evaluate_kernel import judge
from evokernel.evaluate.device.device_class import this_machine
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Fidelity, Status
from evokernel.records.timing import combined_speedup

NO_GPU = "there is no GPU here"


class NotJudged(EvokernelError):
    """The judge came to no verdict; the message says why, and is `NO_GPU` without one."""


def judged_here(task_file: Path, program: str, *, language: str, whose: str, settings: EvaluationConfig) -> str:
    """Judge a program once and briefly on the GPU of this machine.

    Args:
        task_file: the task.
        program: the text.
        language: `triton` or `cuda`.
        whose: begins a message on it.
        settings: of the evaluation.

    Returns:
        A sentence that names the GPU and the speed-up.

    Raises:
        NotJudged: there is no GPU, the judge failed, or it doubts the times of a program that passed its checks.
        TaskError: the program is wrong.
    """
    if this_machine().gpu is None:
        raise NotJudged(NO_GPU)
    try:
        verdict = judge(Candidate(program, language), str(task_file), budgets=(Fidelity.QUICK,), settings=settings)
    except (TaskError, LanguageError, HarnessError, ConfigError) as error:
        raise NotJudged(str(error).strip().partition("\n")[0][:200]) from None
    if verdict.last.status is Status.CHEAT_SUSPECT:  # what Inductor wrote does not cheat; a search will tell
        raise NotJudged(f"it passed all checks, and a timed measurement was refused ({verdict.last.feedback.strip()})")
    if not verdict.ok:
        raise TaskError(f"{whose} is wrong on {verdict.identity.device}: {verdict.last.feedback.strip()[:600]}")
    speedup = combined_speedup(verdict.last.timings).value
    return f"The judge found it right on {verdict.identity.device}, at {speedup:.2g}x the fastest baseline's speed."
