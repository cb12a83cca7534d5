"""Memory outside their outputs in which kernels can leave something: none of it reaches a later batch."""

import itertools
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest
import torch

from evokernel.evaluate.inside.driver import streams, virtual_memory
from evokernel.evaluate.inside.driver.kernel_parameters import POINTER, Parameter
from evokernel.evaluate.inside.driver.loaded_kernel import LoadedKernel, LoadedModule, Shape
from evokernel.evaluate.inside.driver.memory_scrub import MemoryScrub, frame_for, scrub_ptx
from evokernel.evaluate.inside.driver.module_state import ModuleState
from evokernel.evaluate.inside.driver.nvrtc import find_nvrtc, target_of
from evokernel.evaluate.inside.runner.artifact_runner import queue_call
from evokernel.evaluate.inside.runner.mapped_memory import MappedArena
from evokernel.evaluate.inside.runner.recorded_candidate import RecordedCandidate
from evokernel.evaluate.memory.device_arena import DeviceArena
from evokernel.evaluate.memory.segments import Buffer
from evokernel.task import Role

WORD, POISON = 0xC0FFEE, 0x12345678
BLOCKS, THREADS, SHARED_BYTES = 4096, 128, 16 << 10
SPIN_NS, SLACK_NS, CALLS = 50_000, 2_000, 16
SOURCE = r"""
extern "C" __global__ void leave_local(unsigned word, unsigned zero) {
    unsigned kept[256], back;
    const unsigned long long at = __cvta_generic_to_local(kept);
    for (int i = 0; i < 256; ++i)
        asm volatile("st.local.u32 [%0], %1;" ::"l"(at + 4 * i), "r"(word + i * zero) : "memory");
    asm volatile("ld.local.u32 %0, [%1];" : "=r"(back) : "l"(at + 4 * (word & 255)) : "memory");
    if (back != word) __trap();  // no compiler knows which word is read: so all of them are stored
}
extern "C" __global__ void find_local(unsigned word, unsigned* found) {
    unsigned kept[256], seen;
    const unsigned long long at = __cvta_generic_to_local(kept);
    for (int i = 0; i < 256; ++i) {
        asm volatile("ld.local.u32 %0, [%1];" : "=r"(seen) : "l"(at + 4 * i) : "memory");
        if (seen == word) atomicAdd(found, 1);
    }
}
extern "C" __global__ void leave_shared(unsigned word, unsigned zero) {
    extern __shared__ unsigned room[];
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) *(volatile unsigned*)&room[i] = word;
}
extern "C" __global__ void find_shared(unsigned word, unsigned* found) {
    extern __shared__ unsigned room[];
    for (int i = threadIdx.x; i < 4096; i += blockDim.x)
        if (*(volatile unsigned*)&room[i] == word) atomicAdd(found, 1);
}
__device__ int zeros[3];
__device__ int start[2] = {1, 2};
static __device__ int hidden = 5;
__constant__ int fixed[3] = {7, 8, 9};
extern "C" __global__ void count(int* seen) {
    for (int i = 0; i < 3; ++i) seen[i] = atomicAdd(zeros + i, 1);
    for (int i = 0; i < 2; ++i) seen[3 + i] = atomicAdd(start + i, 1);
    seen[5] = atomicAdd(&hidden, 1);
    for (int i = 0; i < 3; ++i) seen[6 + i] = fixed[i];
}
extern "C" __global__ void write_behind(unsigned long long scratch) { *(unsigned*)((scratch | 0x1fffff) - 3) = 7; }
"""
EARLY = r"""
__device__ unsigned long long now() {
    unsigned long long at;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(at));
    return at;
}
extern "C" __global__ void slow(unsigned long long* stamps) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    const unsigned long long begin = now();
    while (now() - begin < 50000) {}
    stamps[0] = begin;
    stamps[1] = now();
}
extern "C" __global__ void quick(unsigned long long* stamps) { stamps[2] = now(); }
"""


@dataclass(frozen=True)
class Loaded:
    """A module, its cubin, and a stream for its kernels."""

    image: bytes
    module: LoadedModule
    stream: streams.Stream

    def launch(self, name: str, *values: tuple[str, int], blocks: int = 1, threads: int = 1, shared: int = 0) -> None:
        shape = Shape((blocks, 1, 1), (threads, 1, 1), 1, shared, False, False)
        parameters = [Parameter(kind, value) for kind, value in values]
        LoadedKernel(self.module, name, shared).launch(shape, parameters, self.stream.handle)

    def number_at(self, address: int) -> int:
        self.stream.wait()
        return int.from_bytes(streams.read(address, 4), "little")


def compiled(source: str) -> bytes:
    major, minor = torch.cuda.get_device_capability()
    return find_nvrtc().compile(source, (), target=target_of(10 * major + minor))


@pytest.fixture(scope="module")
def loaded() -> Iterator[Loaded]:
    virtual_memory.retain_primary_context()
    image = compiled(SOURCE)
    made = Loaded(image, LoadedModule(image), streams.Stream())
    yield made
    made.module.unload()


@pytest.fixture
def word() -> Iterator[int]:
    """Yield the address of four bytes that are zero."""
    virtual_memory.retain_primary_context()
    address = streams.allocate(256)
    streams.write(address, bytes(256))
    yield address
    streams.free(address)


@pytest.mark.parametrize(("kind", "shared"), [("local", 0), ("shared", SHARED_BYTES)])
def test_memory_on_the_chip_is_overwritten(loaded: Loaded, word: int, kind: str, shared: int) -> None:
    frame_bytes = frame_for(LoadedKernel(loaded.module, f"leave_{kind}", shared).local_bytes)
    assert bool(frame_bytes) == (kind == "local")
    scrub = MemoryScrub(counter=word + 128)
    scrub.prepare(frame_bytes)

    def found() -> int:
        streams.write(word, bytes(4))
        loaded.launch(f"find_{kind}", ("u32", WORD), (POINTER, word), blocks=BLOCKS, threads=THREADS, shared=shared)
        return loaded.number_at(word)

    def leave() -> None:
        loaded.launch(f"leave_{kind}", ("u32", WORD), ("u32", 0), blocks=BLOCKS, threads=THREADS, shared=shared)

    leave()
    left = found()
    leave()
    with loaded.stream.captured() as graph:
        scrub.queue(loaded.stream, frame_bytes=frame_bytes, word=POISON)
    graph.launch(loaded.stream)
    after = found()
    graph.close()
    most = 0.005 * left if kind == "shared" else 0  # the driver's own KiB in the scrub's block
    assert after <= most, f"{after} words of {kind} memory were left after the scrub; {left} before it"
    if not left:
        pytest.skip(f"this device shows no {kind} memory of an earlier kernel")


def test_the_scrub_writes_all_of_its_frame(word: int) -> None:
    for frame_bytes in (512, 1536, 16384):
        kernel = LoadedKernel(LoadedModule(scrub_ptx(frame_bytes)), "scrub", 0)
        assert kernel.local_bytes >= frame_bytes, f"the driver left out a frame of {frame_bytes} bytes"
        assert kernel.registers <= 32, "the blocks do not fill a multiprocessor"


def test_variables_are_written_back_and_the_module_is_kept(loaded: Loaded, word: int) -> None:
    state = ModuleState.of([(loaded.module, loaded.image)])
    assert state is not None, "the driver does not tell where variables lie: modules are loaded anew for each batch"

    def seen() -> list[int]:
        loaded.launch("count", (POINTER, word))
        loaded.stream.wait()
        return list(struct.unpack("9i", streams.read(word, 36)))

    first, second = seen(), seen()
    state.restore(loaded.stream)
    assert first == [0, 0, 0, 1, 2, 5, 7, 8, 9]
    assert second == [1, 1, 1, 2, 3, 6, 7, 8, 9]
    assert seen() == first


def launch_of(name: str, image: bytes, *pointers: str, programmatic: bool = False) -> dict[str, Any]:
    """Return a step of a plan: one thread, with buffers as parameters."""
    shape = {"grid": [1, 1, 1], "block": [1, 1, 1], "cluster": 1, "shared_bytes": 0, "cooperative": False}
    parameters = [["ptr", [pointer, 0]] for pointer in pointers]
    names = {"kernel": name, "cubin": sha256(image).hexdigest()}
    return {"launch": {**names, **shape, "programmatic": programmatic, "parameters": parameters}}


def recorded(
    image: bytes, steps: Sequence[Mapping[str, Any]], stream: streams.Stream, **scratch: int
) -> RecordedCandidate:
    document = {"shapes": [{"scratch": scratch, "steps": steps}], "stateful": False}
    made = RecordedCandidate(document, {sha256(image).hexdigest(): image}, stream)
    made.select_shape(0)
    return made


def test_the_pages_behind_scratch_are_filled_too(loaded: Loaded, word: int) -> None:
    steps = [launch_of("write_behind", loaded.image, "scratch0"), {"copy": copy_to("a", "scratch0")}]
    candidate = recorded(loaded.image, steps, loaded.stream, scratch0=4, scratch1=5000)
    (page,) = {address | 0x1FFFFF for address in candidate.places.values()}
    for step in candidate.call("", 0, {"a": word}):
        step.queue()
    assert loaded.number_at(page - 3) == 7
    candidate.poison(POISON)
    assert [loaded.number_at(at) for at in (*candidate.places.values(), page - 3)] == [POISON] * 3
    candidate.close()


def copy_to(buffer: str, source: str) -> dict[str, Any]:
    return {"buffer": buffer, "offset": 0, "source": source, "source_offset": 0, "bytes": 4}


def test_buffers_keep_their_content_and_addresses_while_they_are_not_mapped() -> None:
    buffers = (Buffer("x", (300,), "float32", Role.INPUT), Buffer("y", (300,), "float32", Role.OUTPUT))
    with DeviceArena(buffers, sets=2) as arena:
        arena.views("y").fill_(1)
        torch.cuda.synchronize()
        mapped = MappedArena(arena.layout(), [os.dup(descriptor) for descriptor in arena.descriptors()])
        places = [dict(one_set) for one_set in mapped.sets]
        for _ in range(2):
            mapped.show()
            assert streams.read(mapped.sets[1]["y"], 4) == b"\x00\x00\x80\x3f"
            mapped.hide()  # what a kernel reads there now is a fault, which no process survives
        assert mapped.sets == places
        mapped.close()
        assert arena.broken_guards() == ()


def test_a_byte_behind_the_last_copy_is_noticed() -> None:
    with DeviceArena((Buffer("y", (300,), "float32", Role.OUTPUT),), sets=3) as arena:
        tail = arena.outputs.layout.tail
        assert tail.end == arena.outputs.layout.size_bytes
        assert tail.end > tail.begin
        for place in (tail.begin, tail.end - 1):
            arena.outputs.memory[place] ^= 1
            assert arena.broken_guards() == ("y",)
            arena.outputs.memory[place] ^= 1
        assert arena.broken_guards() == ()


def test_lines_that_a_kernel_asked_to_keep_can_be_given_up() -> None:
    virtual_memory.retain_primary_context()
    streams.release_persisting_lines()
    streams.synchronize()


@dataclass(frozen=True)
class Stamps:
    """Times of one call: begin and end of its long kernel, and the time of the short one after it, in ns."""

    begin: int
    end: int
    short: int


@pytest.fixture(scope="module")
def stamps() -> tuple[list[Stamps], float]:
    """Run calls whose last launch may begin, and end, before the work of the call is done; return the device's time."""
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("this device has no programmatic launches")
    virtual_memory.retain_primary_context()
    stream, image, watch = streams.Stream(), compiled(EARLY), streams.Stopwatch()
    steps = [launch_of("slow", image, "y"), launch_of("quick", image, "y", programmatic=True)]
    candidate = recorded(image, steps, stream)
    address = streams.allocate(24 * CALLS)
    calls = [candidate.call("", number, {"y": address + 24 * number}) for number in range(CALLS)]
    with stream.captured() as graph:
        watch.begin(stream.handle, in_graph=True)
        for call in calls:
            queue_call(stream, call)
        watch.end(stream.handle, in_graph=True)
    for _ in range(2):  # the first launch loads what it needs
        graph.launch(stream)
        stream.wait()
    rows = [Stamps(*row) for row in struct.iter_unpack("3q", streams.read(address, 24 * CALLS))]
    device_ns = watch.elapsed_ns()
    graph.close()
    candidate.close()
    streams.free(address)
    return rows, device_ns


def test_calls_never_overlap(stamps: tuple[list[Stamps], float]) -> None:
    calls, device_ns = stamps
    gaps_ns = [later.begin - earlier.end for earlier, later in itertools.pairwise(calls)]
    assert min(gaps_ns) >= -SLACK_NS, f"a call began before the one before it was done: {gaps_ns}"
    assert device_ns >= 0.95 * SPIN_NS * CALLS, f"the events say {device_ns:.0f} ns for {CALLS} calls of {SPIN_NS} ns"


def test_a_launch_may_still_begin_early_within_a_call(stamps: tuple[list[Stamps], float]) -> None:
    calls, _ = stamps
    early = [call.end - call.short for call in calls]
    assert max(early) > 0, f"every launch waited for the one before it, also within a call: {early}"
