"""Kernels with one thing wrong with them, for the rules that name bottlenecks and for the sanitizers.

None computes anything of use. They are built as candidates are, without a GPU, and read as the judge reads a build.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from evokernel.evaluate.artifact_mode.build_checks import Target, read_artifact
from evokernel.evaluate.artifact_mode.plan import PlanLimits
from evokernel.evaluate.instruments.tool_run import RecordedCall, RecordedTensor
from evokernel.protocols import Language
from evokernel.records.build import Built
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

LARGE, MEDIUM = Workload("large", {"N": 1 << 26}), Workload("medium", {"N": 1 << 22})
TASK = Task(
    name="planted",
    reference=lambda x, **_: x,
    signature=Signature(
        inputs=(Tensor("x", ("N",)),), scalars=(Scalar("N"),), outputs=(Tensor("y", ("N",), role=Role.OUTPUT),)
    ),
    workloads={"cuda": WorkloadSet((LARGE, MEDIUM), (Workload("9", {"N": 9}),), {"N": (1, 9)})},
    flops="N",
)


@dataclass(frozen=True, slots=True)
class Planted:
    """A source in a language, and the workload that it is to be run on."""

    source: str
    language: str = "cuda"
    workload: Workload = MEDIUM


def _cuda(body: str, launch: str, *, workload: Workload = MEDIUM) -> Planted:
    head = "from evokernel.cuda import Module\n\nkernels = Module(r'''"
    tail = f"''')\n\n\ndef run(x, N, y):\n    kernels.planted[{launch}](x, y, N)\n"
    return Planted(f"{head}{_TOOLS}{body}{tail}", workload=workload)


_TOOLS = """
#define KERNEL extern "C" __global__ void __launch_bounds__
#define I (blockIdx.x * blockDim.x + threadIdx.x)
__device__ float fma_(float a, float b) { asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(a) : "f"(b)); return a; }
__device__ float exp_(float a) { asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(a)); return a; }
__device__ unsigned mix_(unsigned a, unsigned b) { return __funnelshift_r(a, b, 7) ^ b; }
"""
# Eight independent chains of one operation in each thread, 64 operations each time round.
_CHAINS = """
KERNEL(256) planted(const float* x, float* y, int n) {{
    {kind} a[8], b = ({kind})x[I & (n - 1)], c = b + 1;
    for (int j = 0; j < 8; ++j) a[j] = b + j;
    for (int s = 0; s < 400; ++s) {{
        #pragma unroll
        for (int j = 0; j < 64; ++j) {{ {step} }}
    }}
    {kind} sum = c;
    for (int j = 0; j < 8; ++j) sum += a[j];
    y[I & (n - 1)] = (float)sum;
}}
"""
_FMA = _CHAINS.format(kind="float", step="a[j & 7] = fma_(a[j & 7], b);")
_COPY = """
KERNEL(256) planted(const float* x, float* y, int n) {{
    unsigned i = I;
    y[{store}] = x[{load}];
}}
"""
_LOCAL = """
KERNEL(256) planted(const float* x, float* y, int n) {{
    float a[64];
    #pragma unroll
    for (int j = 0; j < 64; ++j) a[j] = x[(I + j) & (n - 1)];
    #pragma unroll
    for (int s = 0; s < 256; ++s) {{
        int at = {at};
        a[at & 63] = fma_(a[at & 63], a[(at + 5) & 63]);
    }}
    float sum = 0;
    #pragma unroll
    for (int j = 0; j < 64; ++j) sum += a[j];
    y[I] = sum;
}}
"""
_SHARED = """
KERNEL(256) planted(const float* x, float* y, int n) {{
    __shared__ float s[8192];
    for (int j = threadIdx.x; j < 8192; j += 256) s[j] = x[(I + j) & (n - 1)];
    __syncthreads();
    float a[4] = {{0, 0, 0, 0}};
    #pragma unroll 8
    for (int j = 0; j < 1024; ++j) a[j & 3] += s[(threadIdx.x * {stride} + j) & 8191];
    y[I] = a[0] + a[1] + a[2] + a[3];
}}
"""
# Every warp follows a chain of its own: one sector at a time, and where the next one is depends on what this one holds.
_CHASE = """
KERNEL({threads}) planted(const float* x, float* y, int n) {{
    extern __shared__ float room[];
    unsigned at = (I / 32) * 2654435761u;
    float sum = 0;
    for (int s = 0; s < 400; ++s) {{
        float v = __ldcg(x + (at & (n - 1)));
        at = at * 1664525u + 1013904223u + (v > 2.0f);
        sum += v;
    }}
    if (sum < 0) room[0] = sum;
    y[I & (n - 1)] = sum;
}}
"""
_BARRIER = """
KERNEL(1024) planted(const float* x, float* y, int n) {{
    float b = x[I & (n - 1)], a = b;
    for (int s = 0; s < 500; ++s) {{
        if ({who}) {{
            #pragma unroll
            for (int j = 0; j < 64; ++j) a = fma_(a, b);
        }}
        {wait}
    }}
    y[I & (n - 1)] = a;
}}
"""
_TENSOR = """
import torch
import triton
import triton.language as tl


@triton.jit
def planted(x, y, STEPS: tl.constexpr):
    r, c = tl.arange(0, 128), tl.arange(0, 64)
    a = tl.load(x + r[:, None] * 64 + c[None, :]).to(tl.bfloat16)
    b = tl.load(x + c[:, None] * 128 + r[None, :]).to(tl.bfloat16)
    acc = tl.zeros((128, 128), tl.float32)
    for _ in range(STEPS):
        acc = tl.dot(a, b, acc)
    at = tl.program_id(0) * 16384 + r[:, None] * 128 + r[None, :]
    tl.store(y + at, acc)


def run(x, N, y):
    planted[({blocks},)](x, y, {steps})
"""


def kernels(multiprocessors: int) -> Mapping[str, Planted]:
    """Return the planted kernels by the rule that must name them, and some that no other rule's kernel resembles."""
    full = "4096, 256"
    return {
        "idle multiprocessors": _cuda(_FMA, "16, 256"),
        "tail": _cuda(_BARRIER.format(who="true", wait=""), f"{2 * multiprocessors + 8}, 1024"),
        "tensor pipe": Planted(_TENSOR.format(blocks="N // 16384", steps=2000), "triton"),
        "register spills": _cuda(_LOCAL.format(at="s * 13 + n"), "16384, 256"),
        "uncoalesced loads": _cuda(_COPY.format(store="i", load="(i * 33) & (n - 1)"), "N // 256, 256"),
        "uncoalesced stores": _cuda(_COPY.format(store="(i * 33) & (n - 1)", load="i"), "N // 256, 256"),
        "shared memory bank conflicts": _cuda(_SHARED.format(stride=32), full),
        "device memory": _cuda(
            """
KERNEL(256) planted(const float4* x, float4* y, int n) { y[I] = x[I]; }
""",
            "N // 1024, 256",
            workload=LARGE,
        ),
        "second-level cache": _cuda(
            """
KERNEL(256) planted(const float4* x, float* y, int n) {
    float sum = 0;
    #pragma unroll 8
    for (int s = 0; s < 256; ++s) {
        float4 v = __ldcg(x + ((I + s * 66560u) & 524287));
        sum += v.x + v.y + v.z + v.w;
    }
    y[I] = sum;
}
""",
            full,
        ),
        "special functions": _cuda(_CHAINS.format(kind="float", step="a[j & 7] = exp_(a[j & 7]);"), full),
        "fp32 pipe": _cuda(_FMA, full),
        "integer and logic pipe": _cuda(
            _CHAINS.format(kind="unsigned", step="a[j & 7] = mix_(a[j & 7], b + (j & 1));"), full
        ),
        "instruction issue": _cuda(
            """
KERNEL(256) planted(const float* x, float* y, int n) {
    float b = x[I & (n - 1)], a[6];
    unsigned d[3], e = (unsigned)(b * 4096);
    for (int j = 0; j < 6; ++j) a[j] = b + j;
    for (int j = 0; j < 3; ++j) d[j] = e + j;
    for (int s = 0; s < 400; ++s) {
        #pragma unroll
        for (int j = 0; j < 75; ++j) {
            if (j % 5 == 4) d[j / 5 % 3] = mix_(d[j / 5 % 3], e);
            else a[(j - j / 5) % 6] = fma_(a[(j - j / 5) % 6], b);
        }
    }
    y[I & (n - 1)] = a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + (d[0] ^ d[1] ^ d[2]);
}
""",
            full,
        ),
        "barriers": _cuda(
            _BARRIER.format(who="threadIdx.x < 32", wait="__syncthreads();"), f"{8 * multiprocessors}, 1024"
        ),
        "too few warps": _cuda(_CHASE.format(threads=32), f"{12 * multiprocessors}, 32, 100 * 1024"),
        "memory latency": _cuda(_CHASE.format(threads=1024), f"{8 * multiprocessors}, 1024"),
        "registers in place of spills": _cuda(_LOCAL.format(at="s * 13"), "16384, 256"),
        "shared memory without conflicts": _cuda(_SHARED.format(stride=1), full),
        "whole waves": _cuda(_BARRIER.format(who="true", wait=""), f"{4 * multiprocessors}, 1024"),
    }


NEIGHBOUR: Mapping[str, str] = {
    "idle multiprocessors": "fp32 pipe",
    "tail": "whole waves",
    "tensor pipe": "device memory",
    "register spills": "registers in place of spills",
    "uncoalesced loads": "device memory",
    "uncoalesced stores": "uncoalesced loads",
    "shared memory bank conflicts": "shared memory without conflicts",
    "device memory": "second-level cache",
    "second-level cache": "device memory",
    "special functions": "fp32 pipe",
    "fp32 pipe": "special functions",
    "integer and logic pipe": "fp32 pipe",
    "instruction issue": "integer and logic pipe",
    "barriers": "whole waves",
    "too few warps": "memory latency",
    "memory latency": "fp32 pipe",
}
"""For each rule a kernel that is like its own, or could be taken for it, and that it must not name."""

_REVERSED = """
KERNEL(256) planted(const float* x, float* y, int n) {{
    __shared__ float s[256];
    s[threadIdx.x] = x[I];
    {wait}
    y[I] = s[255 - threadIdx.x];
}}
"""
FOR_SANITIZERS: Mapping[str, Planted] = {
    "out of bounds": _cuda(_COPY.format(store="i + 1", load="i"), "N // 256, 256"),
    "in bounds": _cuda(_COPY.format(store="i", load="i"), "N // 256, 256"),
    "warp-group products": Planted(_TENSOR.format(blocks=2, steps=4), "triton"),
    "race": _cuda(_REVERSED.format(wait=""), "64, 256"),
    "no race": _cuda(_REVERSED.format(wait="__syncthreads();"), "64, 256"),
}


def recorded(
    language: Language, source: str, workload: Workload, inputs: Mapping[str, bytes], *, task: Task, target: Target
) -> RecordedCall:
    """Build a source and return its call on one of the task's search workloads. Fails with the compiler's words."""
    built = language.build(source, task)
    assert isinstance(built, Built), built
    workloads = task.workloads["cuda"].search
    checked = read_artifact(built.artifact, task, workloads=workloads, target=target)
    plan = checked.plans.shapes[workloads.index(workload)]
    buffers = [
        RecordedTensor(tensor.name, tensor.bytes_at(workload.sizes), inputs.get(tensor.name))
        for tensor in task.signature.tensors
    ]
    return RecordedCall(workload.name, plan.as_message(), checked.cubins, buffers)


def target_of(capability: int, *, shared_bytes: int) -> Target:
    """Return what plans are checked against."""
    return Target(capability, PlanLimits(shared_bytes=shared_bytes, scratch_bytes=1 << 30))
