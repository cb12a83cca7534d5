import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import evokernel
from evokernel.errors import HarnessError
from evokernel.evaluate.inside.driver import virtual_memory
from evokernel.evaluate.memory.device_arena import DeviceArena
from evokernel.evaluate.memory.segments import Buffer
from evokernel.task import Role, Scalar, Signature, Tensor

BORROWER = Path(__file__).with_name("borrower.py")
ROOT = Path(evokernel.__file__).parents[1]
SETS = 5
BUFFERS = (
    Buffer("a", (300, 70), "float32", Role.INPUT),
    Buffer("h", (77,), "bfloat16", Role.INPUT),
    Buffer("x", (2, 2), "float64", Role.INOUT),
    Buffer("c", (300, 70), "float32", Role.OUTPUT),
    Buffer("h_out", (77,), "bfloat16", Role.OUTPUT),
    Buffer("i", (5,), "int64", Role.OUTPUT),
    Buffer("e", (0, 4), "float16", Role.OUTPUT),
)


@pytest.fixture
def arena() -> Iterator[DeviceArena]:
    with DeviceArena(BUFFERS, sets=SETS) as made:
        yield made


def borrow(arena: DeviceArena, action: str) -> dict[str, Any]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    torch.cuda.synchronize()  # the other process must see what was written
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, str(BORROWER), str(theirs.fileno()), action],
            pass_fds=(theirs.fileno(),),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            socket.send_fds(ours, [json.dumps(arena.layout()).encode()], arena.descriptors())
            text, _ = process.communicate(timeout=120)
    answer: dict[str, Any] = json.loads(text.splitlines()[-1])
    return answer


def test_views_have_shape_and_dtype_and_are_copies_apart(arena: DeviceArena):
    for name, buffer in arena.buffers.items():
        for index in range(SETS):
            view = arena.view(index, name)
            assert view.is_cuda
            assert (view.shape, view.dtype) == (buffer.shape, getattr(torch, buffer.dtype))
            assert view.is_contiguous()
            view.fill_(index)
    for name, buffer in arena.buffers.items():
        views = arena.views(name)
        assert views.shape == (SETS, *buffer.shape)
        assert all(bool((views[index] == index).all()) for index in range(SETS))
    assert arena.broken_guards() == ()


def test_copies_are_aligned_on_the_device(arena: DeviceArena):
    for name, buffer in arena.buffers.items():
        if buffer.size_bytes:
            assert all(arena.view(index, name).data_ptr() % 256 == 0 for index in range(SETS))


def test_a_process_computes_on_lent_buffers_and_the_owner_sees_it(arena: DeviceArena):
    for index in range(SETS):
        arena.view(index, "a").normal_()
        arena.view(index, "h").normal_()
        arena.view(index, "x").fill_(index)
    assert borrow(arena, "compute") == {"error": "", "context_ok": True}
    assert torch.equal(arena.views("c"), 2 * arena.views("a"))
    assert torch.equal(arena.views("h_out"), arena.views("h"))
    assert arena.views("x")[:, 0, 0].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert arena.broken_guards() == ()


def test_writing_an_input_breaks_the_writer_and_nothing_else(arena: DeviceArena):
    arena.views("a").fill_(7)
    answer = borrow(arena, "write_input")
    assert "illegal memory access" in answer["error"]
    assert not answer["context_ok"]
    virtual_memory.synchronize()
    assert bool((arena.views("a") == 7).all())
    arena.view(0, "c").fill_(1)
    assert arena.broken_guards() == ()


def test_an_overrun_in_another_process_is_noticed(arena: DeviceArena):
    assert borrow(arena, "overrun")["error"] == ""
    assert arena.broken_guards() == ("c",)


@pytest.mark.parametrize(("name", "index"), [("h", 0), ("c", SETS - 1)])
def test_a_byte_beside_a_buffer_is_noticed_in_any_set(arena: DeviceArena, name: str, index: int):
    arena.segment(name).memory[arena.offset(index, name) - 1] ^= 1
    assert arena.broken_guards() == (name,)


def test_memory_comes_back_when_an_arena_is_closed():
    buffers = (Buffer("a", (64 << 20,), "float32", Role.INPUT), Buffer("c", (1,), "float32", Role.OUTPUT))
    torch.cuda.synchronize()

    def takes_and_returns() -> bool:
        before, _ = torch.cuda.mem_get_info()
        with DeviceArena(buffers, sets=2):
            within, _ = torch.cuda.mem_get_info()
        after, _ = torch.cuda.mem_get_info()
        return bool(within <= before - (512 << 20) and after >= before - (16 << 20))

    assert any(takes_and_returns() for _ in range(20)), "in one of these others left the GPU's memory alone"


def test_an_arena_that_does_not_fit_is_an_error_that_says_so():
    _, total = torch.cuda.mem_get_info()
    with pytest.raises(HarnessError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        DeviceArena((Buffer("c", (total,), "float32", Role.OUTPUT),), sets=1)
    virtual_memory.synchronize()


def test_a_signature_gives_the_shapes():
    signature = Signature(
        inputs=(Tensor("a", ("M", "K")),), scalars=(Scalar("M"),), outputs=(Tensor("c", ("M",), role=Role.OUTPUT),)
    )
    with DeviceArena.for_signature(signature, {"M": 4, "K": 3}, sets=2) as made:
        assert made.views("a").shape == (2, 4, 3)
        assert made.views("c").shape == (2, 4)
        with pytest.raises(HarnessError, match="set 2 of an arena of 2 sets"):
            made.view(2, "a")
