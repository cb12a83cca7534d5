"""What of a call ends up in its plan, without any compiler: kernels are launched through the recorder itself."""

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from evokernel.evaluate.inside.driver.kernel_parameters import Parameter
from evokernel.evaluate.inside.driver.loaded_kernel import Shape
from evokernel.evaluate.inside.untrusted.recording import Recorder, RepetitionError, record

PROPERTIES = {"multiprocessor_count": 132, "max_shared_mem": 232448, "max_num_regs": 65536, "max_threads": 2048}
ONE = Shape((1, 1, 1), (128, 1, 1), 1, 0, False, False)
X = {"kind": "tensor", "name": "x", "shape": [64, 32], "dtype": "float32"}
N = {"kind": "scalar", "value": 64}


class Host:
    """A recorder and what a candidate has to launch with."""

    def __init__(self) -> None:
        self.recorder = Recorder(90, PROPERTIES)
        self.cubin = self.recorder.keep(b"code")

    def launch(self, *values: tuple[str, Any], shape: Shape = ONE) -> None:
        parameters = [Parameter(kind, value) for kind, value in values]
        self.recorder.launch("k", self.cubin, shape=shape, parameters=parameters)

    def steps(self, use: Callable[[Any], Any]) -> list[dict[str, Any]]:
        """Return the steps before a launch that ends the call."""

        def run(x: Any) -> None:
            use(x)
            self.launch()

        plan = self.recorder.call(run, [X])
        steps: list[dict[str, Any]] = plan["steps"]
        return steps[:-1]


@pytest.fixture
def host() -> Host:
    return Host()


def test_a_tensor_with_strides_is_one_to_the_host_code_and_views_of_it_lie_where_they_do_on_a_gpu(host: Host):
    def run(x: Any) -> None:
        assert x.stride() == (40, 1)
        assert not x.is_contiguous()
        host.launch(("ptr", x), ("ptr", x[2, 3:]), ("ptr", x.T[5]))

    plan = host.recorder.call(run, [{**X, "strides": [40, 1]}])
    places = [value for _, value in plan["steps"][0]["launch"]["parameters"]]
    assert places == [["x", 0], ["x", (2 * 40 + 3) * 4], ["x", 5 * 4]]
    assert plan["scratch"] == {}


def test_a_launch_is_written_down_as_the_kernel_gets_it(host: Host):
    def run(x: Any, n: int) -> None:
        work = torch.empty(n, device=x.device)
        host.launch(("ptr", x[1:]), ("ptr", None), ("ptr", x[:0]), ("i32", n), ("u1", True), ("fp32", 0.1), ("fp32", 1))
        host.launch(("ptr", work), ("ptr", host.recorder.scratch(1024)), ("ptr", host.recorder.scratch(0)))
        host.launch(("ptr", host.recorder.scratch(64)), ("fp32", math.inf), ("i8", 200), shape=ONE)

    plan = host.recorder.call(run, [X, N])
    first, second, third = (step["launch"] for step in plan["steps"])
    assert first["parameters"] == [
        *[["ptr", ["x", 128]], ["ptr", None], ["ptr", None], ["i32", 64], ["u1", 1]],
        *[["fp32", 0.10000000149011612], ["fp32", 1.0]],
    ]
    assert first["cubin"] == host.cubin
    assert second["parameters"] == [["ptr", ["scratch0", 0]], ["ptr", ["launch0", 0]], ["ptr", None]]
    assert third["parameters"] == [["ptr", ["launch1", 0]], ["fp32", math.inf], ["i8", -56]]
    assert plan["scratch"] == {"scratch0": 256, "launch0": 1024, "launch1": 64}


def test_an_empty_grid_is_no_launch(host: Host):
    assert host.steps(lambda x: host.launch(shape=Shape((0, 1, 1), (32, 1, 1), 1, 0, False, False))) == []
    with pytest.raises(RuntimeError, match="launched no kernel"):
        host.recorder.call(lambda x: x.zero_(), [X])


def test_what_cannot_be_passed_is_refused(host: Host):
    def launch(kind: str, x: Any) -> None:
        host.launch((kind, 1))

    for kind in ("fp8", "nvTmaDesc"):
        with pytest.raises(ValueError, match=f"type {kind} cannot be passed"):
            host.steps(partial(launch, kind))
    with pytest.raises(ValueError, match=r"device=x\.device"):
        host.steps(lambda x: host.launch(("ptr", torch.empty(4))))


def test_a_call_does_a_bounded_number_of_things(host: Host):
    def launch_too_often(x: Any) -> None:
        for _ in range(1001):
            host.launch()

    with pytest.raises(RuntimeError, match="more than 1000 things"):
        host.steps(launch_too_often)


@pytest.mark.parametrize(
    ("use", "fill"),
    [
        (lambda x: x.zero_(), ("x", 0, 8192, 0, 4)),
        (lambda x: x[1:3].fill_(1.0), ("x", 128, 256, 0x3F800000, 4)),
        (lambda x: x.t().fill_(-0.0), ("x", 0, 8192, 0x80000000, 4)),
        (lambda x: x.view(-1)[5], None),
        (lambda x: x[:0].zero_(), None),
        (lambda x: torch.ones(3, dtype=torch.bfloat16, device="cuda"), ("scratch0", 0, 6, 0x3F80, 2)),
        (lambda x: torch.full((3,), -1, dtype=torch.int64, device="cuda"), ("scratch0", 0, 24, 0xFFFFFFFF, 4)),
        (lambda x: torch.zeros(3, dtype=torch.float64, device="cuda"), ("scratch0", 0, 24, 0, 4)),
        (lambda x: torch.ones(3, dtype=torch.bool, device="cuda"), ("scratch0", 0, 3, 1, 1)),
        (lambda x: x.new_empty((4, 4))[1:].fill_(float("-inf")), ("scratch0", 16, 48, 0xFF800000, 4)),
    ],
)
def test_a_fill_is_a_pattern_of_bytes(host: Host, use: Callable[[Any], Any], fill: tuple[Any, ...] | None):
    names = ("buffer", "offset", "bytes", "pattern", "width")
    assert host.steps(use) == ([{"fill": dict(zip(names, fill, strict=True))}] if fill else [])
    assert host.recorder.unrecordable is None


def test_a_copy_is_a_stretch_of_bytes(host: Host):
    steps = host.steps(lambda x: torch.empty_like(x)[:2].copy_(x[3:5]))
    copy = {"buffer": "scratch0", "offset": 0, "source": "x", "source_offset": 384, "bytes": 256}
    assert steps == [{"copy": copy}]
    assert len(host.steps(lambda x: torch.empty_like(x.t()).copy_(x.t()))) == 1
    assert len(host.steps(lambda x: x[:2].copy_(x[2:4]))) == 1
    assert host.steps(lambda x: x[:0].copy_(x[:0])) == []
    assert host.recorder.unrecordable is None


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (lambda x: x[:, 1:].zero_(), "not contiguous"),
        (lambda x: x[0].expand(4, 32).zero_(), "not contiguous"),
        (lambda x: torch.ones(3, dtype=torch.int64, device="cuda"), "more than a pattern of 4 bytes"),
        (lambda x: x.fill_(x[0, 0]), "a number that is on the device"),
        (lambda x: torch.empty_like(x, dtype=torch.float16).copy_(x), "copies torch.float32 to torch.float16"),
        (lambda x: x.new_empty((32, 64)).copy_(x.t()), "not laid out alike"),
        (lambda x: torch.empty_like(x).copy_(x[:1]), "not laid out alike"),
        (lambda x: torch.empty_like(x)[:, 1:].copy_(x[:, 1:]), "not laid out alike"),
        (lambda x: x[:2].copy_(x[1:3]), "onto itself"),
    ],
)
def test_what_is_no_fill_and_no_copy_is_noted_with_the_reason(host: Host, use: Callable[[Any], Any], reason: str):
    (*_, step) = host.steps(use)
    assert step.keys() == {"torch"}
    assert reason in str(host.recorder.unrecordable)


def test_the_document_has_all_shapes_or_a_reason(host: Host):
    shapes = [[{**X, "shape": [size, 32]}] for size in (1, 2, 3)]
    recorded = record(
        lambda x: host.launch(("ptr", x), ("i32", len(x))), shapes, measured=len(shapes), recorder=host.recorder
    )
    document = json.loads(recorded.document())
    assert document["unrecordable"] is None
    assert [plan["steps"][0]["launch"]["parameters"][1][1] for plan in document["shapes"]] == [1, 2, 3]
    assert recorded.cubins(3) == [host.cubin]

    def odd(x: Any) -> None:
        host.launch(("ptr", x))
        if len(x) == 2:
            x[:, 1:].zero_()

    recorded = record(odd, shapes, measured=len(shapes), recorder=host.recorder)
    assert json.loads(recorded.document()) == {"unrecordable": recorded.unrecordable, "shapes": []}
    assert len(recorded.plans) == 3


def test_all_shapes_are_called_again_in_reverse_order(host: Host):
    shapes = [[{**X, "shape": [size, 32]}] for size in (1, 2, 3)]
    seen: list[int] = []

    def run(x: Any) -> None:
        seen.append(len(x))
        host.launch(("fp32", math.nan))

    record(run, shapes, measured=len(shapes), recorder=host.recorder)
    assert seen == [1, 2, 3, 3, 2, 1]

    seen.clear()

    def change(x: Any) -> None:
        seen.append(0)
        host.launch(("i32", len(seen) > 4))

    with pytest.raises(RepetitionError, match="called again"):
        record(change, shapes, measured=len(shapes), recorder=host.recorder)
    assert host.recorder.index == 1


def test_scratch_takes_the_place_of_what_is_held_no_more(host: Host):
    def run(x: Any) -> None:
        first, held = torch.empty(64, device=x.device), torch.empty(8, device=x.device)
        view = first[8:]
        host.launch(("ptr", first), ("ptr", held))
        del first
        other = torch.empty(16, device=x.device)
        host.launch(("ptr", view), ("ptr", other))
        del view
        larger = torch.zeros(80, device=x.device)
        host.launch(("ptr", larger), ("ptr", held), ("ptr", other))

    plan = host.recorder.call(run, [X])
    places = [[value[0] for _, value in step["launch"]["parameters"]] for step in plan["steps"] if "launch" in step]
    assert places == [["scratch0", "scratch1"], ["scratch0", "scratch2"], ["scratch0", "scratch1", "scratch2"]]
    assert plan["scratch"] == {"scratch0": 320, "scratch1": 32, "scratch2": 64}
    assert plan["steps"][2]["fill"]["buffer"] == "scratch0"


def test_scratch_kept_from_an_earlier_call_is_scratch(host: Host):
    kept: list[Any] = []

    def run(x: Any) -> None:
        kept.append(torch.empty(8, device=x.device))
        host.launch(("ptr", kept[0]), ("ptr", x))

    (plan,) = record(run, [[X]], measured=1, recorder=host.recorder).plans
    assert plan["scratch"] == {"scratch0": 32}


def test_addresses_are_never_the_same_twice(host: Host):
    seen: list[int] = []
    for _ in range(100):
        host.steps(lambda x: seen.extend((x.data_ptr(), torch.empty(8, device=x.device).data_ptr())))
    assert len({address for address in seen[::2]}) == 100
