"""Check of a seed in CUDA C++: built for sm_90 anywhere, and judged where there is a GPU."""

import json
from collections.abc import Sequence
from pathlib import Path

from evokernel.config.run import EvaluationConfig
from evokernel.errors import TaskError
from evokernel.evaluate.inside.process.bundle import unpack
from evokernel.scaffold.inductor.gpu_trial import NotJudged, judged_here
from evokernel.scaffold.inductor.seed import NOT_COMPARED, build_for_sm90
from evokernel.tasks import load_task


def check_cuda_program(task_file: Path, program: str, *, entry: str, whose: str, headers: Sequence[str] = ()) -> str:
    """Build a program, read which launches were recorded, and judge it where there is a GPU.

    Args:
        task_file: the task.
        program: the text.
        entry: name of a kernel that it must launch.
        whose: begins a message on it.
        headers: folders of headers that it includes.

    Returns:
        What the judge said and what is launched; begins with `NOT_COMPARED` without a GPU.

    Raises:
        NoInductorSeed: it is no kernel.
        TaskError: it launches other kernels, or is wrong.
    """
    task = load_task(str(task_file)).on("cuda")
    settings = EvaluationConfig(cuda_include=tuple(headers))
    built = build_for_sm90(task, program, language="cuda", whose=whose, settings=settings)
    shapes = json.loads(unpack(built.artifact)["plans.json"])["shapes"]
    launches = [step["launch"] for step in (shapes[0]["steps"] if shapes else ()) if "launch" in step]
    names = {launch["kernel"] for launch in launches}
    if shapes and entry not in names:
        raise TaskError(f"{whose} launches {', '.join(sorted(names))}, and not {entry}: name that with --entry")
    told = "; ".join(
        f"{each['kernel']} with {_extents(each['grid'], each['cluster'])} blocks of {_extents(each['block'])} threads, "
        f"{each['shared_bytes']} bytes of shared memory and {len(each['parameters'])} arguments"
        for each in launches
    )
    (workloads,) = task.workloads.values()
    recorded = f"\nIt launches at {workloads.search[0].name}: {told}." if told else ""
    return f"{_judged(task_file, program, whose=whose, settings=settings)}{recorded}"


def _extents(extents: list[int], cluster: int = 1) -> str:
    x, *others = extents
    return "x".join(str(each) for each in (x * cluster, *others) if each > 1) or "1"


def _judged(task_file: Path, program: str, *, whose: str, settings: EvaluationConfig) -> str:
    try:
        return judged_here(task_file, program, language="cuda", whose=whose, settings=settings)
    except NotJudged as error:
        return f"{NOT_COMPARED}: {error}."
