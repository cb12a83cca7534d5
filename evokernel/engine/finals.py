"""Final measurements of winners, in fresh processes, on held-out inputs. Only these are reported."""

from collections.abc import Callable, Iterable

from evokernel.engine.verdicts import Verdicts
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity
from evokernel.records.events import Notice
from evokernel.records.fitness import Elite
from evokernel.records.remarks import RemarkKind
from evokernel.records.timing import combined_speedup

CONTENDERS = 3


class FinalMeasurements:
    """Re-measures contenders until one holds."""

    def __init__(self, verdicts: Verdicts, notify: Callable[[Notice], None]) -> None:
        self._verdicts = verdicts
        self._notify = notify

    def contenders(self, elites: Iterable[Elite]) -> list[Elite]:
        """Return the fittest few, best first; of equals the older."""
        return sorted(elites, key=lambda elite: (-elite.fitness.value, elite.seq))[:CONTENDERS]

    async def measure(self, elite: Elite, *, is_seed: bool = False) -> Evaluation:
        """Return the final evaluation of an elite: the stored one, or a new one; of a seed from one process."""
        processes = 1 if is_seed else 0  # one is enough for a comparison; 0 are all
        request = EvaluationRequest(elite.candidate, elite.program_hash, Fidelity.FINAL, processes=processes)
        name = f"the seed {elite.candidate.id}, to compare with," if is_seed else elite.candidate.id
        begins = Notice(f"measuring {name} anew in fresh processes, and on held-out workloads")
        evaluation, reused_from = await self._verdicts.verdict(request, before=lambda: self._notify(begins))
        if reused_from is not None:
            return evaluation
        self._verdicts.keep(evaluation)
        if evaluation.ok:
            speedup = combined_speedup(evaluation.timings)
            how = " on held-out workloads, but is slower than its baseline" if speedup.high < 1 else ""
            said = f"{elite.candidate.id} holds{how}: {speedup.value:.3f}x its baseline ({evaluation.key.mode} mode)"
            self._notify(Notice(said))
        else:
            name, text = elite.candidate.id, f"{elite.candidate.id} does not hold: {evaluation.status}"
            self._notify(Notice(text, warning=True, kind=RemarkKind.FINAL_REFUSED, candidate=name))
        return evaluation
