"""Setups of judge processes: of the first one of a run, and of those that join it."""

from dataclasses import dataclass
from typing import Any

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.client.builds import Shapes
from evokernel.records.evaluation import EvaluatorIdentity
from evokernel.source.numbers import numbers_in_text


@dataclass(frozen=True, slots=True)
class JoinedRun:
    """Properties that all evaluators of a run share, chosen or measured by the first of its judges."""

    identity: EvaluatorIdentity
    """The evaluator's part of an evaluation's key, with the device sheet and the times of baselines."""
    distributions: tuple[str, ...]
    """The input distributions."""
    hidden: Shapes
    """The hidden shapes."""


@dataclass(frozen=True, slots=True)
class JudgeSetup:
    """Setup that all judges of a run share."""

    task_spec: str
    """Argument of `evokernel.tasks.load_task`; a path is absolute."""
    device_class: str
    """`cpu` or `cuda`."""
    threads: int
    """Threads that a candidate may use on a processor."""
    settings: EvaluationConfig
    """Limits and times, resolved for the device class."""
    deterministic: bool = False
    """Kernels whose bits differ from run to run are refused."""
    profiled: bool = False
    """Whether precise timings of GPU kernels come with a profile."""
    distributions: tuple[str, ...] = ()
    """The input distributions of the run, as its first judge has chosen them; empty before."""

    def first(self) -> dict[str, Any]:
        """Return the setup of the first judge, which admits the task and measures the device."""
        return self._common(admit=True, final=False)

    def joining(
        self,
        identity: EvaluatorIdentity,
        *,
        expert: str,
        final: bool = False,
        numbers_of: str = "",
        probes: Shapes = (),
        dtype: str = "",
    ) -> dict[str, Any]:
        """Return the setup of a further judge, which measures no device: the first judge's sheet holds for the run.

        Args:
            expert: the file of the kernel that is one of the baselines, or nothing.
            final: it measures a winner, on held-out workloads, too.
            numbers_of: a source whose numbers single out further hidden shapes, or nothing.
            probes: hidden shapes to use instead of drawing some; empty where nothing is compiled for shapes.
            dtype: a further dtype of the task; empty for its own.
        """
        setup = {
            **self._common(admit=False, final=final),
            "sheet": dict(identity.device_sheet),
            # the baseline of each search workload is chosen once in a run
            "baseline_us": {name: dict(times) for name, times in identity.baseline_us.items()},
            "expert": expert,
        }
        # honest kernels of a further dtype may differ on what the first judge chose
        setup |= {"dtype": dtype} if dtype else {"distributions": list(self.distributions)}
        if numbers_of and self.device_class == "cuda":  # worker mode has those of the machine code
            setup["numbers"] = numbers_in_text(numbers_of)
        return setup | {"probes": [dict(dims) for dims in probes]} if probes else setup

    def _common(self, *, admit: bool, final: bool) -> dict[str, Any]:
        return {
            "task": self.task_spec,
            "device": self.device_class,
            "threads": self.threads,
            "settings": self.settings.model_dump(mode="json"),
            "admit": admit,
            "final": final,
        }
