"""An exam of the judge by mutants: `python benchmarks/mutation_exam.py --language cpp --out exam.json`.

The kernels are the seeds of the built-in tasks and the museum's honest ones; `benchmarks/mutants.py` makes one small
edit in each. A mutant counts as different where its numbers lie beyond the tolerance on an independent set of inputs
(`benchmarks/differences.py`) and farther than honest kernels' own rounding on the same inputs, where it writes or reads
outside its buffers, or where it never ends. The judge must refuse each different one. Triton and CUDA C++ need a GPU.

The file takes the result of each task as it ends; a second call goes on after the last one. Printed is Markdown. Exit
code 1 where a different mutant passed all checks of numbers: accepted, or only its time was not believed.
"""

import argparse
import asyncio
import json
import platform
import random
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.differences import NEVER_ENDS, ROUNDS, Subject, differences
from benchmarks.mutants import Mutant, at_size, mutants
from evokernel.config.run import DEVICE_OF, EvaluationConfig
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.device.device_class import this_machine
from evokernel.protocols import Evaluator
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity
from evokernel.records.timing import combined_speedup
from evokernel.tasks import builtin_tasks, load_task
from tests.museum.exhibits import HONEST, read_exhibits

FORMAT = 1
_BUILT_IN = {"scan": "cumsum"}
"""Museum tasks that are built in under another name."""
_BEYOND = ("narrow", "grid y")
"""Operators that show only at sizes which few tasks have."""
_SAME = ("seed", "per_kernel", "large")
"""Settings that all results of a file share."""
_BY_CLOCK = ("impossible_speed", "timeout")
"""Statuses of a mutant that no check of numbers stopped: its time was not believed, or it was slow and it ends."""
_NOT_MADE = ("static_reject", "compile_error", "compile_timeout", "host_exception")


@dataclass(frozen=True, slots=True)
class Room:
    """What one evaluator judges."""

    spec: str
    """Name or path of the task."""
    language: str
    kernels: tuple[tuple[str, str], ...]
    """Label and source of each."""

    @property
    def key(self) -> str:
        """Its name in the result."""
        return f"{self.language} {Path(self.spec).stem}"


def rooms(languages: Iterable[str], only: Sequence[str]) -> list[Room]:
    """Return all tasks with their kernels; a museum kernel is judged on the built-in task where there is one."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for name in builtin_tasks():
        task = load_task(name)
        for language, seed in task.seeds.items():
            if language in languages and DEVICE_OF[language] in task.workloads:
                found.setdefault((name, language), []).append((f"{name} seed", Path(seed).read_text(encoding="utf-8")))
    for language in languages:
        for kernel in read_exhibits(HONEST / language):
            stem = kernel.head["task"]
            name = _BUILT_IN.get(stem, stem)
            spec = name if name in builtin_tasks() else kernel.task
            found.setdefault((spec, language), []).append((kernel.name, kernel.source))
    every = [Room(spec, language, tuple(kernels)) for (spec, language), kernels in found.items()]
    return [room for room in every if not only or any(part in room.key for part in only)]


def chosen(source: str, language: str, *, scalars: frozenset[str], most: int, chance: random.Random) -> list[Mutant]:
    """Return some of a kernel's mutants, of each operator about as many."""
    by_operator: dict[str, list[Mutant]] = {}
    for mutant in mutants(source, language, scalars=scalars):
        by_operator.setdefault(mutant.operator, []).append(mutant)
    for made in by_operator.values():
        chance.shuffle(made)
    turns = max((len(made) for made in by_operator.values()), default=0)
    return [made[turn] for turn in range(turns) for made in by_operator.values() if turn < len(made)][:most]


def examine(room: Room, *, most: int, seed: int, large: bool, settings: EvaluationConfig) -> list[dict[str, Any]]:
    """Return a record of each mutant of a room."""
    device = DEVICE_OF[room.language]
    task = load_task(room.spec).on(device)
    scalars = frozenset(scalar.name for scalar in task.signature.scalars if "float" in scalar.dtype)
    subjects, made = list[Subject](), list[tuple[str, Mutant] | None]()
    for label, source in room.kernels:
        original = len(subjects)
        subjects.append(Subject(source, original))
        made.append(None)
        picked = chosen(source, room.language, scalars=scalars, most=most, chance=random.Random(f"{seed} {label}"))
        if large:
            picked = [replace(each, source=at_size(source, each.source, room.language, task=task)) for each in picked]
        subjects += [Subject(mutant.source, original) for mutant in picked]
        made += [(label, mutant) for mutant in picked]
    found = differences(room.spec, subjects, room.language, device=device, seed=seed)
    different = [number for number, text in enumerate(found) if text and text != ROUNDS and made[number]]
    sources = [subjects[number].source for number in different]
    verdicts = dict(zip(different, asyncio.run(_judged(room, sources, settings)), strict=True))
    records = []
    for number, origin in enumerate(made):
        if origin is not None:
            label, mutant = origin
            fields = {"kernel": label, **asdict(mutant), "difference": found[number]}
            records.append({**fields, **(_verdict(verdicts[number]) if number in verdicts else {})})
    return records


async def _judged(room: Room, sources: Sequence[str], settings: EvaluationConfig) -> list[Evaluation]:
    language = local_language(room.language, settings, device=this_machine().limits(DEVICE_OF[room.language]))

    async def judge(evaluator: Evaluator, source: str) -> Evaluation:
        candidate = Candidate(source, language.name)
        return await evaluator.evaluate(EvaluationRequest(candidate, language.program_hash(source), Fidelity.QUICK))

    async with open_evaluator(room.spec, language, settings=settings) as evaluator:
        return await asyncio.gather(*(judge(evaluator, source) for source in sources))


def _verdict(found: Evaluation) -> dict[str, Any]:
    speedup = combined_speedup(found.timings).value if found.ok else None
    return {"status": found.status.value, "stage": found.stage.value, "feedback": found.feedback, "speedup": speedup}


# -------------------------------------------------------------------------------------------------------- printing


def tallied(records: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return the numbers of mutants: made, different, accepted, stopped by the clock, and for sizes no task has."""
    counts: Counter[str] = Counter()
    for record in records:
        if record["difference"] is None or record.get("status") in _NOT_MADE:
            continue
        counts["made"] += 1
        counts["different"] += record["difference"] not in ("", ROUNDS)
        counts["rounds"] += record["difference"] == ROUNDS
        counts["accepted"] += record.get("status") == "ok"
        counts["clock"] += by_clock(record)
        counts["beyond"] += record["difference"] == "" and record["operator"] in _BEYOND
    return counts


def by_clock(record: Mapping[str, Any]) -> bool:
    """Say whether a mutant was stopped by the clock alone."""
    return record.get("status") in _BY_CLOCK and record["difference"] != NEVER_ENDS


def page(result: Mapping[str, Any]) -> str:
    """Return the result as Markdown."""
    records = {key: found["mutants"] for key, found in result["rooms"].items()}
    every = [record for found in records.values() for record in found]
    by_operator = {name: [r for r in every if r["operator"] == name] for name in sorted({r["operator"] for r in every})}
    where = ", which are the kernel itself on small sizes" if result["large"] else ""
    lines = [
        f"{result['machine']}; seed {result['seed']}; at most {result['per_kernel']} mutants of a kernel{where}",
        "",
    ]
    for head, groups in (("task", records), ("operator", by_operator)):
        lines += [f"| {head} | made | different | accepted | stopped by the clock alone |", "|---|---|---|---|---|"]
        for name, members in (*groups.items(), ("all", every)):
            counts = tallied(members)
            numbers = (counts[each] for each in ("made", "different", "accepted", "clock"))
            lines.append(f"| {name} | {' | '.join(map(str, numbers))} |")
        lines.append("")
    whole = tallied(every)
    share = 100 * whole["accepted"] / max(whole["different"], 1)
    lines.append(
        f"Accepted: {share:.2f} % of the different ones. Beyond the tolerance, but within twice the error of an honest "
        f"kernel on the same inputs: {whole['rounds']}. Made for sizes that no workload has, and the same on all: "
        f"{whole['beyond']}."
    )
    for key, found in records.items():
        for each in found:
            if each.get("status") == "ok" or by_clock(each):
                speed = f"{each['speedup']:.2f}x" if each["speedup"] else each["status"]
                lines += [
                    f"* {key}, `{each['kernel']}`, line {each['line']}, {each['operator']}: `{each['before'][:200]}` "
                    f"to `{each['after'][:200]}`: {each['difference']}; {speed}"
                ]
    return "\n".join(lines)


def main() -> int:
    """Examine the rooms that the file lacks, and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--language", nargs="+", choices=("cpp", "triton", "cuda"), default=["cpp"])
    parser.add_argument("--out", type=Path, required=True, help="the result, read and written")
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of tasks")
    parser.add_argument("--per-kernel", type=int, default=30, help="most mutants of one kernel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--large", action="store_true", help="mutants are the kernel itself on small sizes")
    given = parser.parse_args()
    result: dict[str, Any] = {
        "format": FORMAT,
        "seed": given.seed,
        "per_kernel": given.per_kernel,
        "large": given.large,
        "machine": torch.cuda.get_device_name() if torch.cuda.is_available() else f"a processor, {platform.machine()}",
        "rooms": {},
    }
    if given.out.exists():
        earlier = json.loads(given.out.read_text(encoding="utf-8"))
        if any(earlier[name] != result[name] for name in _SAME):
            parser.error(f"{given.out} is from another {', '.join(_SAME)}; name another file or the same ones")
        result = earlier
    for room in rooms(given.language, given.only):
        if room.key in result["rooms"]:
            continue
        settings = EvaluationConfig(quick_ms=30, precise_ms=60, final_ms=120, timeout_s=10, gpus=1)
        records = examine(
            room,
            most=given.per_kernel,
            seed=given.seed,
            large=given.large,
            settings=settings.on(DEVICE_OF[room.language]),
        )
        result["rooms"][room.key] = {"mutants": records}
        given.out.write_text(json.dumps(result, indent=1), encoding="utf-8")
        print(room.key, dict(tallied(records)), file=sys.stderr, flush=True)
    print(page(result))
    passed = (tallied(found["mutants"]) for found in result["rooms"].values())
    return 1 if any(counts["accepted"] + counts["clock"] for counts in passed) else 0


if __name__ == "__main__":
    sys.exit(main())
