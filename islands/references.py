"""References to results: a snapshot of the state names a kernel or a verdict by the seq of its result."""

from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import PlainSerializer, PlainValidator, SerializationInfo, ValidationInfo

from evokernel.records.evaluation import Evaluation
from evokernel.records.fitness import Elite


class ResultSource(Protocol):
    """Results by seq, the context of a restore."""

    def elite(self, seq: int) -> Elite:
        """Return the elite that a result made. Raises `LookupError` or `ValueError` where there is none."""

    def evaluation(self, seq: int) -> Evaluation:
        """Return the evaluation of a result. Raises `LookupError` where there is none."""


@dataclass(frozen=True, slots=True)
class ResultVerdict:
    """Evaluation of a result."""

    seq: int
    """The fact that holds the result."""
    evaluation: Evaluation
    """Its verdict."""


def _note(seq: int, info: SerializationInfo) -> None:
    seqs: set[int] = info.context  # type: ignore[assignment]
    seqs.add(seq)


def _elite_to_plain(elite: Elite, info: SerializationInfo) -> tuple[int, float]:
    _note(elite.seq, info)
    return elite.seq, elite.fitness.value  # with the value, another verdict in the store gives another fingerprint


def _elite_of_plain(plain: tuple[int, float], info: ValidationInfo) -> Elite:
    results: ResultSource = info.context  # type: ignore[assignment]
    return results.elite(plain[0])


def _verdict_to_plain(verdict: ResultVerdict, info: SerializationInfo) -> int:
    _note(verdict.seq, info)
    return verdict.seq


def _verdict_of_plain(seq: int, info: ValidationInfo) -> ResultVerdict:
    results: ResultSource = info.context  # type: ignore[assignment]
    return ResultVerdict(seq, results.evaluation(seq))


EliteRef = Annotated[Elite, PlainSerializer(_elite_to_plain), PlainValidator(_elite_of_plain)]
"""An elite; in a snapshot its seq and fitness."""
VerdictRef = Annotated[ResultVerdict, PlainSerializer(_verdict_to_plain), PlainValidator(_verdict_of_plain)]
"""A verdict; in a snapshot its seq."""
