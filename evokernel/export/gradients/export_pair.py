"""Export of two winners as one operator with gradients."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from archive.store import Store
from evokernel import __version__
from evokernel.config.run import DEVICE_OF, RunConfig
from evokernel.errors import TaskError
from evokernel.evaluate.client.judge_process import JudgeHostClient
from evokernel.export.export_kernel import ExportedKernel, NotExported, check_folder, config_of, export
from evokernel.export.gradients.gradient_task import functions_of
from evokernel.export.gradients.pair_check import check_pair, checked_text
from evokernel.export.gradients.pair_texts import Figures, operator_name, pair_texts, readme
from evokernel.report.lineage import portrait
from evokernel.report.status import run_facts
from evokernel.task import Task
from evokernel.tasks import load_task


@dataclass(frozen=True, slots=True)
class ExportedPair:
    """Two exports and what joins them."""

    folder: Path
    name: str
    """The operator."""
    forward: ExportedKernel
    backward: ExportedKernel
    checked: str
    """What was compared, as a sentence."""
    figures: Figures
    """Times of forward and backward together; empty where nothing could be timed."""


def export_pair(
    forward: Store,
    backward: Store,
    names: tuple[str, str],
    *,
    out: Path,
    notify: Callable[[str], None] = lambda stage: None,
) -> ExportedPair:
    """Write the winners of two searches as one operator of PyTorch with gradients.

    Both are judged anew first, as by `export`. On a processor the operator is then run from its files, compared with
    autograd in fp64 and timed beside torch; on a GPU `test_gradients.py` does that.

    Args:
        forward: the store of the search on NAME_forward, opened for reading.
        backward: that on NAME_backward.
        names: id of the candidate of each, or its beginning.
        out: the folder; must be new, empty, or an earlier export.
        notify: takes the name of each stage as it begins.

    Raises:
        NotExported: the stores do not belong together, or a kernel or the operator fails.
        StoreError, TaskError: as `export`.
    """
    check_folder(out)
    config, task, language = _read(forward, names[0])
    config_back, task_back, language_back = _read(backward, names[1])
    functions = _functions(task, task_back)
    if DEVICE_OF[language] != DEVICE_OF[language_back]:
        raise NotExported(f"forward is for {DEVICE_OF[language]} and backward for {DEVICE_OF[language_back]}")
    if max(config.threads, 1) != max(config_back.threads, 1):
        raise NotExported(f"forward was judged with {config.threads} threads, backward with {config_back.threads}")
    device = DEVICE_OF[language]
    task, task_back = task.on(device), task_back.on(device)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent, ignore_cleanup_errors=True) as drafts:
        staging = Path(drafts)
        with JudgeHostClient(device) as host:  # it imports torch once for both
            made = export(forward, names[0], out=staging / "forward", notify=notify, start=host)
            made_back = export(backward, names[1], out=staging / "backward", notify=notify, start=host)
        for part in (made, made_back):
            if part.no_operator:
                raise NotExported(f"{part.candidate} has no operator: {part.no_operator}")
        ids = made.candidate, made_back.candidate
        shutil.copy(_original_file(functions), staging / "forward")
        for file, text in pair_texts(
            task, task_back, functions, ids=ids, device=device, threads=config.threads
        ).items():
            (staging / file).write_text(text, encoding="utf-8")
        name, checked = operator_name(task), "Not run here: `python test_gradients.py` compares."
        figures: Figures = {}
        if device == "cpu":
            notify("running the operator from its files, beside autograd in fp64 and torch")
            fault, figures = check_pair(staging, task, task_back, functions, name=name)
            if fault:
                raise NotExported(f"the operator is not exported: {fault}")
            checked = checked_text(functions, task.workloads[device].search)
        text = readme(task, functions, ids=ids, figures=figures, checked=checked)
        (staging / "README.md").write_text(text, encoding="utf-8")
        (staging / "provenance.json").write_text(_provenance(ids, name=name, figures=figures), encoding="utf-8")
        _move(staging, out)
    return ExportedPair(out, name, made, made_back, checked, figures)


def _read(store: Store, name: str) -> tuple[RunConfig, Task, str]:
    config = config_of(run_facts(store))
    return config, load_task(config.task), portrait(store, name).stored.candidate.language


def _functions(forward: Task, backward: Task) -> ModuleType:
    """Return the file that both tasks stand on. Raises `NotExported` where they do not belong together."""
    functions, other = functions_of(forward), functions_of(backward)
    if functions is None or other is None:
        without = forward if functions is None else backward
        raise NotExported(f"the task {without.name} is none of `evokernel init --training`, which makes both tasks")
    if functions.__file__ != other.__file__ or functions.__name__ != other.__name__:
        raise NotExported(f"{forward.name} and {backward.name} stand on different files of functions")
    wanted = len(functions.GRADIENTS), len(functions.BACKWARD)
    if (len(backward.signature.outputs), len(backward.signature.inputs)) != wanted:
        raise NotExported(f"{backward.name} is no backward of {forward.name}: name the store of forward first")
    return functions


def _original_file(functions: ModuleType) -> Path:
    try:
        return Path(str(functions._source().__file__))
    except (RuntimeError, StopIteration, OSError) as error:
        raise TaskError(f"the original of {functions.__file__} cannot be read: {error or 'its file is gone'}") from None


def _provenance(ids: tuple[str, str], *, name: str, figures: Figures) -> str:
    facts = {
        "format": 1,
        "evokernel": __version__,
        "candidate": f"{ids[0]}+{ids[1]}",
        "operator": name,
        "forward": ids[0],
        "backward": ids[1],
        "forward_and_backward": figures,
    }
    return json.dumps(facts, indent=2) + "\n"


def _move(staging: Path, out: Path) -> None:
    staging.chmod(0o755)
    out.mkdir(exist_ok=True)
    for item in staging.iterdir():
        target = out / item.name
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(item, target)
