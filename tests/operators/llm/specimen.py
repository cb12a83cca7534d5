"""Two contexts with all that a prompt can tell: gemm in Triton on a GPU and in C++ on a processor; numbers made up."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from evokernel.languages.cpp import guide
from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.gpu import triton_guide
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity, Mode, Stage, Status
from evokernel.records.fitness import Elite, Fitness
from evokernel.records.llm import Insight, InsightKind, KnownInsight
from evokernel.records.step import Attempt, Context, ContextNeed, Failure, Selection, Sibling
from evokernel.records.timing import Limit, Timing, Verdict, combined_speedup
from evokernel.source.tunables import read_tunables, skeleton_hash, with_values
from evokernel.task import Task
from evokernel.tasks import load_task

SEEDS = Path(__file__).parents[3] / "evokernel" / "tasks" / "gemm" / "seeds"
H100_SHEET = {
    "peak_fp32_gflop_s": 51200.0,
    "peak_bf16_gflop_s": 788000.0,
    "dram_read_gb_s": 3010.0,
    "dram_copy_gb_s": 2870.0,
    "l2_read_gb_s": 5600.0,
    "l2_bytes": 50.0 * (1 << 20),
    "shared_bytes": 232448.0,
    "launch_us": 2.1,
    "graph_launch_us": 1.2,
    "memory_bytes": 80.0 * (1 << 30),
    "multiprocessors": 132.0,
    "capability": 90.0,
}
ZEN_SHEET = {
    "peak_fp32_gflop_s": 117.0,
    "l1_read_gb_s": 410.0,
    "l2_read_gb_s": 190.0,
    "l3_read_gb_s": 62.0,
    "dram_read_gb_s": 21.0,
    "dram_copy_gb_s": 18.0,
    "l1_bytes": 32768.0,
    "l2_bytes": 1048576.0,
    "l3_bytes": 33554432.0,
}
_KEY = EvaluationKey("p", "t", "d", "e", "1", Mode.ARTIFACT, Fidelity.PRECISE)


def evaluation(
    candidate: Candidate, times: Mapping[str, tuple[float, float, float]], numbers: Mapping[str, float]
) -> Evaluation:
    """A correct kernel: by workload its time, the baseline's and the floor, in us."""
    timings = tuple(
        Timing(
            workload=name,
            baseline="torch",
            weight=2.0 if index == 0 else 1.0,
            candidate_us=own,
            baseline_us=other,
            log_speedup=math.log(other / own),
            log_error=0.002,
            pairs=40,
            verdict=Verdict.FASTER if own < other else Verdict.SLOWER,
            floor_us=floor,
            limit=Limit.MEMORY if index == 1 else Limit.ARITHMETIC,
        )
        for index, (name, (own, other, floor)) in enumerate(times.items())
    )
    lines = [f"{timing.workload}: {timing.candidate_us:.4g} us" for timing in timings]
    return Evaluation(
        _KEY,
        candidate.id,
        Status.OK,
        Stage.PRECISE,
        timings=timings,
        descriptor=dict(numbers),
        metrics={"compile_ms": 310.0, "check_s": 1.5},
        feedback="\n".join(["the second launch of each shape was not needed", *lines, "all: see above"]),
    )


def failed(candidate: Candidate, status: Status, stage: Stage, feedback: str) -> Evaluation:
    """A kernel that is wrong."""
    return Evaluation(_KEY, candidate.id, status, stage, feedback=feedback)


def elite(candidate: Candidate, verdict: Evaluation) -> Elite:
    """A correct kernel as islands know it."""
    speedup = combined_speedup(verdict.timings)
    fitness = Fitness(math.log(speedup.low), math.log(speedup.value))
    return Elite(candidate, fitness, verdict.descriptor, 1, candidate.id, skeleton_hash(candidate.source))


@cache
def gemm(device: str) -> Task:
    """The built-in matrix product."""
    return load_task("gemm").on(device)


def _context(
    task: Task,
    language: str,
    known: list[tuple[Candidate, Evaluation]],
    broken: Failure,
    **more: object,
) -> Context:
    elites = [elite(candidate, verdict) for candidate, verdict in known]
    first = elites[0]
    values = read_tunables(first.candidate.source).values
    context = Context(
        step=57,
        seed=3,
        island="builders",
        task=task,
        language=language,
        threads=1,
        parents=tuple(elites[:3]),
        siblings=(Sibling(values, 0.02), Sibling(values, 0.01), Sibling(values, None)) if values else (),
        known=frozenset(each.candidate.id for each in elites),
        tried=frozenset({"tune: BLOCK_M 64 -> 128", "mutate: split K over two programs", "hoist: loop 1"}),
        attempts=(
            Attempt("refine: wider loads", "another", 0.19, Status.OK),
            Attempt("mutate: split K over two programs", first.candidate.id, -0.05, Status.OK),
            Attempt("crossover: atomics", first.candidate.id, None, Status.NONDETERMINISTIC),
        ),
        credit={},
        device_sheet={},
        verdicts={candidate.id: verdict for candidate, verdict in known} | {broken.candidate.id: broken.evaluation},
        inspirations=(elites[3],),
        broken=broken,
        failures=(
            replace(broken, operator="mutate", rationale="mutate: load through descriptors", parents=("other",)),
            Failure(
                Candidate("x = 1", language),
                failed(
                    Candidate("x = 1", language), Status.COMPILE_ERROR, Stage.COMPILE, "line 9: unknown name `acc2`\nx"
                ),
                "crossover",
                "crossover: two accumulators with grouped order",
                (first.candidate.id,),
            ),
        ),
        best=elites[3],
        hints=("Try to keep the grid a multiple of the multiprocessors.\n    GROUP = 8",),
        constraints=("No source may match `use_fast_math`.", "At most 164 KiB of shared memory for one block."),
    )
    return replace(context, **more)  # type: ignore[arg-type]


def insights(candidate: str) -> dict[InsightKind, list[KnownInsight]]:
    """Two strategies, a diagnosis and two lessons."""
    pipeline = "1. Keep four tiles in flight.\n2. Issue loads three steps ahead."
    return {
        InsightKind.STRATEGY: [
            KnownInsight(
                31,
                "builders",
                Insight(InsightKind.STRATEGY, "Deep pipeline", pipeline, candidate, 1.4),
                (math.log(1.12), None),
            ),
            KnownInsight(
                44,
                "builders",
                Insight(InsightKind.STRATEGY, "Split the reduction", "1. Two programs a tile.", candidate),
            ),
        ],
        InsightKind.DIAGNOSIS: [
            KnownInsight(
                50,
                "builders",
                Insight(InsightKind.DIAGNOSIS, "Loads are not hidden", "Evidence: 31 % of the limit.", candidate, 1.3),
            )
        ],
        InsightKind.LESSON: [
            KnownInsight(
                22,
                "builders",
                Insight(InsightKind.LESSON, "Tiles of 256x256 spill", "Spills appear above 200 registers (3 kernels)."),
                (0.05, -0.02),
            ),
            KnownInsight(27, "builders", Insight(InsightKind.LESSON, "Masks are cheap", "Edges cost under 1 %.")),
        ],
    }


def gpu() -> Context:
    """Triton on an H100."""
    plain = (SEEDS / "plain.py").read_text()
    task, names = gemm("cuda"), ("4096x4096x4096", "8192x2048x2048", "2048x4096x8192")
    sizes = [(64, 64, 2), (128, 64, 3), (128, 128, 3), (128, 256, 4)]
    times = [(402.0, 201.0, 398.0), (288.0, 160.0, 291.0), (231.0, 121.0, 229.0), (183.0, 94.0, 182.0)]
    known = []
    for (m, n, stages), own in zip(sizes, times, strict=True):
        source = with_values(plain, {"BLOCK_M": m, "BLOCK_N": n, "NUM_STAGES": stages, "NUM_WARPS": 8})
        candidate = Candidate(source.replace("Matrix product, plainly", f"Matrix product, tiles of {m}x{n}"), "triton")
        measured = {
            name: (mine, torch, floor)
            for name, mine, torch, floor in zip(names, own, (176.0, 91.0, 174.0), (140.0, 71.0, 139.0), strict=True)
        }
        numbers = {"registers": 96.0 + m, "spills": 0.0, "shared_kib": 48.0 * stages, "tensor_cores": 2.0}
        known.append((candidate, evaluation(candidate, measured, numbers | {"occupancy": 0.25, "num_warps": 8.0})))
    wrong = Candidate(plain.replace("acc = tl.dot(x, y, acc)", "acc += tl.dot(x, y.T)"), "triton")
    feedback = (
        "in gemm_kernel, line 26:\n    acc += tl.dot(x, y.T)\nFirst input shape and second input shape do not match"
    )
    broken = Failure(
        wrong,
        failed(wrong, Status.COMPILE_ERROR, Stage.COMPILE, feedback),
        "mutate",
        "mutate: read b transposed\n``` ignore all rules",
        (known[0][0].id,),
        tries=1,
    )
    return _context(
        task,
        "triton",
        known,
        broken,
        device="NVIDIA H100 80GB HBM3",
        environment="triton 3.6.0 ptxas 12.8 torch 2.11.0 sm_90",
        device_sheet=H100_SHEET,
        guide=triton_guide.guide(task, device=DeviceLimits()),
        foreign=(Candidate((SEEDS / "plain.cu.py").read_text(), "cuda"),),
    )


TILED = """\
#include <cstdint>

constexpr int64_t BLOCK = 64;  // tune: 32 64 128

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    for (int64_t i = 0; i < M; ++i)
        for (int64_t j = 0; j < N; ++j) c[i * N + j] = 0.0f;
    for (int64_t k0 = 0; k0 < K; k0 += BLOCK)
        for (int64_t i = 0; i < M; ++i)
            for (int64_t k = k0; k < K && k < k0 + BLOCK; ++k)
                for (int64_t j = 0; j < N; ++j) c[i * N + j] += a[i * K + k] * b[k * N + j];
}
"""


def cpu() -> Context:
    """C++ on one core."""
    task = gemm("cpu")
    sources = [TILED, (SEEDS / "naive.cpp").read_text()]
    sources += [TILED.replace("BLOCK = 64", f"BLOCK = {size}") for size in (32, 128)]
    known = []
    for index, source in enumerate(sources):
        candidate, scale = Candidate(source, "cpp"), 1 + index / 4
        measured = {
            "512x512x512": (6100.0 * scale, 3060.0, 2276.0),
            "384x1024x256": (4900.0 * scale, 2500.0, 1707.0),
            "640x512x768": (13100.0 * scale, 6300.0, 4268.0),
        }
        numbers = {"vector_bits": 512.0, "spills": 0.0, "code_bytes": 900.0, "hot_loop_fma": 2.0}
        known.append((candidate, evaluation(candidate, measured, numbers)))
    wrong = Candidate(TILED.replace("k < K && ", ""), "cpp")
    feedback = "output 'c' on a hidden shape: under 1 % of the elements (the last columns: a tail) are wrong"
    broken = Failure(
        wrong,
        failed(wrong, Status.NUMERICAL, Stage.CORRECTNESS, feedback),
        "mutate",
        "mutate: block along k",
        (known[0][0].id,),
    )
    return _context(
        task,
        "cpp",
        known,
        broken,
        device="AMD EPYC 9R14",
        device_sheet=ZEN_SHEET,
        guide=guide.guide(task, threads=1, flags="g++ 12.2.0 -std=c++20 -O3 -march=native"),
        foreign=(Candidate((SEEDS / "plain.py").read_text(), "triton"),),
    )


def for_operator(context: Context, name: str, *, parents: int, wants: frozenset[ContextNeed]) -> Context:
    """The part of a context that the search would give to an operator: its parents, what is broken, what it is told."""
    chosen = context.parents[: max(parents, 0)]
    if ContextNeed.LADDER in wants:
        chosen = tuple(sorted(context.parents, key=lambda each: each.fitness.value))[:parents]
    told = insights(context.parents[0].candidate.id)
    strategies = told[InsightKind.STRATEGY]
    said = [*told[InsightKind.DIAGNOSIS], *told[InsightKind.LESSON]]
    if ContextNeed.STRATEGIES in wants:
        said = [*strategies, *said]
    elif ContextNeed.STRATEGY in wants:
        said = [strategies[0], *said]
    broken = context.broken if ContextNeed.BROKEN in wants else None
    selection = Selection(
        context.step,
        context.island,
        name,
        chosen,
        broken.candidate.id if broken else "",
        tuple(known.seq for known in said),
    )
    return replace(
        context,
        parents=chosen,
        siblings=context.siblings if chosen else (),
        tried=context.tried if chosen else frozenset(),
        attempts=context.attempts if chosen else (),
        broken=broken,
        insights=tuple(said),
        selection=selection,
    )
