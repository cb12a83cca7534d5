"""What host code of a candidate may do with tensors that are not there."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from evokernel.evaluate.inside.untrusted.buffers import Buffers
from evokernel.evaluate.inside.untrusted.stand_in_tensors import LaunchesOnly, hosted, stand_in

PROPERTIES = {"multiprocessor_count": 132, "max_shared_mem": 232448, "max_num_regs": 65536, "max_threads": 2048}


class Host:
    """One call on `x`, 64 x 32 in bf16; takes the notes itself, as operation, tensor and number or source."""

    def __init__(self) -> None:
        self.buffers = Buffers()
        self.notes: list[tuple[str, Any, Any]] = []
        self.x = stand_in((64, 32), "bfloat16")
        self.buffers.name(self.x, "x")

    def fill(self, tensor: Any, value: Any) -> None:
        self.notes.append(("fill", tensor, value))

    def copy(self, target: Any, source: Any) -> None:
        self.notes.append(("copy", target, source))

    def call(self, use: Callable[[Any], Any]) -> Any:
        with hosted(self, capability=90, properties=PROPERTIES):
            return use(self.x)


@pytest.fixture
def host() -> Host:
    return Host()


def test_it_looks_like_a_tensor_on_the_gpu(host: Host):
    def look(x: Any) -> None:
        assert isinstance(x, torch.Tensor)
        assert x.is_cuda
        assert x.device == torch.device("cuda", 0)
        assert x.get_device() == 0
        assert x.cuda() is x
        assert x.to("cuda").is_cuda
        assert (x.shape, x.stride(), x.dtype) == ((64, 32), (32, 1), torch.bfloat16)
        assert x.is_contiguous()
        assert torch.cuda.is_available()
        assert torch.cuda.get_device_properties(x.device).multi_processor_count == 132
        assert torch.cuda.get_device_capability() == (9, 0)
        with torch.cuda.device(x.device):
            assert torch.cuda.current_device() == 0

    host.call(look)


@pytest.mark.parametrize(
    ("view", "offset"),
    [
        (lambda x: x.view(-1)[3:], 6),
        (lambda x: x[2], 128),
        (lambda x: x.t(), 0),
        (lambda x: x[1:, 4:].permute(1, 0), 72),
        (lambda x: x.unbind(0)[1], 64),
        (lambda x: x.reshape(2, 32, 32).transpose(1, 2)[1], 2048),
        (lambda x: x.unsqueeze(0).expand(4, 64, 32), 0),
    ],
)
def test_views_stay_in_their_buffer(host: Host, view: Callable[[Any], Any], offset: int):
    seen = host.call(view)
    assert host.buffers.place(seen) == ("x", offset)
    assert seen.data_ptr() % 4096 == offset
    assert host.notes == []


@pytest.mark.parametrize(
    "make",
    [
        torch.empty_like,
        lambda x: torch.empty(3, device=x.device),
        lambda x: torch.empty(3, 4, dtype=torch.float32, device="cuda"),
        lambda x: x.new_empty(7),
        lambda x: x.new_empty((7,), device="cuda:0"),
    ],
)
def test_scratch_gets_buffers_of_its_own(host: Host, make: Callable[[Any], Any]):
    first, second = host.call(lambda x: (make(x), make(x)))
    assert host.buffers.place(first) == ("scratch0", 0)
    assert host.buffers.place(second) == ("scratch1", 0)
    assert host.buffers.place(first) == ("scratch0", 0)
    assert host.buffers.scratch["scratch0"] == first.numel() * first.element_size()
    assert first.data_ptr() != second.data_ptr()
    assert first.data_ptr() % 256 == second.data_ptr() % 256 == 0


def test_an_empty_tensor_is_nowhere(host: Host):
    assert host.call(lambda x: x[:0].data_ptr()) == 0


def test_fills_and_copies_are_told(host: Host):
    def fill(x: Any) -> None:
        scratch = torch.zeros_like(x)
        scratch.zero_()
        x[1:].fill_(2.5)
        x[0] = 3
        x[0, 0] = 4
        scratch.copy_(x)

    host.call(fill)
    assert [name for name, _, _ in host.notes] == ["fill"] * 5 + ["copy"]
    assert [value for name, _, value in host.notes if name == "fill"] == [0, 0, 2.5, 3, 4]
    assert [host.buffers.place(tensor) for _, tensor, _ in host.notes] == [
        *[("scratch0", 0)] * 2,
        *[("x", 64), ("x", 0), ("x", 0)],
        ("scratch0", 0),
    ]


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (lambda x: torch.zeros(3, device="cuda"), 0),
        (lambda x: x.new_zeros(3), 0),
        (lambda x: torch.ones((2, 2), dtype=torch.int8, device=x.device), 1),
        (lambda x: x.new_ones(3), 1),
        (lambda x: torch.ones_like(x), 1),
        (lambda x: torch.full((2,), -1.5, device="cuda"), -1.5),
        (lambda x: torch.full_like(x, 7), 7),
        (lambda x: x.new_full((3,), fill_value=7), 7),
        (lambda x: torch.scalar_tensor(4.0, device="cuda"), 4.0),
    ],
)
def test_scratch_made_of_a_number_is_filled(host: Host, make: Callable[[Any], Any], value: float):
    made = host.call(make)
    ((name, tensor, found),) = host.notes
    assert (name, found) == ("fill", value)
    assert host.buffers.place(tensor) == host.buffers.place(made)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: torch.empty(4).zero_(),
        lambda x: x[0, :4].copy_(torch.empty(4)),
        lambda x: torch.empty(4).copy_(x[0, :4]),
    ],
)
def test_tensors_on_the_cpu_are_neither_filled_nor_copied(host: Host, use: Callable[[Any], Any]):
    with pytest.raises(RuntimeError, match="with a tensor on the CPU"):
        host.call(use)


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (lambda x: x.sum(), "'sum'"),
        (lambda x: x @ x.t(), "'mm'"),
        (lambda x: torch.mm(x, x.t(), out=torch.empty(64, 64, dtype=x.dtype, device=x.device)), "'mm'"),
        (lambda x: x[0, 0].item(), "'_local_scalar_dense'"),
        (lambda x: x.tolist(), "'_to_copy'"),
        (lambda x: x.cpu(), "'_to_copy'"),
        (lambda x: x.float(), "'_to_copy'"),
        (lambda x: x.t().contiguous(), "'clone'"),
        (lambda x: "small" if x[0, 0] > 0 else "large", "'gt'"),
    ],
)
def test_what_computes_or_waits_is_refused_by_name(host: Host, use: Callable[[Any], Any], name: str):
    with pytest.raises(RuntimeError, match=name):
        host.call(use)


def test_waiting_and_streams_are_refused(host: Host):
    with pytest.raises(RuntimeError, match="must not wait"):
        host.call(lambda x: torch.cuda.synchronize())
    with pytest.raises(RuntimeError, match="streams"):
        host.call(lambda x: torch.cuda.current_stream())


def test_a_tensor_on_the_cpu_is_no_argument_of_a_kernel(host: Host):
    scratch = host.call(lambda x: torch.empty(4))
    with pytest.raises(ValueError, match=r"device=x\.device"):
        host.buffers.place(scratch)


def test_torch_is_as_before_afterwards(host: Host):
    kept = torch.cuda.is_available
    with pytest.raises(RuntimeError):
        host.call(lambda x: x.sum())
    assert torch.cuda.is_available is kept
    assert torch.ones(3).sum().item() == 3


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.view(-1)[3:].view(torch.int32) if x.numel() % 2 else x.t(),
        lambda x: torch.empty((4, 4), dtype=torch.float32, device=x.device).zero_(),
        lambda x: torch.empty_like(x).copy_(x),
    ],
)
def test_live_host_code_may_do_what_it_may_on_stand_ins(use: Callable[[Any], Any]) -> None:
    with LaunchesOnly():
        use(torch.ones(8, 8))


@pytest.mark.parametrize(
    "use",
    [
        lambda x: torch.mm(x, x),
        lambda x: torch.mm(x, x, out=torch.empty_like(x)),
        lambda x: torch.ops.aten.mm(x, x),
        lambda x: torch.softmax(x, 1),
        lambda x: x.sum().item(),
        lambda x: x + 1,
    ],
)
def test_live_host_code_may_not_compute_with_torch(use: Callable[[Any], Any]) -> None:
    with LaunchesOnly(), pytest.raises(RuntimeError, match="calls torch for"):
        use(torch.ones(8, 8))
