"""Export of a kernel: judged once more, written as files, and run from these files."""

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from archive.store import Store
from evokernel import __version__
from evokernel.config.load import parse_config
from evokernel.config.run import DEVICE_OF, RunConfig
from evokernel.errors import EvokernelError, StoreError, TaskError
from evokernel.evaluate.build.confined_generators import confine_generators
from evokernel.evaluate.client.devices import StartJudge
from evokernel.evaluate.client.evaluate_kernel import KernelVerdict, judge, judgement_document
from evokernel.evaluate.client.judge_process import JudgeHostClient
from evokernel.evaluate.device.device_class import this_machine
from evokernel.export.check import check_exported, check_reference
from evokernel.export.dispatch import Dispatch, WrongBetween, measure_dispatch, winners
from evokernel.export.files import KERNEL, export_files
from evokernel.export.reference import reference_files
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, Fidelity
from evokernel.records.hidden_check import HiddenCheck
from evokernel.records.timing import Speedup, combined_speedup
from evokernel.report.best import find_best
from evokernel.report.documents import portrait_document
from evokernel.report.lineage import CandidateDetails, portrait, story
from evokernel.report.status import RunFacts, run_facts
from evokernel.report.verdicts import nowhere_above, over_torch, torch_words
from evokernel.task import Task
from evokernel.tasks import load_task, task_hash

_NO_REFERENCE = (
    "the reference of the task cannot be written down as a file: it must be a function at the top of its file that "
    "needs nothing of evokernel"
)
_LOOKED_AT = 200
"""Number of the best kernels that are searched for leaders on single workloads."""
SOURCE_FILES = {"cpp": "kernel.cpp", "triton": "kernel.py", "cuda": "kernel.py"}
"""File of the best kernel's source, by language; that of `cuda` holds the helper in place of its import."""


class NotExported(EvokernelError):
    """A kernel failed its second measurement, or its files do not work."""


@dataclass(frozen=True, slots=True)
class ExportedKernel:
    """An export and its measurement."""

    folder: Path
    candidate: str
    """Its id."""
    speedup: Speedup
    """Over the fastest baseline, in `evaluation`."""
    evaluation: Evaluation
    """The final measurement before the export."""
    files: tuple[str, ...]
    """Names."""
    tried: bool
    """True where the files themselves were run; those of a GPU kernel hold the text that was judged."""
    others: tuple[str, ...] = ()
    """Ids of exported candidates that lead on single workloads."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Reason of failure for each other leader, by id."""
    no_operator: str = ""
    """Reason why there is no op.py; empty where there is one."""
    dispatch: Dispatch | None = None
    """Who answers between the workloads; None where torch does."""
    no_dispatch: str = ""
    """Reason why torch answers there; empty where there is a dispatch, or none was asked for."""


def export(  # noqa: PLR0913 - each is a choice of some caller
    store: Store,
    name: str,
    *,
    out: Path,
    per_workload: bool = False,
    sizes: int = 0,
    accept_from: float = 0.0,
    operator: bool = False,
    notify: Callable[[str], None] = lambda stage: None,
    start: StartJudge | None = None,
) -> ExportedKernel:
    """Write a kernel of a run to a folder, after it passed once more on held-out inputs with fresh seeds.

    Args:
        store: opened for reading.
        name: id of the candidate, or its beginning.
        out: the folder; must be new, empty, or an earlier export.
        per_workload: also export leaders on single workloads, each after the same measurement.
        sizes: number of sizes between the workloads at which the kernels are judged beside torch; 0 leaves all but the
            workloads to torch.
        accept_from: the least speed-up over torch; where an interval begins below it, torch answers.
        operator: export nothing where there can be no op.py.
        notify: takes the name of each stage as it begins; most last minutes.
        start: how judges are started, as in `judge`.

    Raises:
        StoreError: there is no such kernel, or the store lacks the config it was judged by.
        TaskError: the task has changed since.
        NotExported: it fails on held-out inputs, no kernel is accepted anywhere, the files do not work on their own,
            or there is no operator where one is asked for.
            Where the run's own final measurements say that none will be accepted, none is judged again.
    """
    check_folder(out)
    found, run = portrait(store, name), run_facts(store)
    candidate, config = found.stored.candidate, config_of(run)
    task = load_task(config.task).on(DEVICE_OF[candidate.language])
    others = [portrait(store, each) for each in leaders(store, besides=candidate)] if per_workload else []
    _refuse_known(store, (found, *others), accept_from)
    notify("trying the reference on its own, and starting a judge")
    # one host for all judges: it imports torch once, and while the reference is tried
    with nullcontext(start) if start else JudgeHostClient(DEVICE_OF[candidate.language]) as host:
        reference, complaint = _reference(task)
        if operator and complaint:
            raise NotExported(f"{candidate.id} can be no operator: {complaint}")
        checks = _checks(store)
        notify(f"judging {candidate.id} anew, in fresh processes and on held-out workloads")
        judgement = _judge_again(found, config, checks, host)
        if not judgement.ok:
            raise NotExported(f"{candidate.id} was not exported: {_complaint(judgement)}")
        leading, left_out = _judge_leaders(others, config, checks, host, notify)
        judgements = {KERNEL: judgement, **leading}
        finals = [each.last for each in judgements.values()]
        if all(nowhere_above(each, accept_from) for each in finals):  # sizes between take minutes, and tell no more
            raise NotExported(_slower(store, finals, accept_from))
        dispatch, no_dispatch = None, ""
        if sizes and not complaint:
            notify(f"judging at the workloads and {sizes} sizes between them, beside torch: a minute or more")
            measure = partial(
                measure_dispatch, task,
                config=config, sizes=sizes, accept_from=accept_from, seed=run.seed, start=host, notify=notify,
            )  # fmt: skip
            try:
                dispatch = _dispatch(measure, judgements, left_out)
            except TaskError as error:
                no_dispatch = f"{task.name}: {error}"
    if not winners(task, judgements, dispatch=dispatch, accept_from=accept_from) and not (
        dispatch and dispatch.modules
    ):
        raise NotExported(_slower(store, finals, accept_from))
    texts = export_files(*(task, judgements, config), reference=reference, dispatch=dispatch, accept_from=accept_from)
    texts["provenance.json"] = _provenance(store, judgements, run=run, config=config, dispatch=dispatch)
    tried = candidate.language == "cpp"
    notify("trying the files on their own" if tried else "writing the files")
    confined = confine_generators(task, config.task) if tried else task
    _publish(texts, out, lambda folder: check_exported(folder, confined) if tried else "")
    return ExportedKernel(
        folder=out,
        candidate=candidate.id,
        speedup=combined_speedup(judgement.last.timings),
        evaluation=judgement.last,
        files=tuple(texts),
        tried=tried,
        others=tuple(each.candidate.id for each in judgements.values() if each is not judgement),
        left_out=left_out,
        no_operator=complaint,
        dispatch=dispatch,
        no_dispatch=no_dispatch,
    )


def _reference(task: Task) -> tuple[dict[str, str], str]:
    """Return the files of the task's reference, or none and the reason in one line."""
    files = reference_files(task.reference)
    fault = check_reference(files) if files else ""
    said = f"the reference of the task does not load on its own: {fault.splitlines()[-1]}" if fault else ""
    complaint = said or ("" if files else _NO_REFERENCE)
    return ({} if complaint else files), complaint


def _dispatch(
    measure: Callable[[Mapping[str, Candidate]], Dispatch],
    judgements: dict[str, KernelVerdict],
    left_out: dict[str, str],
) -> Dispatch:
    """Return the dispatch of the kernels; those that fail at other sizes move to `left_out`."""
    while True:
        try:
            return measure({module: each.candidate for module, each in judgements.items()})
        except WrongBetween as error:
            failed = judgements[error.module].candidate.id
            if error.module == KERNEL:
                raise NotExported(
                    f"{failed} was not exported: {error}. With --sizes 0 no such sizes are tried"
                ) from None
            left_out[failed] = str(error)
            del judgements[error.module]


def _checks(store: Store) -> list[HiddenCheck]:
    """Return the hidden checks of a run, with those of the run before that it has not admitted yet."""
    return [each.check for each in (*store.added_checks(), *store.checks_brought_along())]


def _final_measurement(found: CandidateDetails) -> Evaluation | None:
    """Return the last measurement of a candidate in fresh processes, if the run has one with times."""
    finals = [each.evaluation for each in found.evaluations if each.evaluation.key.budget is Fidelity.FINAL]
    return finals[-1] if finals and finals[-1].timings else None


def _refuse_known(store: Store, found: Sequence[CandidateDetails], accept_from: float) -> None:
    """Raise `NotExported` where the run's own final measurements say that no kernel will be accepted."""
    measured = [_final_measurement(each) for each in found]
    known = [each for each in measured if each and nowhere_above(each, accept_from)]
    if known and len(known) == len(measured):
        said = _slower(store, known, accept_from)
        raise NotExported(f"{said}. The run itself measured that; nothing was judged again")


def _slower(store: Store, evaluations: Sequence[Evaluation], accept_from: float) -> str:
    """Return why no kernel is exported, with the figure of the best workload, and which other one may do."""
    found = [(over_torch(last, timing), timing.workload) for last in evaluations for timing in last.timings]
    speedup, workload = max(found, key=lambda pair: pair[0].low)
    names, best = dict.fromkeys(each.candidate_id for each in evaluations), find_best(store)
    torch = torch_words(evaluations[0].timings)
    said = (
        f"not exported, since nowhere faster than {torch}: {', '.join(names)}. The best is {speedup.value:.3f}x "
        f"({speedup.low:.3f} to {speedup.high:.3f}) of torch's speed, on {workload}, and intervals from "
        f"{accept_from:g} on are accepted; `--accept-from {max(speedup.low - 0.001, 0):.3f}` takes it all the same"
    )
    if best is None or best.contender is None or not best.contender_leads or best.contender in names:
        return said
    return f"{said}. But {best.contender} leads the search, and `--id {best.contender[:8]}` takes that if it holds"


def _judge_leaders(
    others: Sequence[CandidateDetails],
    config: RunConfig,
    checks: Sequence[HiddenCheck],
    start: StartJudge,
    notify: Callable[[str], None],
) -> tuple[dict[str, KernelVerdict], dict[str, str]]:
    """Return the verdicts on leaders of single workloads by module name, and why others are left out by id."""
    judgements, left_out = dict[str, KernelVerdict](), dict[str, str]()
    for other in others:
        name = other.stored.candidate.id
        notify(f"judging {name} anew, which leads on some workload")
        again = _judge_again(other, config, checks, start)
        if again.ok:
            judgements[f"{KERNEL}_{name}"] = again
        else:
            left_out[name] = _complaint(again)
    return judgements, left_out


def _judge_again(
    found: CandidateDetails, config: RunConfig, checks: Sequence[HiddenCheck], start: StartJudge
) -> KernelVerdict:
    return judge(
        found.stored.candidate,
        config.task,
        budgets=(Fidelity.FINAL,),
        settings=config.evaluation,
        threads=config.threads,
        deterministic=config.constraints.deterministic,
        task_hash=found.evaluations[-1].evaluation.key.task_hash if found.evaluations else "",
        checks=checks,
        start=start,
    )


def _complaint(judgement: KernelVerdict) -> str:
    last = judgement.last
    what = last.feedback or "no more is known"
    return f"measured again on held-out inputs it failed ({last.status}, at the stage {last.stage}): {what}"


def leaders(store: Store, *, besides: Candidate) -> list[str]:
    """Return the ids of candidates that lead on some workload, by the low end of their speed-ups there."""
    lead: dict[str, tuple[float, str]] = {}
    for ranked in store.best(_LOOKED_AT):
        candidate = ranked.candidate.candidate
        timed = [e.evaluation for e in ranked.evaluations if e.evaluation.key.budget is not Fidelity.FINAL]
        for timing in timed[-1].timings if candidate.language == besides.language else ():
            lead[timing.workload] = max(lead.get(timing.workload, (0.0, "")), (timing.speedup.low, candidate.id))
    return sorted({name for _, name in lead.values()} - {besides.id})


def check_folder(out: Path) -> None:
    """Raise `NotExported` where a folder holds files that are no export, or cannot be written."""
    there = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if out.exists() and not out.is_dir():
        raise NotExported(f"{out} is a file; --out names a folder")
    if there and "provenance.json" not in there:
        raise NotExported(f"{out} holds other files; name a new folder, an empty one, or an earlier export")
    beside = next(path for path in out.absolute().parents if path.exists())  # files are made there, and then moved
    for place in (beside, *([out] if out.exists() else [])):
        try:
            tempfile.TemporaryDirectory(dir=place).cleanup()
        except OSError as error:
            raise NotExported(f"cannot write to {out}: {error.strerror}; name another folder") from None


def config_of(run: RunFacts) -> RunConfig:
    """Return the config that a run's kernels were judged by. Raises `StoreError` where there is none."""
    if not run.config:
        raise StoreError(f"{run.path} does not say how its kernels were judged: no run has begun in it")
    return parse_config(yaml.safe_load(run.config), f"the config in {run.path}")


def _publish(texts: Mapping[str, str], out: Path, check: Callable[[Path], str]) -> None:
    """Write all files or none, from a temporary folder; `check` returns its fault, or nothing."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent, ignore_cleanup_errors=True) as drafts:
        staging = Path(drafts)
        for name, text in texts.items():
            (staging / name).write_text(text, encoding="utf-8")
        complaint = check(staging)
        if complaint:
            raise NotExported(f"not exported: the files do not work on their own: {complaint}")
        out.mkdir(exist_ok=True)
        for name in texts:
            os.replace(staging / name, out / name)


def _provenance(
    store: Store,
    judgements: Mapping[str, KernelVerdict],
    *,
    run: RunFacts,
    config: RunConfig,
    dispatch: Dispatch | None,
) -> str:
    main, gpu = judgements[KERNEL], this_machine().gpu
    facts: dict[str, Any] = {
        "format": 1,
        "exported": datetime.now(UTC).isoformat(timespec="seconds"),
        "evokernel": __version__,
        "language": main.candidate.language,
        "driver": gpu.driver if gpu and DEVICE_OF[main.candidate.language] == "cuda" else None,
        "run": {"id": run.run_id, "created": run.created, "store": str(run.path), "seed": run.seed},
        "task": {"spec": config.task, "file_hash": task_hash(config.task), "hash": main.identity.task_hash},
        "config": config.model_dump(mode="json"),
        "hidden_checks": [check.as_message() for check in _checks(store)],
        **_origin(store, main, config),
        **({"dispatch": dispatch.document()} if dispatch else {}),
        "others": {name: _origin(store, each, config) for name, each in judgements.items() if each is not main},
    }
    return json.dumps(facts, indent=2) + "\n"


def _origin(store: Store, judgement: KernelVerdict, config: RunConfig) -> dict[str, Any]:
    name, language = judgement.candidate.id, judgement.candidate.language
    found = portrait(store, name)
    return {
        "candidate": name,
        "program_hash": found.stored.program_hash,
        "lineage": [asdict(step) for step in story(store, name)],
        "final": judgement_document(judgement, task=config.task, file=SOURCE_FILES[language]),
        "evaluations": portrait_document(found)["evaluations"],
    }
