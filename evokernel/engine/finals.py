"""Final measurements of winners, in fresh processes, on held-out inputs. Only these are reported."""

import time
from collections.abc import Callable, Iterable

from evokernel.config.run import EvaluationConfig
from evokernel.engine.verdicts import Verdicts
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity
from evokernel.records.events import Notice
from evokernel.records.fitness import Elite
from evokernel.records.remarks import RemarkKind
from evokernel.records.timing import Speedup, combined_speedup

CONTENDERS = 3
_APART = 2.0
"""A final measurement whose interval lies so many times beside that of the search is doubted."""


class FinalMeasurements:
    """Re-measures contenders until one holds.

    Args:
        settings: of the judge.
        opening_s: time that the evaluator took to open, in s: each fresh process takes about that, too.
    """

    def __init__(
        self, verdicts: Verdicts, notify: Callable[[Notice], None], *, settings: EvaluationConfig, opening_s: float
    ) -> None:
        self._verdicts = verdicts
        self._notify = notify
        self._settings = settings
        self._opening_s = opening_s
        self._kept = False

    def contenders(self, elites: Iterable[Elite]) -> list[Elite]:
        """Return the fittest few, best first; of equals the older."""
        return sorted(elites, key=lambda elite: (-elite.fitness.value, elite.seq))[:CONTENDERS]

    async def measure(
        self, elite: Elite, *, is_seed: bool = False, briefly: bool = False, keep_last: bool = False
    ) -> Evaluation:
        """Return the final evaluation of an elite: the stored one, or a new one; if `briefly`, from one process.

        With `keep_last` what is measured briefly after it is measured in the last of its processes.
        """
        processes = 1 if briefly else self._settings.final_processes
        name = f"the seed {elite.candidate.id}, to compare with," if is_seed else elite.candidate.id
        fresh = "fresh process" if processes == 1 else "fresh processes"
        where = "one process" if briefly and self._kept else f"{processes} {fresh}"  # of the winner's, mostly
        about = self._about(elite, processes, briefly=briefly)
        begins, began = Notice(f"measuring {name} anew in {where}, and on held-out workloads{about}"), time.monotonic()

        def after_process(ended: int, of: int) -> None:
            left_s = (time.monotonic() - began) / ended * (of - ended)
            self._notify(Notice(f"measured in {ended} of {of} fresh processes; about {left_s:.0f} s are left"))

        request = EvaluationRequest(
            elite.candidate,
            elite.program_hash,
            Fidelity.FINAL,
            processes=1 if briefly else 0,  # 0 are all
            keep_last=keep_last,
            after_process=after_process,
        )
        evaluation, reused_from = await self._verdicts.verdict(request, before=lambda: self._notify(begins))
        if reused_from is not None:
            return evaluation
        self._verdicts.keep(evaluation)
        self._kept = keep_last and evaluation.ok
        if evaluation.ok:
            speedup = combined_speedup(evaluation.timings)
            if speedup.low >= 1:
                how = "holds"
            else:
                slower = "slower than" if speedup.high < 1 else "neither clearly faster nor slower than"
                how = f"holds on held-out workloads, but is {slower} its baseline"
            said = f"{elite.candidate.id} {how}: {speedup.value:.3f}x its baseline ({evaluation.key.mode} mode)"
            self._notify(Notice(said))
            self._doubt(elite, speedup)
        else:
            name, text = elite.candidate.id, f"{elite.candidate.id} does not hold: {evaluation.status}"
            self._notify(Notice(text, warning=True, kind=RemarkKind.FINAL_REFUSED, candidate=name))
        return evaluation

    def _doubt(self, elite: Elite, final: Speedup) -> None:
        """Warn where the search had measured something else altogether: an interval has no part in that."""
        id_, program = elite.candidate.id, elite.program_hash
        stored = self._verdicts.stored(id_, program, Fidelity.PRECISE) or self._verdicts.stored(
            id_, program, Fidelity.QUICK
        )
        found = combined_speedup(stored.evaluation.timings) if stored is not None else final
        if found.low > _APART * final.high or final.low > _APART * found.high:
            text = (
                f"{id_} was {found.value:.3g}x its baseline in the search, and is {final.value:.3g}x now: other "
                "programs that keep the machine busy do that; `evokernel export` measures it again, best on an idle one"
            )
            self._notify(Notice(text, warning=True, kind=RemarkKind.NOTE, candidate=id_))

    def _about(self, elite: Elite, processes: int, *, briefly: bool) -> str:
        """Say how long that may take, by the longest measurement in the search; nothing where there is none."""
        known = {
            self._settings.quick_ms: self._verdicts.stored(elite.candidate.id, elite.program_hash, Fidelity.QUICK),
            self._settings.precise_ms: self._verdicts.stored(elite.candidate.id, elite.program_hash, Fidelity.PRECISE),
        }
        opened, seconds, sanitized = briefly and self._kept, 0.0, True
        for clock_ms, stored in known.items():
            metrics = stored.evaluation.metrics if stored is not None else {}
            if "time_s" in metrics:
                # As many workloads are held out. A part of the time is the same whatever the clock, as measured.
                longer = 2 * (self._settings.final_ms / self._settings.final_processes / clock_ms) ** 0.75
                opening_s = 0.0 if opened else self._opening_s
                seconds = processes * (opening_s + 2 * metrics.get("check_s", 0.0) + longer * metrics["time_s"])
                seconds += 0.0 if opened else metrics.get("build_s", 0.0)  # once more, for the held-out workloads
                sanitized = briefly or bool(metrics.get("sanitized"))  # they run once, and only on a winner
        besides = "" if sanitized else ", and what the sanitizers take"
        return f": about {seconds:.0f} s{besides}" if seconds else ""
