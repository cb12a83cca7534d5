import gc
import itertools
import json
import mmap
import os
import struct

import pytest
import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.memory.arena import (
    FENCE_BYTES,
    FENCE_PAGE_BYTES,
    SPACING,
    EndFencedArena,
    FencedArena,
    HostArena,
)
from evokernel.evaluate.memory.segments import Buffer
from evokernel.evaluate.numerics.canary import stored_bytes
from evokernel.task import Role, Scalar, Signature, Tensor

BUFFERS = (
    Buffer("a", (3, 5), "float32", Role.INPUT),
    Buffer("h", (7,), "bfloat16", Role.INPUT),
    Buffer("x", (2, 2), "float64", Role.INOUT),
    Buffer("c", (3, 3), "float32", Role.OUTPUT),
    Buffer("i", (5,), "int64", Role.OUTPUT),
    Buffer("e", (0, 4), "float16", Role.OUTPUT),
)


@pytest.fixture
def arena():
    with HostArena(BUFFERS, sets=3) as made:
        yield made


def test_copies_are_aligned_apart_and_of_the_right_shape(arena):
    for name, buffer in arena.buffers.items():
        for index in range(3):
            assert arena.offset(index, name) % 64 == 0
            assert arena.view(index, name).shape == buffer.shape
    ordered = sorted((arena.offset(k, n), arena.buffers[n].size_bytes) for k in range(3) for n in ("x", "c", "i", "e"))
    assert all(a + size + SPACING.guard <= b for (a, size), (b, _) in itertools.pairwise(ordered))
    assert arena.view(0, "h").dtype == torch.bfloat16


@pytest.mark.parametrize("kind", [FencedArena, EndFencedArena])
def test_a_fence_lies_right_before_or_right_behind_each_buffer(kind):
    with kind(BUFFERS, sets=2) as arena:
        assert arena.broken_guards() == ()
        for name, buffer in arena.buffers.items():
            fences = arena.fences()[buffer.writable]
            begins, ends = {begin for begin, _ in fences}, {begin + size for begin, size in fences}
            for index in range(2):
                begin = arena.offset(index, name)
                end = begin + -(-buffer.size_bytes // 64) * 64  # as near as the alignment allows
                assert begin % 64 == 0
                assert begin in ends if kind is FencedArena else end in begins
                assert all(end <= left or left + size <= begin for left, size in fences)
        assert all(size % FENCE_PAGE_BYTES == 0 for fences in arena.fences() for _, size in fences)
        assert max(size for fences in arena.fences() for _, size in fences) >= FENCE_BYTES // 2


def test_views_share_memory_with_whoever_maps_the_descriptor(arena):
    arena.view(1, "x")[...] = 4.5
    with mmap.mmap(arena.outputs.fd, 0) as other:
        assert struct.unpack_from("4d", other, arena.offset(1, "x")) == (4.5,) * 4


def test_nobody_else_can_map_or_write_the_inputs(arena):
    with pytest.raises(PermissionError):
        mmap.mmap(arena.inputs.fd, 0)
    with pytest.raises(PermissionError):
        os.pwrite(arena.inputs.fd, b"x", 0)
    with mmap.mmap(arena.inputs.fd, 0, prot=mmap.PROT_READ) as readable:
        arena.view(0, "a")[...] = 2
        assert struct.unpack_from("f", readable, arena.offset(0, "a")) == (2,)


def test_neither_file_can_be_resized(arena):
    for segment in (arena.inputs, arena.outputs):
        for size in (0, segment.layout.size_bytes * 2):
            with pytest.raises(PermissionError):
                os.ftruncate(segment.fd, size)


def test_one_strided_view_shows_all_copies(arena):
    for name, buffer in arena.buffers.items():
        views = arena.views(name)
        assert views.shape == (3, *buffer.shape)
        for index in range(3):
            views[index].fill_(index + 1)
            assert (arena.view(index, name) == index + 1).all()
            assert arena.view(index, name).is_contiguous()
    arena.views("h").zero_()
    assert not arena.view(2, "h").any()
    assert arena.broken_guards() == ()


def test_a_set_has_a_size_and_a_layout_that_others_can_map(arena):
    layout = json.loads(json.dumps(arena.layout()))
    assert arena.set_bytes == sum(layout["strides"])
    arena.view(2, "x").fill_(7)
    assert layout["buffers"][2] == ["x", [2, 2], "float64", "inout", 1, arena.offset(0, "x")]
    with mmap.mmap(arena.descriptors()[1], 0) as other:
        assert struct.unpack_from("4d", other, layout["buffers"][2][5] + 2 * layout["strides"][1]) == (7,) * 4
    assert arena.device == "cpu"


@pytest.mark.parametrize(("name", "index"), [("x", 0), ("c", 1), ("i", 2)])
@pytest.mark.parametrize("where", ["before", "after"])
def test_one_byte_out_of_bounds_names_the_tensor(arena, name, index, where):
    assert arena.broken_guards() == ()
    start = arena.offset(index, name)
    position = start - 1 if where == "before" else start + arena.buffers[name].size_bytes
    (old,) = os.pread(arena.outputs.fd, 1, position)
    os.pwrite(arena.outputs.fd, bytes([old ^ 1]), position)
    assert arena.broken_guards() == (name,)
    os.pwrite(arena.outputs.fd, bytes([old]), position)
    assert arena.broken_guards() == ()


def test_writing_all_of_a_tensor_breaks_no_guard(arena):
    for name in arena.buffers:
        arena.view(2, name)[...] = 0
    assert arena.broken_guards() == ()


def test_an_arena_follows_a_signature():
    signature = Signature(
        (Tensor("a", ("M", "2*K")),), (Scalar("M"),), (Tensor("c", ("M",), "float64", role=Role.OUTPUT),)
    )
    with HostArena.for_signature(signature, {"M": 3, "K": 4}, sets=1) as arena:
        assert arena.view(0, "a").shape == (3, 8)
        assert arena.view(0, "c").dtype == torch.float64


def test_views_outlive_the_arena_and_descriptors_do_not():
    before = len(os.listdir("/proc/self/fd"))
    arena = HostArena(BUFFERS, sets=1)
    view = arena.view(0, "c")
    view[...] = 3
    arena.close()
    gc.collect()
    assert (view == 3).all()
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # the map of the view that is still held


def test_misuse_is_told(arena):
    with pytest.raises(HarnessError, match="set 3"):
        arena.view(3, "a")
    with pytest.raises(HarnessError, match="at least one set"):
        HostArena(BUFFERS, sets=0)


PADDED = (
    Buffer("a", (3, 5), "float32", Role.INPUT, (8, 1)),
    Buffer("b", (2, 4, 3), "float16", Role.INPUT, (40, 1, 7)),
    Buffer("c", (3, 3), "float32", Role.OUTPUT),
)


@pytest.fixture
def padded():
    with HostArena(PADDED, sets=2) as made:
        yield made


def storage(arena, name, index):
    """Return all of a copy's memory, padding included."""
    buffer = arena.buffers[name]
    view = arena.view(index, name)
    return view.as_strided((buffer.size_bytes // view.element_size(),), (1,), view.storage_offset())


def test_a_buffer_with_strides_is_viewed_by_them_and_others_are_told(padded):
    assert padded.view(1, "a").stride() == (8, 1)
    assert padded.views("b").shape == (2, 2, 4, 3)
    assert json.loads(json.dumps(padded.layout()))["layouts"] == {"a": [8, 1], "b": [40, 1, 7]}
    padded.views("a").zero_()
    padded.views("b").zero_()
    assert padded.broken_guards() == ()


@pytest.mark.parametrize(("name", "place"), [("a", 5), ("a", 15), ("b", 4), ("b", 18), ("b", 39), ("b", 46)])
def test_a_write_between_the_elements_is_noticed_in_any_copy(padded, name, place):
    storage(padded, name, 1)[place] = 1
    assert padded.broken_guards() == (name,)


def test_what_lies_between_the_elements_spoils_sums_maxima_and_minima(padded):
    for name in ("a", "b"):
        padded.views(name).zero_()
        found = storage(padded, name, 0).float()
        between = found[found != 0]
        assert len(between) == found.numel() - padded.view(0, name).numel()
        assert between.isnan().any()
        finite = between[between.isfinite()]
        assert finite.max() > 6e4 or name == "a"
        assert finite.min() < -6e4 or name == "a"
        assert not between.isinf().any()


def test_the_bytes_of_a_tensor_for_others_have_its_layout():
    tensor = Tensor("a", ("M", "K"), strides=("LDA", 1))
    values = torch.arange(15, dtype=torch.float32).view(3, 5)
    raw = torch.frombuffer(bytearray(stored_bytes(tensor, values, {"M": 3, "K": 5, "LDA": 8})), dtype=torch.float32)
    assert raw.numel() == 21
    assert torch.equal(raw.as_strided((3, 5), (8, 1)), values)
    assert not (raw.as_strided((2, 3), (8, 1), 5).abs() < 1e30).any()
