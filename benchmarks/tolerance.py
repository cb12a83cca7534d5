"""The rule of right and wrong on this machine's arithmetic: which answers it accepts, by task and distribution.

`python benchmarks/tolerance.py [--device cuda] [--rounds 3] [--only gemm softmax] [--dtypes float32 bfloat16 float16]`

Honest answers are those of admission (chunks, permuted sums, fp64 rounded) and each baseline of the task as it runs
here: on a GPU torch, torch.compile and cuBLASLt, on tensor cores where the dtype has them. Wrong ones are the empty
answers of admission, results for inputs of fewer bits (16 under 32, fp8 under 16, TF32 where the task forbids it: on a
GPU by its tensor cores, too), and work left out: a block of rows that holds another call's result, a last row of
zeros. A task is tried on its smallest search workload, and gemm in three dtypes on a GPU.

Printed is Markdown. Every honest answer must be accepted everywhere, every wrong one rejected somewhere: exit code 1
where that is not so.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from evokernel.evaluate.bench.admission_variants import (
    AdmissionVariant,
    Answers,
    attempt,
    empty_answers,
    honest_answers,
    same_bits,
)
from evokernel.evaluate.numerics.arrays import is_float
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.worker_mode.baseline_process import panel_functions
from evokernel.task import PATCHWORK, Task
from evokernel.tasks import builtin_tasks, load_task

_BLOCKS = 64
"""A stale block is one of so many parts of the rows."""
_TF32_BITS = 13
"""Bits of an fp32 number that TF32 has not."""


@dataclass
class Tally:
    """Rejections of answers: for each answer and distribution, one truth value a draw."""

    honest: dict[tuple[str, str], list[bool]] = field(default_factory=lambda: defaultdict(list))
    wrong: dict[tuple[str, str], list[bool]] = field(default_factory=lambda: defaultdict(list))


def tasks_on(device: str, only: list[str], dtypes: list[str]) -> Iterator[tuple[str, Task]]:
    """Yield the tasks that have workloads for a device class, with their labels."""
    for name in builtin_tasks():
        task = load_task(name)
        if not any(part in name for part in only) or device not in task.workloads:
            continue
        if name != "gemm" or device == "cpu":
            yield name, task.on(device)
            continue
        for dtype in dtypes:
            chosen = replace(task.workloads[device], dtype=dtype)
            yield f"{name} in {dtype}", replace(task, workloads={device: chosen}).on(device)


def baseline_answers(case: AdmissionVariant) -> Iterator[tuple[str, Answers]]:
    """Yield the results of each baseline of the task on this machine."""
    allowed = case.task.precision.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    scalars = {scalar.name: case.workload.dims[scalar.name] for scalar in case.task.signature.scalars}
    for name, baseline in panel_functions(case.task).items():
        inputs = {each: array.clone() for each, array in case.inputs.items()}
        written = tuple(torch.full_like(array, 0) for array in case.native)
        with torch.no_grad():
            baseline({**inputs, **scalars}, written)
        yield f"{name}, as it runs here", written


def coarse_answers(case: AdmissionVariant) -> dict[str, Callable[[], Answers | None]]:
    """Return answers with fewer bits than the task asks for, and with a part of the work left out."""
    made: dict[str, Callable[[], Answers | None]] = {}
    dtypes = {tensor.dtype for tensor in case.task.signature.inputs if is_float(tensor.dtype)}
    if dtypes & {"bfloat16", "float16"}:
        made["fp8 inputs"] = lambda: _rounded(case, lambda values: values.to(torch.float8_e4m3fn).to(values.dtype))
    if "float32" in dtypes and not case.task.precision.allow_tf32:
        made["TF32 inputs"] = lambda: _rounded(case, _as_tf32)
        if case.expected.outputs[0].native.is_cuda:
            made["TF32 on tensor cores"] = lambda: _with_tf32(case)
    made["a block of rows of another result"] = lambda: _stale(case)
    made["the last row left at zero"] = lambda: _without_last_row(case)
    return made


def _rounded(case: AdmissionVariant, round_off: Callable[[torch.Tensor], torch.Tensor]) -> Answers | None:
    inputs = {name: round_off(array) if array.is_floating_point() else array for name, array in case.inputs.items()}
    return attempt(case.task, case.workload, inputs)


def _as_tf32(values: torch.Tensor) -> torch.Tensor:
    """Round fp32 numbers to the 10 bits of TF32, halves away from zero as `cvt.rna.tf32` does."""
    words = values.view(torch.int32)
    return ((words + (1 << (_TF32_BITS - 1))) & -(1 << _TF32_BITS)).view(torch.float32)


def _with_tf32(case: AdmissionVariant) -> Answers:
    """Run the reference as torch does it with TF32 allowed: its products of matrices go to the tensor cores."""
    scalars = {scalar.name: case.workload.dims[scalar.name] for scalar in case.task.signature.scalars}
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    try:
        with torch.no_grad():
            found = case.task.reference(**{name: array.clone() for name, array in case.inputs.items()}, **scalars)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def _stale(case: AdmissionVariant) -> Answers | None:
    other = attempt(case.task, case.workload, case.others)
    if other is None:
        return None
    answers = []
    for right, stale in zip(case.native, other, strict=True):
        rows = right.shape[0] if right.ndim else 1
        block = max(1, rows // _BLOCKS)
        mixed = right.clone()
        mixed[rows // 2 : rows // 2 + block] = stale[rows // 2 : rows // 2 + block]
        answers.append(mixed)
    return tuple(answers)


def _without_last_row(case: AdmissionVariant) -> Answers:
    answers = tuple(array.clone() for array in case.native)
    for array in answers:
        array[-1:] = 0
    return answers


def try_task(task: Task, *, device: str, rounds: int, rng: np.random.Generator) -> Tally:
    """Judge all answers on the smallest search workload; a wrong one that is right bit for bit does not count."""
    (workloads,) = task.workloads.values()
    workload = min(workloads.search, key=task.bytes_at)
    tally = Tally()
    for distribution in task.distributions:
        for _ in range(rounds):
            case = AdmissionVariant.drawn(task, workload, distribution, rng, device=device)
            for name, answer in [*honest_answers(case, rng).items(), *baseline_answers(case)]:
                tally.honest[name, distribution].append(judge_output(case.expected, answer) is not None)
            for name, make in {**empty_answers(case, rng), **coarse_answers(case)}.items():
                wrong = make()
                if wrong is not None and not same_bits(wrong, case.native):
                    tally.wrong[name, distribution].append(judge_output(case.expected, wrong) is not None)
    return tally


def table(found: Mapping[tuple[str, str], list[bool]], distributions: tuple[str, ...], head: str) -> str:
    """Return a table of how often each answer was rejected."""
    rows = [f"| {head} | {' | '.join(distributions)} |", "|---" * (len(distributions) + 1) + "|"]
    for name in dict.fromkeys(name for name, _ in found):
        cells = (found.get((name, each), []) for each in distributions)
        rows.append(f"| {name} | {' | '.join(f'{sum(cell)} of {len(cell)}' if cell else '-' for cell in cells)} |")
    return "\n".join(rows)


def faults(tally: Tally) -> list[str]:
    """Return the wrong rejections and the wrong acceptances."""
    harmed = [
        f"an honest answer is rejected: {name} on {place}" for (name, place), out in tally.honest.items() if any(out)
    ]
    caught = {name for (name, _), rejected in tally.wrong.items() if any(rejected)}
    names = dict.fromkeys(name for name, _ in tally.wrong)
    return harmed + [f"a wrong answer is rejected nowhere: {name}" for name in names if name not in caught]


def main() -> int:
    """Print the tables and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=3, help="draws of each distribution")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of the names of the tasks to try")
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float16", "float32"], help="of gemm on a GPU")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    place = torch.cuda.get_device_name() if given.device == "cuda" else "a processor"
    print(
        f"torch {torch.__version__} on {place}; cells say how often an answer was rejected, of {given.rounds} draws\n"
    )
    wrong = []
    for name, declared in tasks_on(given.device, given.only, given.dtypes):
        task = replace(declared, distributions=(*declared.distributions, PATCHWORK))
        tally = try_task(task, device=given.device, rounds=given.rounds, rng=rng)
        print(f"## {name}\n")
        print(table(tally.honest, task.distributions, "honest") + "\n")
        print(table(tally.wrong, task.distributions, "wrong") + "\n", flush=True)
        wrong += [f"{name}: {fault}" for fault in faults(tally)]
    print(
        "\n".join(wrong) if wrong else "Every honest answer was accepted, and every wrong one was rejected somewhere."
    )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
