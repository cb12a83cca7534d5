"""Setups of judge processes: of the first one of a run, and of those that join it."""

from dataclasses import dataclass
from typing import Any

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.client.builds import Shapes
from evokernel.records.evaluation import EvaluatorIdentity


@dataclass(frozen=True, slots=True)
class JudgeSetup:
    """How all judges of a run judge."""

    task_spec: str
    """What `evokernel.tasks.load_task` takes; a path is absolute."""
    device_class: str
    """`cpu` or `cuda`."""
    threads: int
    """Threads that a candidate may use on a processor."""
    settings: EvaluationConfig
    """Limits and times, resolved for the device class."""
    profiled: bool = False
    """Whether what limits a GPU kernel is named where it is timed precisely."""

    def first(self) -> dict[str, Any]:
        """Return the setup of the first judge, which admits the task and measures the device."""
        return self._common(admit=True, final=False)

    def joining(
        self, identity: EvaluatorIdentity, *, expert: str, final: bool = False, probes: Shapes = ()
    ) -> dict[str, Any]:
        """Return the setup of a further judge. It measures no device: the first judge's sheet holds for the whole run.

        Args:
            identity: who judges in this run.
            expert: the file of the kernel that is one of the baselines, or nothing.
            final: whether it measures a winner.
            probes: hidden shapes to take over instead of drawing some; none where nothing is compiled for shapes.
        """
        setup = {
            **self._common(admit=False, final=final),
            "sheet": dict(identity.device_sheet),
            # which baseline a search is timed against is chosen once
            "baseline_us": {name: dict(times) for name, times in identity.baseline_us.items()},
            "expert": expert,
        }
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
