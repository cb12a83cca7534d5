"""Setup of a bench, as the engine sends it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.device.cores import Cores


@dataclass(frozen=True, slots=True)
class BenchSetup:
    """Setup of a judge's bench."""

    task_spec: str
    """Argument of `evokernel.tasks.load_task`."""
    settings: EvaluationConfig
    """Limits and times, resolved for the device class."""
    threads: int
    """Threads that a candidate may use on a processor."""
    cores: Cores
    """Cores of judge, runners, engine and compilers."""
    admit: bool
    """Whether the task is admitted first."""
    final: bool
    """Whether a winner is measured, also on held-out workloads."""
    sheet: Mapping[str, float]
    """The device sheet of the run; empty where this judge measures it."""
    probes: Sequence[Mapping[str, int]]
    """Hidden shapes from an earlier judge; empty where this judge draws them."""
    baseline_us: Mapping[str, Mapping[str, float]]
    """Times of the baselines in us, by search workload and name; the run has chosen one for each workload."""
    distributions: Sequence[str]
    """Input distributions from an earlier judge, its own among them; empty where this judge chooses its own."""
    expert: str
    """The file of a user's kernel that is one of the baselines; empty where there is none."""
    dtype: str = ""
    """One of the task's further dtypes, which a winner is tried at; empty for the task's own."""
    numbers: Sequence[int] = ()
    """Those in a winner's text, where kernels are compiled for shapes."""

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Self:
        """Return the setup in a message of the engine."""
        return cls(
            task_spec=message["task"],
            settings=EvaluationConfig(**message["settings"]),
            threads=message["threads"],
            cores=Cores(**{name: tuple(cores) for name, cores in message["cores"].items()}),
            admit=message["admit"],
            final=message["final"],
            sheet=message.get("sheet") or {},
            probes=message.get("probes") or (),
            baseline_us=message.get("baseline_us", {}),
            distributions=message.get("distributions") or (),
            expert=message.get("expert", ""),
            dtype=message.get("dtype", ""),
            numbers=message.get("numbers") or (),
        )
