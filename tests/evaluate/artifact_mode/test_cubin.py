"""Cubins of the real assembler, damaged ones, and launches that do not fit them."""

import importlib.util
import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.evaluate.artifact_mode.cubin import inspect, refusal, refuse_misfits
from evokernel.evaluate.artifact_mode.parameters import Place
from evokernel.evaluate.artifact_mode.plan import LaunchPlan, LaunchPlans, PlanError, PlanLimits, RecordedLaunch
from evokernel.evaluate.inside.driver.cubin_facts import CubinFacts, KernelFacts, atomic_kernels, state_sections
from evokernel.evaluate.inside.driver.cubin_sections import is_known
from evokernel.evaluate.inside.driver.kernel_parameters import Parameter, TensorMap
from evokernel.evaluate.inside.driver.nvrtc import find_nvrtc, target_of
from tests.museum.exhibits import CHEATS
from tests.support.nvrtc import needs_nvrtc

_TRITON = importlib.util.find_spec("triton")
needs_triton = pytest.mark.skipif(_TRITON is None, reason="triton, which brings the assembler, is not installed")

PTX = """\
.version 8.0
.target sm_90
.address_size 64
{globals}
.extern .func (.param .b32 r) {callee} (.param .b64 a, .param .b64 b);
.visible .entry first(.param .u64 p, .param .u8 n, .param .align 64 .b8 map[128])
{{
    .reg .b64 %r<4>;
    .reg .b32 %x<4>;
    ld.param.u64 %r0, [p];
    {body}
    st.global.u32 [%r0], %x0;
    ret;
}}
.visible .entry second() .maxntid 64 {{ ret; }}
"""
CALL = """{{ .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %r0; st.param.b64 [b], %r0;
    call.uni (r), {callee}, (a, b); ld.param.b32 %x0, [r]; }}"""
LIMITS = PlanLimits(shared_bytes=232448, scratch_bytes=0)


def assemble(folder: Path, *, callee: str = "unused", state: str = "", body: str = "mov.u32 %x0, 1;") -> bytes:
    """Return the cubin of a kernel `first` (a pointer, a byte and a tensor map) and one without parameters."""
    assert _TRITON is not None
    assert _TRITON.submodule_search_locations is not None
    tool = Path(_TRITON.submodule_search_locations[0], "backends", "nvidia", "bin", "ptxas")
    source, target = folder / "a.ptx", folder / "a.cubin"
    source.write_text(PTX.format(globals=state, callee=callee, body=body))
    subprocess.run([tool, "-arch=sm_90", source, "-o", target], check=True, capture_output=True)
    return target.read_bytes()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return assemble(tmp_path_factory.mktemp("cubin"))


@needs_triton
def test_an_ordinary_cubin_is_fine(image: bytes):
    facts = inspect(image)
    assert facts.capability == 90
    assert {name: kernel.parameter_bytes for name, kernel in facts.kernels.items()} == {
        "first": (8, 1, 128),
        "second": (),
    }
    assert facts.kernels["second"].max_threads == 64
    assert (facts.undefined, facts.state_bytes) == ((), 0)
    assert refusal(facts, capability=90) is None
    assert "the device has 100" in str(refusal(facts, capability=100))


@needs_triton
@pytest.mark.parametrize(
    ("callee", "reason"),
    [
        ("vprintf", "must not print"),
        ("malloc", "must not allocate"),
        ("free", "must not free"),
        ("__assertfail", None),
    ],
)
def test_what_a_kernel_needs_of_the_driver(tmp_path: Path, callee: str, reason: str | None):
    facts = inspect(assemble(tmp_path, callee=callee, body=CALL.format(callee=callee)))
    assert facts.undefined == (callee,)
    found = refusal(facts, capability=90)
    assert found is None if reason is None else reason in str(found)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("cudaLaunchDeviceV2", "the device's runtime"), ("helper", "'helper'"), ("_Z" + 9999 * "x", "_Zxx")],
)
def test_what_only_a_linker_could_give_is_refused(name: str, reason: str):
    found = str(refusal(replace(FACTS, undefined=("__assertfail", name)), capability=90))
    assert reason in found
    assert len(found) < 200


@needs_triton
def test_variables_of_the_device_are_seen(tmp_path: Path):
    load = "ld.global.u32 %x0, [{0}]; add.u32 %x0, %x0, 1; st.global.u32 [{0}], %x0;"
    count = assemble(tmp_path, state=".global .u32 count;", body=load.format("count"))
    assert inspect(count).state_bytes == 4
    start = assemble(tmp_path, state=".global .u32 start[2] = {1, 2};", body=load.format("start"))
    assert inspect(start).state_bytes == 8
    table = assemble(tmp_path, state=".const .u32 table[2] = {1, 2};", body="ld.const.u32 %x0, [table];")
    assert inspect(table).state_bytes == 8, "a kernel can write `__constant__` memory by its address"
    huge = assemble(tmp_path, state=".global .b8 huge[67108868];", body=load.format("huge"))
    assert "__device__ variables" in str(refusal(inspect(huge), capability=90))


@needs_triton
def test_each_section_of_variables_tells_where_they_lie(tmp_path: Path):
    variables = ".global .u32 count; .global .u32 more; .const .u32 table[2] = {1, 2}; .global .u64 start[2] = {1, 2};"
    body = """ld.const.u32 %x0, [table+4]; ld.global.u32 %x1, [count]; st.global.u32 [more], %x1;
    ld.global.u32 %x1, [start+8]; add.u32 %x0, %x0, %x1;"""
    sections = state_sections(assemble(tmp_path, state=variables, body=body))
    found = {tuple(sorted(section.offsets.items())): len(section.content) for section in sections}
    assert found == {(("count", 0), ("more", 4)): 8, (("table", 0),): 8, (("start", 0),): 16}
    assert state_sections(assemble(tmp_path)) == []


@given(st.binary(max_size=400) | st.binary(max_size=400).map(b"\x7fELF\x02\x01".__add__))
def test_any_bytes_are_a_cubin_or_a_value_error(data: bytes):
    with pytest.raises(ValueError, match="cubin"):
        inspect(data)


@needs_triton
@pytest.mark.parametrize("start", [2**64 - 1, 2**63, 2**40])
def test_a_table_of_sections_outside_the_file(image: bytes, start: int):
    with pytest.raises(ValueError, match="outside the file"):
        inspect(image[:40] + struct.pack("<Q", start) + image[48:])


@needs_triton
def test_a_small_file_cannot_be_made_to_look_huge(image: bytes):
    start, count = struct.unpack_from("<Q", image, 40)[0], struct.unpack_from("<H", image, 60)[0]
    section = bytearray(image[start + 64 : start + 128])
    struct.pack_into("<QQ", section, 24, 0, len(image))
    bomb = bytearray(image[: start + 64 * count]) + bytes(section) * 4000
    struct.pack_into("<H", bomb, 60, count + 4000)
    with pytest.raises(ValueError, match="overlap"):
        inspect(bytes(bomb))


@needs_triton
@settings(max_examples=300)
@given(seed=st.integers(0, 2**32), flips=st.integers(1, 16), end=st.none() | st.integers(0, 1 << 14))
def test_a_damaged_cubin_is_read_or_a_value_error(image: bytes, seed: int, flips: int, end: int | None):
    damaged = bytearray(image[:end])
    draw = random.Random(seed)
    for _ in range(flips if damaged else 0):
        damaged[draw.randrange(len(damaged))] = draw.choice((0, 0xFF, draw.randrange(256)))
    try:
        facts = inspect(bytes(damaged))
    except ValueError:
        return
    refusal(facts, capability=90)


Graft = Callable[..., bytes]
CUDA = """
__device__ int count; __device__ int start[4] = {1, 2, 3, 4}; __constant__ int table[8];
__device__ __noinline__ float powers(float a, int n) { return n ? a * powers(a, n - 1) : a; }
extern "C" __global__ void first(float* x, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = sinf(x[n]) / x[1];
    __syncthreads();
    x[n] = s[n] + powers(x[2], n) + table[n] + start[n] + atomicAdd(&count, 1);
    if (x[3] == 1) __trap();
}
extern "C" __global__ void second() {}
"""


@pytest.fixture(scope="module")
def graft() -> Graft:
    """Return what the museum's exhibit does to a cubin."""
    namespace: dict[str, Any] = {}
    text = (CHEATS / "cuda" / "host_code.cu.py").read_text()
    exec(text.partition("\ncompiler =")[0], namespace)  # without its attack on the compiler
    return namespace["graft"]  # type: ignore[no-any-return]


@needs_triton
def test_host_code_in_a_cubin_is_refused_by_name(image: bytes, graft: Graft):
    found = str(refusal(inspect(graft(image)), capability=90))
    assert "'.nv.host' of type 0x70000087" in found
    assert refusal(inspect(graft(image, b".nv.callgraph2", 1)), capability=90) is not None
    assert refusal(inspect(graft(image, b".debug_str", 1)), capability=90) is None  # the graft itself is no damage


@needs_triton
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_a_compilers_object_is_refused_as_the_hand_written_one(tmp_path: Path, image: bytes, graft: Graft):
    source, target = tmp_path / "host.cpp", tmp_path / "host.o"
    source.write_text('extern "C" int __CUDA_TILEIR_ON_PRE_LOAD() { return 0; }')
    subprocess.run(["g++", "-O2", "-c", source, "-o", target], check=True)
    found = refusal(inspect(graft(image, code=target.read_bytes())), capability=90)
    assert "'.nv.host'" in str(found)


@needs_nvrtc
@pytest.mark.parametrize("capability", [80, 89, 90, 100, 120])
@pytest.mark.parametrize("options", [(), ("-lineinfo",), ("-G",)])
def test_what_nvrtc_makes_has_known_sections_only(capability: int, options: tuple[str, ...]):
    facts = inspect(find_nvrtc().compile(CUDA, options, target=target_of(capability)))
    assert facts.foreign == ()
    assert refusal(facts, capability=capability) is None


@pytest.mark.parametrize(
    "name",
    [
        *(".nv.host", ".nv.host.k", ".nv.merc.nv.host", ".nv.merc.text.k", ".rela.nv.host", ".rel.nv.host", ".nv.hosu"),
        *(".text.", ".text", ".text.k\n", ".text.k\ufffd", ".text.k k", " .text.k", ".TEXT.k", "", ".nv.info.k\0"),
    ],
)
def test_names_that_no_compiler_gives(name: str):
    assert not any(is_known(name, kind) for kind in (1, 2, 3, 4, 7, 8, 9, 0x70000000, 0x70000082, 0x70000087))


@needs_triton
@settings(max_examples=300)
@given(place=st.integers(1, 200), name=st.none() | st.text(max_size=9), kind=st.none() | st.integers(0, 2**32 - 1))
def test_another_name_or_type_is_refused_or_known(image: bytes, place: int, name: str | None, kind: int | None):
    start, count, names = (struct.unpack_from(form, image, at)[0] for form, at in (("<Q", 40), ("<H", 60), ("<H", 62)))
    row = start + 64 * (place % (count - 1) + 1)
    offset = struct.unpack_from("<Q", image, start + 64 * names + 24)[0] + struct.unpack_from("<I", image, row)[0]
    changed = bytearray(image)
    if kind is not None:
        struct.pack_into("<I", changed, row + 4, kind)
    if name is not None:
        length = image.index(b"\0", offset) - offset
        changed[offset : offset + length] = name.encode(errors="replace")[:length].ljust(length, b"x")
    try:
        facts = inspect(bytes(changed))
    except ValueError:
        return
    told = (
        image[offset : image.index(b"\0", offset)] if name is None else changed[offset : changed.index(b"\0", offset)]
    )
    known = is_known(told.decode(errors="replace"), struct.unpack_from("<I", changed, row + 4)[0])
    assert known or refusal(facts, capability=90) is not None


def field(form: str, at: int, value: int) -> Callable[[bytes], bytes]:
    """Return what puts a number into the header."""
    return lambda image: image[:at] + struct.pack(form, value) + image[at + struct.calcsize(form) :]


def in_section(at: int, form: str, value: int, *, of_names: bool = False) -> Callable[[bytes], bytes]:
    """Return what puts a number into the header of the first section, or of that with the names."""

    def change(image: bytes) -> bytes:
        start, names = struct.unpack_from("<Q", image, 40)[0], struct.unpack_from("<H", image, 62)[0]
        return field(form, start + 64 * names * of_names + at, value)(image)

    return change


@needs_triton
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda image: image + b"\0", "behind its end"),
        (lambda image: image + image, "behind its end"),
        (lambda image: b"!<arch>\n" + image, "not a cubin"),
        (lambda image: struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(image)) + image, "not a cubin"),
        (lambda image: PTX.encode(), "not a cubin"),
        (field("<B", 7, 0), "not a cubin"),
        (field("<H", 16, 1), "its header"),
        (field("<H", 18, 62), "another machine"),
        (field("<H", 52, 128), "its header"),
        (field("<H", 54, 32), "its table of segments"),
        (field("<Q", 32, 2**40), "its table of segments"),
        (field("<H", 58, 128), "its table of sections"),
        (field("<H", 60, 0), "its table of sections"),
        (field("<H", 62, 0xFFFF), "its table of sections"),
        (field("<H", 62, 2), "name"),
        (in_section(32, "<Q", 40), "its first section"),
        (in_section(40, "<I", 1), "its first section"),
        (in_section(4, "<I", 1, of_names=True), "the names of its sections"),
        (in_section(24, "<Q", 0, of_names=True), "name|tables"),
        (in_section(24, "<Q", 2**63, of_names=True), "outside the file"),
        (lambda image: image.replace(b"\0.nv.info\0", b"\0.strtab\0\0"), "two sections of one name"),
    ],
)
def test_what_two_readers_could_take_in_two_ways_is_refused(image: bytes, change: Callable[[bytes], bytes], words: str):
    with pytest.raises(ValueError, match=words):
        inspect(change(image))


@needs_triton
def test_a_name_within_another_and_tables_under_a_section_are_refused(image: bytes):
    start, names = struct.unpack_from("<Q", image, 40)[0], struct.unpack_from("<H", image, 62)[0]
    with pytest.raises(ValueError, match="a name within another"):
        inspect(field("<I", start + 64, struct.unpack_from("<I", image, start + 64)[0] + 1)(image))
    table = struct.unpack_from("<Q", image, start + 64 * names + 24)[0]
    other = 1 if names != 1 else 2
    for target in (0, start, table):
        with pytest.raises(ValueError, match="lies across its tables"):
            inspect(field("<Q", start + 64 * other + 24, target)(image))


FACTS = CubinFacts(
    capability=90,
    kernels={"k": KernelFacts(parameter_bytes=(8, 4, 2, 128), registers=32, shared_bytes=1024, max_threads=128)},
    undefined=(),
    state_bytes=0,
)
MAP = TensorMap(Place("x", 0), 7, 0, (4,), (), (4,), False)
PARAMETERS = (Parameter("ptr", None), Parameter("i32", 1), Parameter("bf16", 0.5), Parameter("map", MAP))


def plans(**changes: Any) -> LaunchPlans:
    fields: dict[str, Any] = {"kernel": "k", "cubin": "c", "grid": (1, 1, 1), "block": (128, 1, 1), "cluster": 1}
    fields |= {"shared_bytes": 0, "cooperative": False, "programmatic": False, "parameters": PARAMETERS}
    return LaunchPlans("", (LaunchPlan({}, (RecordedLaunch(**{**fields, **changes}),)),))


def test_a_launch_that_fits_its_kernel():
    refuse_misfits(plans(), {"c": FACTS}, limits=LIMITS)
    refuse_misfits(plans(shared_bytes=231424), {"c": FACTS}, limits=LIMITS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernel": "other"}, "'other' is not in its cubin"),
        ({"parameters": PARAMETERS[:3]}, "is given"),
        ({"parameters": (*PARAMETERS, Parameter("i8", 0))}, "is given"),
        ({"parameters": (PARAMETERS[0], Parameter("i64", 1), *PARAMETERS[2:])}, r"is given \[8, 8, 2, 128\]"),
        ({"block": (129, 1, 1)}, "blocks of 128 threads and launched with 129"),
        ({"shared_bytes": 231425}, "needs 232449 bytes of shared memory"),
    ],
)
def test_a_launch_that_does_not_fit_its_kernel(changes: dict[str, Any], words: str):
    with pytest.raises(PlanError, match=words) as caught:
        refuse_misfits(plans(**changes), {"c": FACTS}, limits=LIMITS)
    assert caught.value.shape == 0


ATOMICS = r"""
extern "C" __global__ void plain(float* y, const float* x) { y[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 1); }
extern "C" __global__ void sums(float* y, float x) { atomicAdd(y, x); }
extern "C" __global__ void answered(float* y, float x) { y[1] = atomicAdd(y, x); }
extern "C" __global__ void doubles(double* y, double x) { atomicAdd(y, x); }
extern "C" __global__ void counts(unsigned long long* y) { atomicAdd(y, 1ull); }
extern "C" __global__ void exchanged(int* y) { y[1] = atomicCAS(y, 1, 2); }
extern "C" __global__ void shared(float* y, float x) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, x);
    __syncthreads();
    y[threadIdx.x] = sum;
}
extern "C" __global__ void anywhere(float* y, float x, int some) {
    __shared__ float sum;
    sum = x;
    y[1] = atomicAdd(some ? &sum : y, x) + sum;
}
#if __CUDA_ARCH__ >= 900
extern "C" __global__ void vectors(float* y, float x) {
    asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(y), "f"(x));
}
extern "C" __global__ void bulk(float* y) {
    __shared__ __align__(128) float some[32];
    const unsigned at = (unsigned)__cvta_generic_to_shared(some);
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 128;" ::"l"(y), "r"(at));
}
#endif
"""


@needs_nvrtc
@pytest.mark.parametrize("capability", [80, 89, 90, 100, 120])
def test_kernels_with_atomic_operations_are_known_by_their_code(capability: int):
    image = find_nvrtc().compile(ATOMICS, (), target=target_of(capability))
    assert atomic_kernels(image) == inspect(image).kernels.keys() - {"plain"}


@needs_nvrtc
def test_atomic_operations_of_functions_count_for_the_kernels_that_call_them():
    text = """
    typedef void (*Work)(float*, float);
    extern "C" __device__ __noinline__ void add(float* y, float x) { atomicAdd(y, x); }
    extern "C" __device__ __noinline__ void set(float* y, float x) { *y = x; }
    __device__ Work table[2] = {add, set};
    extern "C" __global__ void calls(float* y, float x) { add(y, x); }
    extern "C" __global__ void chooses(float* y, float x, int which) { table[which](y, x); }
    extern "C" __global__ void other(float* y, float x) { set(y, x); }
    """
    image = find_nvrtc().compile(text, (), target=target_of(90))
    assert atomic_kernels(image) == {"calls", "chooses"}
