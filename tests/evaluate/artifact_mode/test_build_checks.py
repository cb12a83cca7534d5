"""Bundles of the real compiler, whole and tampered with: what is read, what is refused, and what the refusal tells."""

import copy
import importlib.util
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from evokernel.evaluate.artifact_mode.build_checks import PLANS, CheckedBuild, Target, read_artifact
from evokernel.evaluate.artifact_mode.plan import PlanLimits
from evokernel.evaluate.inside.process.bundle import pack, unpack
from evokernel.evaluate.worker_mode.cpu_pool import LoadFailed
from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.gpu.triton import TritonLanguage
from evokernel.records.build import Built
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from tests.support.warm_compiler import WarmForge

_TRITON = importlib.util.find_spec("triton")
pytestmark = pytest.mark.skipif(_TRITON is None, reason="triton is not installed")

N, HIDDEN_N = 65536, 1009
WORKLOADS = (Workload("64k", {"N": N}), Workload("odd", {"N": HIDDEN_N}))
TASK = Task(
    name="twice",
    reference=lambda x, **_: 2 * x,
    signature=Signature(
        inputs=(Tensor("x", ("N",)),), scalars=(Scalar("N"),), outputs=(Tensor("y", ("N",), role=Role.OUTPUT),)
    ),
    workloads={"cuda": WorkloadSet(WORKLOADS[:1], (Workload("9", {"N": 9}),), {"N": (1, 9)})},
    flops="N",
)
# The hidden shape has a kernel of its own: what is wrong with that one is wrong on the hidden shape alone.
SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def even(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i))


@triton.jit
def odd(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


def run(x, N, y):
    y.zero_()
    if N % 256:
        odd[(triton.cdiv(N, 256),)](x, y, N, BLOCK=256)
    else:
        even[(N // 256,)](x, y, BLOCK=256)
"""
UNRECORDABLE = SOURCE.replace("    y.zero_()\n", "    torch.empty(N, dtype=torch.float16, device=x.device).copy_(x)\n")
STATEFUL = """\
.version 8.0
.target sm_90
.address_size 64
.global .u32 count;
.visible .entry counts() { .reg .b32 %x; ld.global.u32 %x, [count]; st.global.u32 [count], %x; ret; }
"""
TARGET = Target(90, PlanLimits(shared_bytes=232448, scratch_bytes=1 << 20))

Shapes = list[dict[str, Any]]


@dataclass(frozen=True)
class Bundles:
    """What was built: for this device, for an older one, and from a source that cannot be recorded."""

    right: bytes
    older: bytes
    unrecordable: bytes


@pytest.fixture(scope="module")
def bundles() -> Bundles:
    forge = WarmForge()

    def build(source: str, capability: int) -> bytes:
        language = TritonLanguage(forge=forge, device=DeviceLimits(capability=capability))
        made = language.build(source, TASK, hidden=[WORKLOADS[1].sizes])
        assert isinstance(made, Built), made
        return made.artifact

    return Bundles(right=build(SOURCE, 90), older=build(SOURCE, 80), unrecordable=build(UNRECORDABLE, 90))


def read(artifact: bytes, *, target: Target = TARGET) -> CheckedBuild:
    return read_artifact(artifact, TASK, workloads=WORKLOADS, target=target)


def refused(artifact: bytes, *, target: Target = TARGET) -> str:
    with pytest.raises(LoadFailed) as caught:
        read(artifact, target=target)
    return str(caught.value)


def shapes_of(artifact: bytes) -> Shapes:
    shapes: Shapes = json.loads(unpack(artifact)[PLANS])["shapes"]
    return shapes


def edited(artifact: bytes, edit: Callable[[Shapes], object], **added: bytes) -> bytes:
    """Return the bundle with other plans, and with further cubins."""
    shapes = shapes_of(artifact)
    edit(shapes)
    plans = json.dumps({"unrecordable": None, "shapes": shapes}).encode()
    return pack({**unpack(artifact), PLANS: plans, **{f"{name}.cubin": image for name, image in added.items()}})


def launch(shape: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = shape["steps"][1]["launch"]
    return found


def cubin_of(artifact: bytes, shape: int) -> bytes:
    digest = launch(shapes_of(artifact)[shape])["cubin"]
    return next(image for image in unpack(artifact).values() if sha256(image).hexdigest() == digest)


def test_a_right_bundle_is_read(bundles: Bundles):
    checked = read(bundles.right)
    assert checked.plans.unrecordable == ""
    assert checked.as_message() == {"shapes": shapes_of(bundles.right), "stateful": False}
    assert [[step.kernel for step in plan.launches] for plan in checked.plans.shapes] == [["even"], ["odd"]]
    assert checked.cubins == {
        sha256(image).hexdigest(): image for image in (cubin_of(bundles.right, shape) for shape in (0, 1))
    }


def test_cubins_that_nothing_launches_are_not_passed_on(bundles: Bundles):
    checked = read(edited(bundles.right, lambda shapes: None, idle=b"not even a cubin"))
    assert checked.cubins == read(bundles.right).cubins


def test_the_digest_is_of_the_measured_shapes(bundles: Bundles):
    right = read(bundles.right)
    hidden = read(edited(bundles.right, lambda shapes: launch(shapes[1]).update(grid=[5, 1, 1])))
    measured = read(edited(bundles.right, lambda shapes: launch(shapes[0]).update(grid=[5, 1, 1])))
    assert right.digest(1) == hidden.digest(1) == read(bundles.right).digest(1)
    assert len({right.digest(1), right.digest(2), measured.digest(1), hidden.digest(2)}) == 4


def test_the_digest_depends_on_the_machine_code(bundles: Bundles):
    other = read(bundles.older, target=Target(80, TARGET.limits))
    assert other.digest(1) != read(bundles.right).digest(1)


def test_a_kernel_with_variables_on_the_device_makes_it_stateful(bundles: Bundles, tmp_path: Path):
    assert _TRITON is not None
    assert _TRITON.submodule_search_locations is not None
    tool = Path(_TRITON.submodule_search_locations[0], "backends", "nvidia", "bin", "ptxas")
    (tmp_path / "a.ptx").write_text(STATEFUL)
    subprocess.run([tool, "-arch=sm_90", tmp_path / "a.ptx", "-o", tmp_path / "a"], check=True, capture_output=True)
    counts = (tmp_path / "a").read_bytes()
    step = {"kernel": "counts", "cubin": sha256(counts).hexdigest(), "parameters": []}
    checked = read(edited(bundles.right, lambda shapes: launch(shapes[1]).update(step), counts=counts))
    assert checked.stateful
    assert checked.as_message()["stateful"] is True


def test_what_cannot_be_recorded_says_why_and_launches_nothing(bundles: Bundles):
    checked = read(bundles.unrecordable)
    assert checked.plans.unrecordable == "run() copies torch.float32 to torch.float16"
    assert (checked.plans.shapes, checked.cubins, checked.stateful) == ((), {}, False)


TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a pointer out of bounds": (
        lambda shape: launch(shape)["parameters"].__setitem__(0, ["ptr", ["x", 4 * N + 4]]),
        "",
    ),
    "a fill out of bounds": (lambda shape: shape["steps"][0]["fill"].update(bytes=4 * N + 4), ""),
    "a fill of an input": (lambda shape: shape["steps"][0]["fill"].update(buffer="x"), "buffer x may not be written"),
    "an unknown buffer": (lambda shape: launch(shape)["parameters"].__setitem__(0, ["ptr", ["z", 0]]), ""),
    "another cubin": (lambda shape: launch(shape).update(cubin=64 * "0"), "a cubin that is not in the bundle"),
    "another kernel": (lambda shape: launch(shape).update(kernel="none"), "kernel 'none' is not in its cubin"),
    "fewer parameters": (lambda shape: launch(shape)["parameters"].pop(), "takes parameters of"),
    "too large a block": (lambda shape: launch(shape).update(block=[1024, 2, 1]), "a block of 2048 threads"),
    "too much scratch": (lambda shape: shape["scratch"].update(scratch0=1 << 21), "scratch must be a whole number"),
    "nothing launched": (lambda shape: shape["steps"].pop(), "a plan that launches nothing"),
    "one field more": (lambda shape: shape.update(more=1), "exactly the fields scratch, steps"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_plan_is_refused_and_a_hidden_shape_stays_hidden(bundles: Bundles, name: str):
    edit, words = TAMPERED[name]
    message = refused(edited(bundles.right, lambda shapes: edit(shapes[0])))
    assert message.startswith("shape 0: ")
    assert words in message
    assert refused(edited(bundles.right, lambda shapes: edit(shapes[1]))) == "on a hidden shape"


def test_there_must_be_as_many_plans_as_workloads(bundles: Bundles):
    for edit in (lambda shapes: shapes.append(copy.deepcopy(shapes[0])), list.pop, list.clear):
        assert "the plans must be a list of 2 to 2 entries" in refused(edited(bundles.right, edit))


def test_kernels_for_another_device_are_refused(bundles: Bundles):
    words = "a kernel was compiled for compute capability {}; the device has {}"
    assert words.format(80, 90) in refused(bundles.older)
    assert words.format(90, 100) in refused(bundles.right, target=Target(100, TARGET.limits))


def test_a_kernel_for_another_device_on_a_hidden_shape(bundles: Bundles):
    older = cubin_of(bundles.older, 1)
    digest = sha256(older).hexdigest()
    mixed = edited(bundles.right, lambda shapes: launch(shapes[1]).update(cubin=digest), older=older)
    assert refused(mixed) == "on a hidden shape"


def test_a_damaged_cubin_is_refused(bundles: Bundles):
    damaged = cubin_of(bundles.right, 0)[:100]
    digest = sha256(damaged).hexdigest()
    assert refused(edited(bundles.right, lambda shapes: launch(shapes[0]).update(cubin=digest), damaged=damaged))


def test_a_damaged_cubin_on_a_hidden_shape(bundles: Bundles):
    damaged = cubin_of(bundles.right, 1)[:100]
    digest = sha256(damaged).hexdigest()
    tampered = edited(bundles.right, lambda shapes: launch(shapes[1]).update(cubin=digest), damaged=damaged)
    assert refused(tampered) == "on a hidden shape"


def test_a_device_with_less_shared_memory_refuses_what_needs_more(bundles: Bundles):
    small = Target(90, PlanLimits(shared_bytes=1000, scratch_bytes=0))
    message = refused(edited(bundles.right, lambda shapes: launch(shapes[0]).update(shared_bytes=1001)), target=small)
    assert message == "shape 0: shared memory in bytes must be a whole number from 0 to 1000"


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"null", b"[]", b'{"shapes": []}', b"\xff"])
def test_plans_that_are_none(bundles: Bundles, content: bytes):
    message = refused(pack({**unpack(bundles.right), PLANS: content}))
    assert message in {"plans that are not JSON", "the plans must have exactly the fields unrecordable, shapes"}


def test_a_bundle_without_plans(bundles: Bundles):
    files = unpack(bundles.right)
    del files[PLANS]
    assert refused(pack(files)) == "plans that are not JSON"


def test_a_bundle_cut_off_anywhere(bundles: Bundles):
    words = ("not a bundle", "the table of a bundle", "the sizes in a bundle's table")
    for end in (0, 7, 11, 12, 40, len(bundles.right) // 2, len(bundles.right) - 1):
        assert refused(bundles.right[:end]).startswith(words)
    assert refused(bundles.right + b"\0").startswith(words)
