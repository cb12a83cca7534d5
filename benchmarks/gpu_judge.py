"""A judge of a GPU in this process, for benchmarks: builds candidates and opens them as the real one does."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.bench.candidate_session import CandidateSession
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.device.cores import share_out
from evokernel.evaluate.device.device_class import this_machine
from evokernel.evaluate.judge.gpu_bench import CudaBench
from evokernel.evaluate.judge.process import open_bench
from evokernel.protocols import Language
from evokernel.records.build import Built

ALL_CORES = tuple(sorted(os.sched_getaffinity(0)))
"""Taken before a bench keeps this process on one of them."""


class Workbench:
    """One bench of a task, and the languages of its candidates; one after the other in a process, not two at once."""

    _languages: ClassVar[dict[str, Language]] = {}

    def __init__(self, task: str, *, final: bool = False, max_autotune: bool = False) -> None:
        """Set a judge up; `final` makes its batches as long as those that winners are measured with."""
        os.sched_setaffinity(0, ALL_CORES)
        self.settings = EvaluationConfig(max_autotune=max_autotune).on("cuda")
        (cores,) = share_out(ALL_CORES, device="cuda", threads=1)
        self._stack = ExitStack()
        opening = open_bench(
            {
                "task": task,
                "device": "cuda",
                "threads": 1,
                "settings": self.settings.model_dump(mode="json"),
                "cores": asdict(cores),
                "admit": False,
                "final": final,
            }
        )
        opened = self._stack.enter_context(opening)
        assert isinstance(opened, CudaBench)
        self.opened_bench, self.bench = opened, opened.bench

    def build(self, source: str, language: str = "triton") -> Built:
        """Compile a candidate for all workloads of the bench. Raises `SystemExit` with the compiler's words."""
        if language not in self._languages:
            limits = this_machine().limits("cuda")
            self._languages[language] = local_language(language, self.settings, device=limits)
        made = self._languages[language].build(source, self.bench.task, hidden=self.bench.hidden_shapes)
        if not isinstance(made, Built):
            raise SystemExit(f"the candidate does not compile:\n{made.message}")
        return made

    @contextmanager
    def opened(self, source: str, language: str = "triton") -> Iterator[CandidateSession]:
        """Open a candidate."""
        session = self.opened_bench.open_session(self.build(source, language).artifact, source)
        try:
            yield session
        finally:
            session.close()

    def close(self) -> None:
        """End all processes."""
        self._stack.close()


def read(path: str | Path) -> str:
    """Return the text of a file."""
    return Path(path).read_text(encoding="utf-8")
