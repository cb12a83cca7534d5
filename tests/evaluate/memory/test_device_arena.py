import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evokernel.evaluate.memory.device_arena import ALIGNMENT_BYTES, GUARD_BYTES, device_spacing
from evokernel.evaluate.memory.segments import Buffer, Guards, SegmentLayout
from evokernel.task import DTYPES, Role

GRANULARITY = 2 << 20
shapes = st.lists(st.integers(0, 70), max_size=3).map(tuple)
buffers = st.lists(
    st.builds(Buffer, st.uuids().map(str), shapes, st.sampled_from(sorted(DTYPES)), st.just(Role.OUTPUT)),
    max_size=5,
    unique_by=lambda buffer: buffer.name,
)


@given(buffers, st.integers(1, 9))
def test_bars_and_buffers_cover_a_set_without_overlap(made: list[Buffer], sets: int):
    layout = SegmentLayout.of(made, sets=sets, spacing=device_spacing(GRANULARITY))
    spans = [(layout.offsets[buffer.name], layout.offsets[buffer.name] + buffer.size_bytes) for buffer in made]
    pieces = sorted([*((bar.begin, bar.end) for bar in layout.bars), *spans])
    assert pieces[0][0] == 0
    assert pieces[-1][1] == layout.stride
    assert (layout.tail.begin, layout.tail.end) == (layout.stride * sets, layout.size_bytes)
    assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(pieces))


@given(buffers, st.integers(1, 9))
def test_copies_are_aligned_and_a_bar_apart(made: list[Buffer], sets: int):
    layout = SegmentLayout.of(made, sets=sets, spacing=device_spacing(GRANULARITY))
    ends = [0, *(layout.offsets[buffer.name] + buffer.size_bytes for buffer in made)]
    begins = [*layout.offsets.values(), layout.stride]
    assert all(begin - end >= GUARD_BYTES for end, begin in zip(ends, begins, strict=True))
    assert all(offset % ALIGNMENT_BYTES == 0 for offset in layout.offsets.values())
    assert layout.stride % 512 == 0
    assert layout.stride // 512 % 2 == 1
    assert layout.size_bytes % GRANULARITY == 0
    assert layout.size_bytes >= layout.stride * sets


@pytest.fixture
def guarded() -> tuple[SegmentLayout, torch.Tensor, Guards]:
    made = (Buffer("a", (3, 5), "float32", Role.OUTPUT), Buffer("b", (100,), "bfloat16", Role.OUTPUT))
    layout = SegmentLayout.of(made, sets=3, spacing=device_spacing(1 << 12))
    memory = torch.zeros(layout.size_bytes, dtype=torch.uint8)
    return layout, memory, Guards(layout, memory, sets=3)


def test_untouched_bars_are_whole_and_buffers_are_left_alone(guarded):
    layout, memory, guards = guarded
    for index in range(3):
        for name, size in (("a", 60), ("b", 200)):
            begin = index * layout.stride + layout.offsets[name]
            assert not memory[begin : begin + size].any()
            memory[begin : begin + size] = 9
    assert guards.broken() == set()


@pytest.mark.parametrize(
    ("name", "place"), [("a", -1), ("a", 60), ("b", -1), ("b", 200), ("a", -GUARD_BYTES), ("b", 199 + GUARD_BYTES)]
)
@pytest.mark.parametrize("index", [0, 2])
def test_a_changed_byte_is_put_down_to_the_nearer_buffer(guarded, name: str, place: int, index: int):
    layout, memory, guards = guarded
    memory[index * layout.stride + layout.offsets[name] + place] ^= 1
    assert guards.broken() == {name}


@pytest.mark.parametrize("place", [0, -1])
def test_a_changed_byte_behind_the_last_copy_is_put_down_to_the_last_buffer(guarded, place: int):
    layout, memory, guards = guarded
    tail = memory[layout.tail.begin :]
    assert len(tail)
    tail[place] ^= 1
    assert guards.broken() == {"b"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_whatever_is_read_past_a_buffer_spoils_a_sum_even_with_a_weight_of_zero(guarded, dtype: torch.dtype):
    layout, memory, _ = guarded
    end = layout.offsets["b"] + 200
    triples = GUARD_BYTES // 24
    behind = memory[end : end + 24 * triples].view(dtype).reshape(triples, -1)
    assert (behind * 0).sum(1).isnan().all()
    assert (behind.nan_to_num(nan=-1.0).amax(1) > 1e4).all()
    assert (behind.nan_to_num(nan=1.0).amin(1) < -1e4).all()
