"""Builds with the real NVRTC: what is recorded, what fails how, and what a worker finds in the bundle."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from evokernel.config.run import DESCRIPTORS
from evokernel.errors import LanguageError
from evokernel.evaluate.artifact_mode.cubin import inspect, refusal, refuse_misfits
from evokernel.evaluate.artifact_mode.plan import BufferFacts, PlanLimits, read_plans
from evokernel.evaluate.inside.driver.nvrtc import CompileError, find_nvrtc
from evokernel.evaluate.inside.process import bundle
from evokernel.evaluate.inside.untrusted.cuda_cache import CACHE, file_of
from evokernel.languages import make_language
from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.gpu.cuda import CudaLanguage
from evokernel.languages.toolchain import CompileAnswer, forge_plain, run_plain
from evokernel.records.build import BuildFailure, Built
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks import load_task
from tests.support.nvrtc import needs_nvrtc
from tests.support.warm_compiler import WarmForge

pytestmark = needs_nvrtc

TASK = Task(
    name="twice",
    reference=lambda x, **_: 2 * x,
    signature=Signature(
        inputs=(Tensor("x", ("N",)),), scalars=(Scalar("N"),), outputs=(Tensor("y", ("N",), role=Role.OUTPUT),)
    ),
    workloads={"cuda": WorkloadSet((Workload("64k", {"N": 65536}),), (Workload("9", {"N": 9}),), {"N": (1, 9)})},
    flops="N",
)
# Every kind of parameter, two modules, two kernels of one module, scratch, a view, dynamic shared memory, clusters.
KINDS = """\
import torch
from evokernel.cuda import Module

THREADS = 128  # tune: 64 128

first = Module(r\"\"\"
#include <cuda_bf16.h>
__device__ int calls;
extern "C" __global__ void kinds(const float* x, float* y, signed char a, short b, int c, long long d,
                                 float e, double f, const void* nothing) {
    extern __shared__ float room[];
    room[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = room[THREADS - 1 - threadIdx.x] + a + b + c / 65536 + (d >> 40) + e + f + (nothing != nullptr);
}
extern "C" __global__ void count() { if (threadIdx.x == 0) ++calls; }
\"\"\", THREADS=THREADS)
second = Module('extern "C" __global__ void copy(float* to, const float* from) { to[blockIdx.x] = from[blockIdx.x]; }')


def run(x, N, y):
    scratch = torch.zeros(N, dtype=torch.float32, device=x.device)
    first.kinds[1, THREADS, 60000](x[64:], scratch, -1, 2, N, 1 << 40, 0.5, 0.25, None)
    first.count[(1,), 32]()
    second.copy[(64, 2), 1, 0, 4](y, scratch)
"""
HEAD = 'from evokernel.cuda import Module\n\nm = Module(r"""\n'
TAIL = '\n""")\n\ndef run(x, N, y):\n'
SCALE = (
    'extern "C" __global__ void scale(const float* x, float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = x[0]; }'
)
CALL = "    m.scale[1, 256](x, y, N)\n"


@pytest.fixture(scope="module")
def forge() -> WarmForge:
    return WarmForge()


@pytest.fixture(scope="module")
def language(forge: WarmForge) -> CudaLanguage:
    return CudaLanguage(forge=forge)


def built(language: CudaLanguage, source: str, task: Task = TASK, **options: object) -> Built:
    made = language.build(source, task, **options)  # type: ignore[arg-type]
    assert isinstance(made, Built), made
    return made


def failure(language: CudaLanguage, source: str) -> str:
    made = language.build(source, TASK)
    assert isinstance(made, BuildFailure), made
    assert "/tmp" not in made.message
    return made.message


def test_what_is_launched_is_written_down_and_fits_what_was_compiled(language: CudaLanguage):
    assert language.static_check(KINDS) is None
    files = bundle.unpack(built(language, KINDS, hidden=[{"N": 70}]).artifact)
    found = {hashlib.sha256(image).hexdigest(): image for name, image in files.items() if name.endswith(".cubin")}
    cubins = {digest: inspect(image) for digest, image in found.items()}
    assert sorted(sorted(facts.kernels) for facts in cubins.values()) == [["copy"], ["count", "kinds"]]
    assert all(refusal(facts, capability=90) is None for facts in cubins.values())
    document = json.loads(files["plans.json"])
    fill, kinds, count, copy = (step.get("launch", step) for step in document["shapes"][0]["steps"])
    assert document["shapes"][0]["scratch"] == {"scratch0": 4 * 65536}
    assert fill["fill"]["buffer"] == "scratch0"
    numbers = [["i8", -1], ["i16", 2], ["i32", 65536], ["i64", 1 << 40], ["fp32", 0.5], ["fp64", 0.25], ["ptr", None]]
    assert kinds["parameters"] == [["ptr", ["x", 256]], ["ptr", ["scratch0", 0]], *numbers]
    assert (kinds["grid"], kinds["block"], kinds["shared_bytes"]) == ([1, 1, 1], [128, 1, 1], 60000)
    assert kinds["cubin"] == count["cubin"] != copy["cubin"]
    assert (copy["grid"], copy["cluster"]) == ([16, 2, 1], 4)
    limits = PlanLimits(shared_bytes=232448, scratch_bytes=1 << 20)
    buffers = [{name: BufferFacts(4 * size, writable=name == "y") for name in "xy"} for size in (65536, 70)]
    plans = read_plans(files["plans.json"], buffers=buffers, cubins=cubins, limits=limits)
    refuse_misfits(plans, cubins, limits=limits)


def test_a_worker_finds_what_was_compiled_by_source_options_and_target(language: CudaLanguage):
    files = bundle.unpack(built(language, HEAD + SCALE + TAIL + CALL).artifact)
    place = file_of(f"\n{SCALE}\n", (), target="sm_90a")
    assert files.keys() == {"kernel.py", "plans.json", f"{CACHE}/{place}"}
    assert place != file_of(f"\n{SCALE}\n", ("-DN=1",), target="sm_90a") != file_of(f"\n{SCALE}\n", (), target="sm_80")


def test_the_numbers_are_those_of_what_was_compiled(language: CudaLanguage):
    plain, options = (
        built(language, KINDS),
        built(language, KINDS.replace("THREADS=T", 'options=["--fmad=false"], THREADS=T')),
    )
    assert plain.hash == built(language, KINDS.replace("import torch\n", "# here\nimport torch\n")).hash
    assert plain.descriptor == options.descriptor
    assert plain.descriptor.keys() == DESCRIPTORS["cuda"]
    assert plain.descriptor["kernels"] == 3
    assert plain.descriptor["shared_kib"] == pytest.approx(60000 / 1024)
    assert plain.descriptor["tensor_cores"] == 0


@pytest.mark.parametrize("name", ["gemm", "softmax", "histogram"])
@pytest.mark.parametrize("capability", [80, 90])
def test_the_seeds_of_the_built_in_tasks_build(forge: WarmForge, name: str, capability: int):
    language = CudaLanguage(forge=forge, device=DeviceLimits(capability=capability))
    task = load_task(name).on("cuda")
    source = task.seeds["cuda"].read_text()
    assert language.static_check(source) is None
    made = built(language, source, task, hidden=[{dim: 1 for dim in task.workloads["cuda"].probe}])
    assert made.descriptor["kernels"] == 1
    assert made.descriptor["spills"] == 0
    assert made.descriptor["tensor_cores"] == (1 if name == "gemm" else 0)
    assert made.descriptor["shared_kib"] > 0
    assert 0 < made.descriptor["occupancy"] <= 1
    # gemm loads its tiles in loops of their own: where it multiplies is what counts
    assert (made.metrics["hot_loop_tensor"] > 0) == (name == "gemm")


@pytest.mark.parametrize(
    ("text", "body", "words"),
    [
        (SCALE.replace("x[0]", "z[0]"), CALL, ["line 4: error", 'identifier "z" is undefined', "->    4 | extern"]),
        ("#include <vector>\n" + SCALE, CALL, ["line 4: ", "vector"]),
        (SCALE, CALL.replace("scale", "scaled"), ["no kernel 'scaled' (it has scale)", 'extern "C"', "m.scaled"]),
        (SCALE.replace('extern "C"', ""), CALL, ["no kernel 'scale'"]),
        (SCALE, CALL.replace(", N)", ")"), ["kernel scale takes 3 parameters and was given 2"]),
        (SCALE, CALL.replace("N)", "x)"), ["parameter 2 (4 bytes)", "tensor"]),
        (SCALE, CALL.replace("N)", "1 << 40)"), ["does not fit"]),
        (SCALE, CALL.replace("256]", "2048]"), ["needs 2048 threads", "smaller blocks"]),
        (SCALE, CALL.replace("256]", "(1, 1, 65)]"), ["z at most 64"]),
        (SCALE, CALL.replace("256]", "256, 300000]"), ["300000 bytes of shared memory", "the device has 232448"]),
        (SCALE.replace("void", "void __launch_bounds__(64)"), CALL, ["256 threads", "__launch_bounds__ says 64"]),
        (SCALE.replace("{", "{ __shared__ float s[99999]; s[n] = x[n]; y[n + 1] = s[*x > 0];"), CALL,
         ["399996 bytes of shared memory"]),
        (SCALE, "    a = 1 / 0\n", ["run() raises: ZeroDivisionError", "a = 1 / 0"]),
        (SCALE, "    return\n", ["launched no kernel"]),
        (SCALE, "    import random\n    N = random.randrange(2**30)\n" + CALL, ["did something else"]),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_told_with_its_line(language: CudaLanguage, text: str, body: str, words: list[str]):
    message = failure(language, HEAD + text + TAIL + body)
    assert all(word in message for word in words), message


def test_too_many_registers_for_a_block(language: CudaLanguage):
    many = "".join(f"float v{i} = x[{i} * n]; " for i in range(100)) + "__syncthreads(); "
    many += "".join(f"y[{i} + n] = v{i} * v{(i * 7 + 3) % 100}; " for i in range(100))
    message = failure(language, HEAD + SCALE.replace("{", "{ " + many) + TAIL + CALL.replace("256", "1024"))
    assert "registers for a block" in message
    assert "__launch_bounds__(threads of a block)" in message


def test_an_error_in_a_text_put_together_names_its_own_line(language: CudaLanguage):
    message = failure(
        language, f"from evokernel.cuda import Module\nm = Module('''int\\n''' + 'nowhere;;'){TAIL[5:]}{CALL}"
    )
    assert "kernel.cu(2): error" in message


def test_a_candidate_cannot_tell_its_author_a_hidden_shape(language: CudaLanguage):
    source = HEAD + SCALE + TAIL + "    assert N == 65536, f'it is {N}'\n" + CALL
    made = language.build(source, TASK, hidden=[{"N": 7}])
    assert isinstance(made, BuildFailure)
    assert made.message.startswith("on a hidden shape, run() raises;")
    assert "it is 7" not in made.message


def test_a_fresh_process_will_do():
    language = make_language("cuda", run=run_plain, forge=forge_plain, compile_timeout_s=600.0)
    assert language.environment.startswith(f"nvrtc {find_nvrtc().version}")
    assert isinstance(language.build(HEAD + SCALE + TAIL + CALL, TASK), Built)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (CompileAnswer(None, error="it crashed"), "it crashed"),
        (CompileAnswer({"missing": "NVRTC is not here"}), "NVRTC is not here"),
        (CompileAnswer({"version": "13.0", "target": "sm_90a", "headers": True, "disassembler": False}), "cuobjdump"),
    ],
)
def test_what_is_missing_is_said_at_the_start(answer: CompileAnswer, words: str):
    with pytest.raises(LanguageError, match=words):
        CudaLanguage(forge=lambda program, request, timeout_s: answer)


def test_the_compiler_repeats_itself_and_keeps_an_empty_log_apart():
    source = 'extern "C" __global__ void k(float* x) { *x = 1; }'
    once, twice = (find_nvrtc().compile(source, (), target="sm_90a") for _ in range(2))
    assert once == twice
    assert " ".join(["a", "b"]) == "a b"  # an empty log must not be written into the one space that Python has
    with pytest.raises(CompileError, match=r"kernel\.cu"):
        find_nvrtc().compile("nowhere", (), target="sm_90a")
    with pytest.raises(RuntimeError, match="NVRTC error"):
        find_nvrtc().compile(source, ("--no-such-option",), target="sm_90a")


def test_sources_find_the_helper_where_evokernel_is_not_installed():
    evaluate = str(Path(bundle.__file__).parents[2])
    script = f"import sys; sys.path.append({evaluate!r}); from inside.untrusted.cuda_cache import provide; provide(); "
    script += "from evokernel.cuda import Module; print(Module.__module__)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "inside.driver.cuda_module\n", done.stderr
