"""Recheck of exports: their kernels judged again here, beside what was measured when they were written."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from pathlib import Path
from typing import Any

from evokernel import __version__
from evokernel.config.load import parse_config
from evokernel.config.run import DEVICE_OF, RunConfig
from evokernel.errors import EvokernelError, TaskError
from evokernel.evaluate.build.confined_generators import confine_generators
from evokernel.evaluate.client.evaluate_kernel import KernelVerdict, judge
from evokernel.evaluate.client.judge_process import JudgeHosts
from evokernel.evaluate.device.device_class import this_machine
from evokernel.export.check import check_exported
from evokernel.export.cuda_helper import without_helper
from evokernel.export.export_kernel import SOURCE_FILES, NotExported
from evokernel.export.files import KERNEL
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, Fidelity
from evokernel.records.evaluation_document import speedup_document
from evokernel.records.hidden_check import HiddenCheck
from evokernel.records.timing import Speedup, Timing, combined_speedup
from evokernel.tasks import load_task, task_hashes

_PARTS = ("forward", "backward")
"""Folders of an export with gradients, each an export."""


class RecheckOutcome(StrEnum):
    """What judging an exported kernel again came to."""

    HOLDS = "holds"
    """Right, and not slower than is accepted."""
    SLOWER = "slower"
    """Right, and the whole interval of its speed-up is below what is accepted."""
    WRONG = "wrong"
    """It fails a check, or its files do not work."""
    NOT_JUDGED = "not judged"
    """An error stood in the way."""


@dataclass(frozen=True, slots=True)
class Recheck:
    """An exported kernel with what was measured when it was written and what was found now."""

    folder: Path
    """The export."""
    module: str
    """Name of the kernel's module in it."""
    candidate: str
    """Its id when it was written."""
    then: Speedup
    """Speed-up over the fastest baseline when it was written."""
    now: Speedup | None
    """The same now; None where it is not right or was not judged."""
    outcome: RecheckOutcome
    """What it came to."""
    reason: str
    """Why it is wrong or was not judged; else empty."""
    least: float | None
    """The speed-up that was asked for; None where it was not judged."""
    changes: tuple[str, ...]
    """Differences between then and now in device, software, task and text."""
    evaluation: Evaluation | None
    """The final measurement now; None where there is none."""


def recheck(folder: Path, hosts: JudgeHosts, *, task: str = "", accept_from: float | None = None) -> Iterator[Recheck]:
    """Judge each kernel of an export again, in fresh processes and on held-out workloads, as `export` did.

    A kernel that was taken along for single workloads is asked for its speed where it was fastest. The files of an
    export in C++ are run, too, confined and without evokernel; those of a GPU kernel hold the text that is judged.
    Raises `NotExported` if the folder is no export.

    Args:
        folder: as `export` wrote it; one with gradients holds two exports.
        hosts: of the judges; exports that share them import torch once.
        task: in place of the task that the export names.
        accept_from: the least speed-up over the fastest baseline. None for 1, or for what the kernel had when it was
            exported where that is less.
    """
    facts = _read(folder)
    if {*_PARTS} <= facts.keys():
        for part in _PARTS:
            yield from recheck(folder / part, hosts, task=task, accept_from=accept_from)
        return
    finals = {KERNEL: facts, **facts["others"]}
    for module in finals:
        try:
            spec = task or facts["task"]["spec"]
            yield _judged(folder, module, facts, hosts, task=spec, accept_from=accept_from)
        except EvokernelError as error:
            yield _unjudged(folder, module, finals[module], str(error))


def recheck_document(found: Sequence[Recheck]) -> dict[str, Any]:
    """Return the document of `recheck --json`; docs/json.md describes its fields."""
    return {
        "format": 1,
        "ok": all(each.outcome is RecheckOutcome.HOLDS for each in found),
        "kernels": [
            {
                "export": str(each.folder),
                "module": each.module,
                "candidate": each.candidate,
                "outcome": each.outcome.value,
                "reason": each.reason,
                "then": speedup_document(each.then),
                "now": speedup_document(each.now) if each.now else None,
                "accept_from": each.least,
                "changes": list(each.changes),
                "status": each.evaluation.status.value if each.evaluation else None,
                "device": each.evaluation.key.device if each.evaluation else None,
                "environment": each.evaluation.key.environment if each.evaluation else None,
            }
            for each in found
        ],
    }


def _read(folder: Path) -> dict[str, Any]:
    try:
        facts = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
        if facts["format"] == 1 and (
            {*_PARTS} <= facts.keys() or {"final", "config", "task", "others"} <= facts.keys()
        ):
            return dict(facts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise NotExported(
        f"{folder} is no export that can be judged again: expected a folder that `evokernel export` wrote, with its "
        "provenance.json"
    )


def _judged(
    folder: Path, module: str, facts: Mapping[str, Any], hosts: JudgeHosts, *, task: str, accept_from: float | None
) -> Recheck:
    own = facts if module == KERNEL else facts["others"][module]
    alone = "" if module == KERNEL else _fastest_at(own)
    config = parse_config({**facts["config"], "task": task}, f"the config in {folder / 'provenance.json'}")
    candidate = _candidate(folder, module, facts["language"])
    verdict = judge(
        candidate,
        task,
        budgets=(Fidelity.FINAL,),
        settings=config.evaluation,
        threads=config.threads,
        deterministic=config.constraints.deterministic,
        checks=[HiddenCheck.from_message(each) for each in facts.get("hidden_checks", ())],
        start=hosts.of(DEVICE_OF[candidate.language]),
    )
    then = _then(own, alone=alone)
    least = accept_from if accept_from is not None else min(1.0, then.value)
    reason = "" if verdict.ok else f"{verdict.last.status}, at the stage {verdict.last.stage}: {verdict.last.feedback}"
    if reason and task != facts["task"]["spec"] and _is_other_task(own, task, facts["language"]):
        raise TaskError(
            f"{task} is another task than that of the export, {facts['task']['spec']}: no workload is equal"
        )
    if not reason and module == KERNEL and candidate.language == "cpp":
        reason = _files_fault(folder, config)
    now = _now(verdict.last.timings, alone=alone) if not reason else None
    outcome = outcome_of(now, least=least)
    changes = tuple(_changes(facts, own, verdict, task))
    return Recheck(folder, module, own["candidate"], then, now, outcome, reason, least, changes, verdict.last)


def outcome_of(now: Speedup | None, *, least: float) -> RecheckOutcome:
    """Return the outcome for a speed-up, None for a kernel that is not right: noise alone makes none slower."""
    if now is None:
        return RecheckOutcome.WRONG
    return RecheckOutcome.SLOWER if now.high < least else RecheckOutcome.HOLDS


def _unjudged(folder: Path, module: str, own: Mapping[str, Any], reason: str) -> Recheck:
    then = _then(own, alone="" if module == KERNEL else _fastest_at(own))
    return Recheck(folder, module, own["candidate"], then, None, RecheckOutcome.NOT_JUDGED, reason, None, (), None)


def _candidate(folder: Path, module: str, language: str) -> Candidate:
    """Return a kernel as it was judged, from the file that is shipped."""
    path = folder / f"{module}{Path(SOURCE_FILES[language]).suffix}"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotExported(f"cannot read the kernel {path}: {error}") from None
    return Candidate(without_helper(text) if language == "cuda" else text, language)


def _is_other_task(own: Mapping[str, Any], task: str, language: str) -> bool:
    device = DEVICE_OF[language]
    now = {workload.name for workload in load_task(task).on(device).workloads[device].search}
    return now.isdisjoint(row["name"] for row in own["final"]["evaluations"][-1]["workloads"])


def _files_fault(folder: Path, config: RunConfig) -> str:
    task = load_task(config.task).on(DEVICE_OF["cpp"])
    complaint = check_exported(folder, confine_generators(task, config.task))
    return f"its files do not work on their own: {complaint}" if complaint else ""


def _then(own: Mapping[str, Any], *, alone: str) -> Speedup:
    """Return the speed-up when it was exported: on one workload, or on all where none is named."""
    final = own["final"]["evaluations"][-1]
    found = next((row["speedup"] for row in final["workloads"] if row["name"] == alone), final["speedup"])
    return Speedup(found["value"], found["low"], found["high"])


def _now(timings: Sequence[Timing], *, alone: str) -> Speedup:
    return next((each.speedup for each in timings if each.workload == alone), combined_speedup(tuple(timings)))


def _fastest_at(own: Mapping[str, Any]) -> str:
    """Return the workload on which a kernel was fastest."""
    rows = own["final"]["evaluations"][-1]["workloads"]
    return str(max(rows, key=lambda row: row["speedup"]["low"])["name"])


def _changes(facts: Mapping[str, Any], own: Mapping[str, Any], verdict: KernelVerdict, task: str) -> Iterator[str]:
    gpu = this_machine().gpu
    driver = gpu.driver if gpu and DEVICE_OF[verdict.candidate.language] == "cuda" else None
    final, now = own["final"], verdict.identity
    if final["device"] != now.device:
        yield f"device: {final['device']} -> {now.device}"
    if facts.get("driver") and driver and facts["driver"] != driver:
        yield f"driver {facts['driver']} -> {driver}"
    yield from word_changes(final["environment"], now.environment)
    if final["sandbox"] != now.sandbox:
        yield f"sandbox: {final['sandbox']} -> {now.sandbox}"
    if facts["evokernel"] != __version__:
        yield f"evokernel {facts['evokernel']} -> {__version__}"
    if facts["task"]["file_hash"] not in task_hashes(task):
        yield "the text of the task"
    if own["candidate"] != verdict.candidate.id:
        yield f"the text of the kernel, which is now {verdict.candidate.id}"


def word_changes(then: str, now: str) -> Iterator[str]:
    """Yield the differing words of two descriptions of an environment, each after the word before it."""
    before, after = then.replace(";", "").split(), now.replace(";", "").split()
    seen = set()
    for kind, start, end, other, last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        named = before[max(start - 1, 0) : start]
        said = f"{' '.join([*named, *before[start:end]])} -> {' '.join(after[other:last]) or 'nothing'}"
        if kind != "equal" and said not in seen:  # torch is named twice
            seen.add(said)
            yield said
