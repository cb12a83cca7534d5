"""Builds with the real compiler: what is recorded, what fails how, and what a later process makes of the bundle."""

import hashlib
import importlib.util
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from evokernel.errors import LanguageError
from evokernel.evaluate.artifact_mode.cubin import inspect, refuse_misfits
from evokernel.evaluate.artifact_mode.plan import BufferFacts, PlanLimits, read_plans
from evokernel.evaluate.inside.process import bundle
from evokernel.languages import make_language
from evokernel.languages.gpu.triton import TritonLanguage
from evokernel.languages.toolchain import CompileAnswer, forge_plain, run_plain
from evokernel.records.build import BuildFailure, Built
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks import load_task
from tests.support.warm_compiler import WarmForge

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")

TASK = Task(
    name="twice",
    reference=lambda x, **_: 2 * x,
    signature=Signature(
        inputs=(Tensor("x", ("N",)),), scalars=(Scalar("N"),), outputs=(Tensor("y", ("N",), role=Role.OUTPUT),)
    ),
    workloads={"cuda": WorkloadSet((Workload("64k", {"N": 65536}),), (Workload("9", {"N": 9}),), {"N": (1, 9)})},
    flops="N",
)
# Every kind of argument, views, scratch, and tensor descriptors made on the host and on the device.
KINDS = """\
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def mixed(x, y, bias, n, alpha, flag, pair, one, big, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n) * alpha + pair[0] + one + big
    if flag:
        v += 1.0
    if bias is not None:
        v += tl.load(bias + i, mask=i < n)
    tl.store(y + i, v, mask=i < n)


@triton.jit
def on_host(a, c, BM: tl.constexpr):
    at = [tl.program_id(0) * BM, 0]
    c.store(at, a.load(at) + 1.0)


@triton.jit
def on_device(x, y, rows, BM: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [rows, 64], [64, 1], [BM, 64])
    c = tl.make_tensor_descriptor(y, [rows, 64], [64, 1], [BM, 64])
    at = [tl.program_id(0) * BM, 0]
    c.store(at, a.load(at) + 1.0)


def run(x, N, y):
    scratch = torch.empty_like(x)
    scratch.zero_()
    grid = lambda meta: (triton.cdiv(N, meta["BLOCK"]),)
    mixed[grid](x, scratch, None, N, 0.5, True, (3, 4), 1, 2**40, BLOCK=256)
    mixed[(1,)](x[64:], y[3:], x, N - 64, -2.0, False, (7, 1), 5, 2, BLOCK=256)
    rows = N // 64
    source, target = (TensorDescriptor.from_tensor(each.view(rows, 64), [32, 64]) for each in (scratch, y))
    on_host[(rows // 32,)](source, target, 32)
    on_device[(rows // 32, 1, 1)](x, y, rows, 32, num_warps=8)
"""
KERNEL = KINDS[: KINDS.index("@triton.jit\ndef on_host")]
CALL = "    mixed[(1,)](x, y, None, N, 0.5, True, (3, 4), 1, 2, BLOCK=256)\n"

# What a worker does with a bundle, but for the GPU: kernels come from the folder alone, and nothing is compiled.
REPLAY = """
import importlib.util, json, sys
folder, evaluate, shape = sys.argv[1:]
sys.path.append(evaluate)
from inside.untrusted.recording import Recorder
from inside.untrusted.triton_driver import RecordingDriver, activate, use_cache
from triton import knobs

hits = []
knobs.compilation.listener = lambda *, cache_hit, **_: hits.append(cache_hit)
facts = {"max_shared_mem": 232448, "max_num_regs": 65536, "multiprocessor_count": 132, "max_threads": 2048}
recorder = Recorder(90, facts)
activate(RecordingDriver(recorder))
use_cache(folder + "/cache")
spec = importlib.util.spec_from_file_location("kernel", folder + "/kernel.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
n = int(shape)
x, y = ({"kind": "tensor", "name": name, "shape": [n], "dtype": "float32"} for name in "xy")
try:
    plan = recorder.call(module.run, [x, {"kind": "scalar", "value": n}, y])
    print(json.dumps({"hits": hits, "plan": plan}))
except LookupError as error:
    print(json.dumps({"error": str(error)}))
"""


@pytest.fixture(scope="module")
def forge() -> WarmForge:
    return WarmForge()


@pytest.fixture(scope="module")
def language(forge: WarmForge) -> TritonLanguage:
    return TritonLanguage(forge=forge)


def failure(language: TritonLanguage, source: str, task: Task = TASK) -> BuildFailure:
    made = language.build(source, task)
    assert isinstance(made, BuildFailure), made
    assert "/tmp" not in made.message
    return made


def unpacked(blob: bytes, folder: Path) -> Path:
    for name, content in bundle.unpack(blob).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def replay(folder: Path, size: int) -> dict[str, object]:
    evaluate = str(Path(bundle.__file__).parents[2])
    argv = [sys.executable, "-I", "-B", "-c", REPLAY, str(folder), evaluate, str(size)]
    answer: dict[str, object] = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    return answer


def parameter_sizes(cubin: Path) -> list[int]:
    """Ask the compiled kernel itself how large its parameters are, in bytes."""
    spec = importlib.util.find_spec("triton")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (tool,) = spec.submodule_search_locations
    argv = [f"{tool}/backends/nvidia/bin/cuobjdump", "-elf", str(cubin)]
    text = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    found = re.findall(r"Ordinal\s*:\s*(0x\w+).*?Size\s*:\s*(0x\w+)", text, re.DOTALL)
    return [size for _, size in sorted((int(place, 16), int(size, 16)) for place, size in found)]


SIZES = {"ptr": 8, "i64": 8, "i32": 4, "fp32": 4, "u1": 1, "map": 128}


def test_every_kind_of_argument_is_packed_as_compiled_and_found_again(language: TritonLanguage, tmp_path: Path):
    built = language.build(KINDS, TASK)
    assert isinstance(built, Built), built
    folder = unpacked(built.artifact, tmp_path)
    assert (folder / "kernel.py").read_text() == KINDS
    before = sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*"))

    answer = replay(folder, 65536)

    assert answer["hits"] == [True] * 4
    assert before == sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*"))
    plans = json.loads((folder / "plans.json").read_text())
    assert plans == {"unrecordable": None, "shapes": [answer["plan"]]}
    (plan,) = plans["shapes"]
    assert plan["scratch"] == {"scratch0": 4 * 65536, "launch0": 8192}
    zero, *launches = (step.get("launch", step) for step in plan["steps"])
    assert zero == {"fill": {"buffer": "scratch0", "offset": 0, "bytes": 4 * 65536, "pattern": 0, "width": 4}}
    assert [launch["kernel"] for launch in launches] == ["mixed", "mixed", "on_host", "on_device"]
    assert [launch["grid"][0] for launch in launches] == [256, 1, 32, 32]
    assert [launch["block"] for launch in launches] == [[128, 1, 1]] * 3 + [[256, 1, 1]]
    assert launches[1]["parameters"][:3] == [["ptr", ["x", 256]], ["ptr", ["y", 12]], ["ptr", ["x", 0]]]
    assert launches[2]["parameters"][0] == ["map", ["scratch0", 0, 7, 3, [64, 1024], [256], [32, 32], False]]
    assert launches[3]["parameters"][-2:] == [["ptr", ["launch0", 0]], ["ptr", None]]
    found = {hashlib.sha256(cubin.read_bytes()).hexdigest(): cubin for cubin in folder.glob("cache/*/*.cubin")}
    for launch in launches:
        sizes = [SIZES[kind] for kind, _ in launch["parameters"]]
        assert sizes == parameter_sizes(found[launch["cubin"]])
    cubins = {digest: inspect(cubin.read_bytes()) for digest, cubin in found.items()}
    limits = PlanLimits(shared_bytes=232448, scratch_bytes=1 << 20)
    buffers = {name: BufferFacts(4 * 65536, writable=name == "y") for name in "xy"}
    checked = read_plans((folder / "plans.json").read_bytes(), buffers=[buffers], cubins=cubins, limits=limits)
    refuse_misfits(checked, cubins, limits=limits)
    assert [each.as_message() for each in checked.shapes] == plans["shapes"]
    assert built.descriptor["kernels"] == 4
    assert built.metrics["tma"] == 1


def test_what_was_not_compiled_ahead_is_not_compiled(language: TritonLanguage, tmp_path: Path):
    source = KERNEL + "def run(x, N, y):\n" + CALL
    built = language.build(source, TASK, hidden=[{"N": 7}])
    plain = language.build(source, TASK)
    assert isinstance(built, Built)
    assert isinstance(plain, Built)
    assert (built.hash, built.descriptor) == (plain.hash, plain.descriptor)
    folder = unpacked(plain.artifact, tmp_path)
    assert "was not compiled for these arguments" in str(replay(folder, 7)["error"])
    assert replay(unpacked(built.artifact, tmp_path), 7)["hits"] == [True]


def test_a_candidate_cannot_tell_its_author_a_hidden_shape(language: TritonLanguage):
    source = KERNEL + "def run(x, N, y):\n    assert N == 65536, f'it is {N}'\n" + CALL
    failure = language.build(source, TASK, hidden=[{"N": 7}])
    assert isinstance(failure, BuildFailure)
    assert failure.raised
    assert failure.message.startswith("on a hidden shape, run() raises;")
    assert "it is 7" not in failure.message


def test_what_was_seen_of_hidden_shapes_cannot_be_told_on_another(language: TritonLanguage):
    source = (
        KERNEL + "SEEN = []\n\n\ndef run(x, N, y):\n    SEEN.append(N)\n    assert len(set(SEEN)) < 2, SEEN\n" + CALL
    )
    failure = language.build(source, TASK, hidden=[{"N": 7}])
    assert isinstance(failure, BuildFailure)
    assert "7" not in failure.message


def test_there_is_a_plan_for_each_shape_asked_for(language: TritonLanguage):
    built = language.build(KERNEL + "def run(x, N, y):\n" + CALL, TASK, hidden=[{"N": 7}, {"N": 8}])
    assert isinstance(built, Built)
    shapes = json.loads(bundle.unpack(built.artifact)["plans.json"])["shapes"]
    assert [shape["steps"][0]["launch"]["parameters"][2] for shape in shapes] == [["i32", n] for n in (65536, 7, 8)]


@pytest.mark.parametrize(
    "before",
    [
        "COUNT = [0]\ndef run(x, N, y):\n    COUNT[0] += 1\n    N = N - COUNT[0]\n",
        "import random\ndef run(x, N, y):\n    N = random.randrange(2**30)\n",
        "SEEN = []\ndef run(x, N, y):\n    SEEN.append(x)\n    x = SEEN[0]\n",
        "def run(x, N, y):\n    N = x.data_ptr() >> 8\n",
    ],
)
def test_a_second_call_must_do_the_same(language: TritonLanguage, before: str):
    message = failure(language, KERNEL + before + CALL).message
    assert "did something else when it was called again" in message


def test_what_cannot_be_recorded_is_built_and_says_why(language: TritonLanguage):
    copy = "def run(x, N, y):\n    half = torch.empty(N, dtype=torch.float16, device=x.device)\n    half.copy_(x{})\n"
    made = [language.build(KERNEL + copy.format(view) + CALL, TASK) for view in ("", "", "[:1].expand(N)")]
    built = [each for each in made if isinstance(each, Built)]
    assert len(built) == 3
    plans = json.loads(bundle.unpack(built[0].artifact)["plans.json"])
    assert plans == {"unrecordable": "run() copies torch.float32 to torch.float16", "shapes": []}
    assert built[0].hash == built[1].hash != built[2].hash


def test_the_seeds_of_the_built_in_tasks_build(language: TritonLanguage):
    for name in ("gemm", "softmax"):
        task = load_task(name).on("cuda")
        source = task.seeds["triton"].read_text()
        assert language.static_check(source) is None
        built = language.build(source, task)
        assert isinstance(built, Built), built
        assert built.descriptor["kernels"] == 1
        assert built.descriptor["tensor_cores"] == (2 if name == "gemm" else 0)
        assert 0 < built.descriptor["occupancy"] <= 1
        hot = {name.removeprefix("hot_loop_"): value for name, value in built.metrics.items() if "hot_loop" in name}
        assert hot["in_loop"] == 1
        if name == "gemm":
            assert hot["tensor"] >= 1
            assert (hot["async_copies"], hot["load_bits"], hot["stores"]) == (4, 128, 0)
        else:
            assert (hot["tensor"], hot["load_bits"], hot["store_bits"]) == (0, 128, 128)
            assert hot["special"] >= 1  # the exponentials
            assert hot["instructions"] > hot["arithmetic"] + hot["special"] > hot["fma"]


def test_too_much_shared_memory_is_refused_with_the_numbers(language: TritonLanguage):
    task = load_task("gemm").on("cuda")
    values = {"BLOCK_M = 64": "BLOCK_M = 128", "BLOCK_K = 32": "BLOCK_K = 128", "NUM_STAGES = 2": "NUM_STAGES = 6"}
    source = task.seeds["triton"].read_text()
    for old, new in values.items():
        source = source.replace(old, new)
    message = failure(language, source, task).message
    assert re.search(r"needs \d{6} bytes of shared memory", message)
    assert "the device has 232448" in message
    assert "NUM_STAGES" in message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("    a = 1\n    b = a / 0\n" + CALL, ["run() raises: ZeroDivisionError", "b = a / 0"]),
        ("    x.sum().item()\n" + CALL, ["run() calls torch for 'sum'", "->"]),
        ("    return\n", ["launched no kernel"]),
        (CALL.replace("(1,)]", "(0.5,)]"), ["TypeError"]),
        (CALL.replace("(1,)]", "(1, 70000)]"), ["grid", "70000"]),
        (CALL.replace("BLOCK=256", "BLOCK=100"), ["arange's range must be a power of 2", "i = tl.program_id(0)"]),
        (CALL.replace("BLOCK=256", "BLOCK=256, num_warps=64"), ["2048 threads", "num_warps"]),
        (CALL.replace("x, y,", "torch.empty(N), y,"), ["device=x.device"]),
    ],
)
def test_what_goes_wrong_is_told_with_its_line(language: TritonLanguage, body: str, words: list[str]):
    message = failure(language, KERNEL + "def run(x, N, y):\n" + body).message
    assert all(word in message for word in words), message


def test_a_wrong_number_of_arguments(language: TritonLanguage):
    message = failure(language, KERNEL + "def run(x, y):\n    pass\n").message
    assert "takes 2 positional arguments but 3 were given" in message


def test_a_source_that_raises_when_imported(language: TritonLanguage):
    message = failure(language, "import triton\nvalue = nowhere\ndef run(x, N, y): pass\n").message
    assert "when it is imported: NameError" in message
    assert "->    2 | value = nowhere" in message


def test_the_time_limit_covers_all_shapes(forge: WarmForge):
    slow = TritonLanguage(forge=forge, compile_timeout_s=1.0)
    made = slow.build("while True: pass\ndef run(x, N, y): pass\n", TASK)
    said = "compiling took more than 1 s (evaluation.compile_timeout_s) and was stopped"
    assert made == BuildFailure(said, timed_out=True)


def test_a_fresh_process_will_do():
    language = make_language("triton", run=run_plain, forge=forge_plain, compile_timeout_s=600.0)
    assert isinstance(language.build(KERNEL + "def run(x, N, y):\n" + CALL, TASK), Built)
    crashed = language.build("import torch\ntorch._C._crash_if_csrc_asan\nimport os\nos.abort()\n", TASK)
    assert isinstance(crashed, BuildFailure)


@pytest.mark.parametrize(
    "failure",
    [None, 7, [], {}, {"stage": "resources", "required": math.inf, "limit": 1}, {"stage": ["run"], "type": "T"}],
)
def test_a_failure_made_up_by_the_candidate_is_a_failure(failure: object):
    language = TritonLanguage(forge=lambda program, request, timeout_s: CompileAnswer({"failure": failure}, b""))
    made = language.build("", TASK)
    assert isinstance(made, BuildFailure)
    assert made.message.startswith("the build was tampered with")


def test_what_the_language_needs(language: TritonLanguage):
    with pytest.raises(LanguageError, match="forge"):
        make_language("triton", run=run_plain)
    with pytest.raises(LanguageError, match=r"Task\.on"):
        language.build("", replace(TASK, workloads={**TASK.workloads, "cpu": TASK.workloads["cuda"]}))
