"""Plans as an honest recorder writes them, and as an enemy might."""

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.evaluate.artifact_mode.plan import (
    BufferFacts,
    Copy,
    Fill,
    LaunchPlans,
    PlanError,
    PlanLimits,
    RecordedLaunch,
    read_plans,
)

CUBIN = "ab" * 32
BUFFERS = {"x": BufferFacts(4096, writable=False), "y": BufferFacts(4096, writable=True)}
LIMITS = PlanLimits(shared_bytes=232448, scratch_bytes=1 << 20)
MAP = ["x", 0, 7, 3, [32, 32], [128], [32, 8], False]
LAUNCH = {
    "kernel": "k",
    "cubin": CUBIN,
    "grid": [4, 2, 1],
    "block": [128, 1, 1],
    "cluster": 2,
    "shared_bytes": 1024,
    "cooperative": False,
    "programmatic": True,
    "parameters": [
        ["ptr", ["x", 64]],
        ["ptr", ["launch0", 0]],
        ["ptr", None],
        ["map", MAP],
        ["i32", -5],
        ["u1", 1],
        ["fp32", 0.5],
        ["fp32", math.inf],
        ["fp16", 0.5],
        ["bf16", 0.1],
        ["fp64", 0.1],
        ["u64", 2**64 - 1],
    ],
}
FILL = {"buffer": "scratch0", "offset": 4, "bytes": 252, "pattern": 0xFFFFFFFF, "width": 4}
COPY = {"buffer": "y", "offset": 0, "source": "x", "source_offset": 96, "bytes": 4000}
SHAPE = {"scratch": {"scratch0": 256, "launch0": 512}, "steps": [{"fill": FILL}, {"copy": COPY}, {"launch": LAUNCH}]}


def read(*shapes: Any, **changes: Any) -> LaunchPlans:
    document = {"unrecordable": None, "shapes": list(shapes), **changes}
    return read_plans(json.dumps(document).encode(), buffers=[BUFFERS] * 2, cubins={CUBIN}, limits=LIMITS)


def read_shape(**changes: Any) -> LaunchPlans:
    return read(SHAPE, {**SHAPE, **changes})


def test_an_honest_plan_is_what_it_was():
    plans = read(SHAPE, {**SHAPE, "steps": [{"launch": LAUNCH}]})
    assert plans.unrecordable == ""
    first, second = plans.shapes
    assert [type(step) for step in first.steps] == [Fill, Copy, RecordedLaunch]
    assert first.as_message() == SHAPE
    assert second.launches[0].grid == (4, 2, 1)
    assert json.loads(json.dumps(second.as_message()))["steps"] == [{"launch": LAUNCH}]


def test_a_nan_is_a_number():
    steps = [{"launch": {**LAUNCH, "parameters": [["fp32", math.nan]]}}]
    assert math.isnan(read_shape(steps=steps).shapes[1].launches[0].parameters[0].value)


def test_what_cannot_be_recorded_has_a_reason_and_no_plans():
    plans = read(unrecordable="run() copies between tensors that are not laid out alike")
    assert plans == LaunchPlans("run() copies between tensors that are not laid out alike", ())
    reasons: list[Any] = ["", "x" * 201, "two\nlines", "\x1b[2J", 5, True, []]
    for reason in reasons:
        with pytest.raises(PlanError, match="the reason"):
            read(unrecordable=reason)
    with pytest.raises(PlanError, match="cannot be recorded"):
        read(SHAPE, SHAPE, unrecordable="but there they are")


@pytest.mark.parametrize(
    "document",
    [
        *[b"", b"null", b"[]", b"{}", b"\xff", b"[" * 200_000, b'{"unrecordable": null}', b"1" * 5000],
        b'{"unrecordable": null, "shapes": [], "more": 1}',
        b" " * (8 << 20) + b"{}",
    ],
)
def test_what_is_no_document(document: bytes):
    with pytest.raises(PlanError):
        read_plans(document, buffers=[], cubins=(), limits=LIMITS)


def test_there_is_one_plan_for_each_shape():
    for shapes in ([], [SHAPE], [SHAPE] * 3):
        with pytest.raises(PlanError, match="2 to 2 entries"):
            read(*shapes)


def test_an_error_says_of_which_shape_it_is():
    with pytest.raises(PlanError) as caught:
        read_shape(steps=[])
    assert caught.value.shape == 1
    assert str(caught.value) == "shape 1: the steps must be a list of 1 to 1000 entries"


@pytest.mark.parametrize(
    "scratch",
    [
        [],
        None,
        {"work": 256},
        {"scratch": 256},
        {"scratch00": 256},
        {"scratch٣": 256},
        {"x": 256},
        {"scratch0": 0},
        {"scratch0": -1},
        {"scratch0": True},
        {"scratch0": 1.0},
        {"scratch0": "256"},
        {"scratch0": (1 << 20) + 1},
        {"scratch0": 1 << 19, "launch0": (1 << 19) + 1},
        {f"scratch{number}": 256 for number in range(1001)},
    ],
)
def test_scratch_that_is_refused(scratch: Any):
    with pytest.raises(PlanError, match="scratch"):
        read_shape(scratch=scratch, steps=[{"launch": {**LAUNCH, "parameters": []}}])


def test_scratch_cannot_take_the_name_of_an_argument():
    document = json.dumps({"unrecordable": None, "shapes": [SHAPE]}).encode()
    with pytest.raises(PlanError, match="scratch"):
        read_plans(document, buffers=[{**BUFFERS, "scratch0": BUFFERS["x"]}], cubins={CUBIN}, limits=LIMITS)


NO_PARAMETERS: tuple[Any, ...] = (None, {}, [["i32", 1]] * 513, "ab")


@pytest.mark.parametrize(
    "step",
    [
        *["launch", [], {}, {"launch": LAUNCH, "fill": FILL}, {"torch": {}}, {"launch": None}, {"fill": []}],
        {"launch": {**LAUNCH, "more": 1}},
        {"launch": {name: value for name, value in LAUNCH.items() if name != "cluster"}},
        *[{"launch": {**LAUNCH, "kernel": name}} for name in ("", "a b", "a\0", "k" * 2000, "ä", 7, None, ["k"])],
        *[{"launch": {**LAUNCH, "cubin": name}} for name in ("", "cd" * 32, CUBIN.upper(), 7, None, [CUBIN])],
        *[{"launch": {**LAUNCH, "grid": grid}} for grid in ([1, 1], [0, 1, 1], [1, 65536, 1], [1, 1, 65536])],
        *[{"launch": {**LAUNCH, "grid": grid}} for grid in ([2**30, 1, 1], [1.0, 1, 1], [True, 1, 1], "111", None)],
        *[{"launch": {**LAUNCH, "block": block}} for block in ([2048, 1, 1], [1, 1, 65], [32, 33, 1], [0, 1, 1])],
        *[{"launch": {**LAUNCH, "cluster": cluster}} for cluster in (0, 17, -1, True, 1.0, None)],
        *[{"launch": {**LAUNCH, "shared_bytes": size}} for size in (-1, 232449, 1e3, False, None)],
        *[{"launch": {**LAUNCH, "cooperative": value}} for value in (0, 1, None, "true")],
        *[{"launch": {**LAUNCH, "programmatic": value}} for value in (0, 1, None, "true")],
        *[{"launch": {**LAUNCH, "parameters": value}} for value in NO_PARAMETERS],
    ],
)
def test_steps_that_are_refused(step: Any):
    with pytest.raises(PlanError):
        read_shape(steps=[step, {"launch": LAUNCH}])


def test_a_plan_launches_something():
    with pytest.raises(PlanError, match="launches nothing"):
        read_shape(steps=[{"fill": FILL}])


@pytest.mark.parametrize(
    "parameter",
    [
        *["i32", [], ["i32"], ["i32", 1, 2], [7, 1], [None, 1], [["i32"], 1], ["i33", 1], ["", 1], ["nvTmaDesc", 1]],
        *[["i32", value] for value in (2**31, -(2**31) - 1, 1.0, True, None, "1", [1], 10**400)],
        *[["u8", value] for value in (-1, 256)],
        *[["i8", value] for value in (-129, 128)],
        *[["u64", value] for value in (-1, 2**64)],
        *[["fp32", value] for value in (1, True, None, "1", 0.1, 1e300)],
        *[["fp16", value] for value in (1, 1e9)],
        *[["ptr", value] for value in (0, 4096, "x", [], ["x"], ["x", 0, 0], {"x": 0}, True)],
        *[["ptr", ["x", offset]] for offset in (-1, 4097, 0.0, True, None, "0")],
        *[["ptr", [name, 0]] for name in ("z", "", None, 0, ["x"], "scratch1")],
    ],
)
def test_parameters_that_are_refused(parameter: Any):
    with pytest.raises(PlanError):
        read_shape(steps=[{"launch": {**LAUNCH, "parameters": [parameter]}}])


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *[(0, "z"), (1, 4), (1, -1), (2, 16), (2, -1), (2, 8), (3, 7), (3, -1), (3, True), (7, 0), (7, None)],
        *[(4, shape) for shape in ([], [33, 32], [32, 33], [32, 0], [32], [32] * 6, [2**33, 1], [32, 2**32], None)],
        *[(5, strides) for strides in ([], [132], [128, 128], [-128], [2**41], [128.0], [True], None)],
        *[(6, box) for box in ([], [32], [0, 8], [257, 8], [32, 8, 1], [True, 8], None)],
    ],
)
def test_tensor_maps_that_are_refused(place: int, value: Any):
    changed = copy.copy(MAP)
    changed[place] = value
    with pytest.raises(PlanError):
        read_shape(steps=[{"launch": {**LAUNCH, "parameters": [["map", changed]]}}])


@pytest.mark.parametrize("content", [None, [], MAP[:-1], [*MAP, 0], dict(enumerate(MAP)), "map"])
def test_tensor_maps_of_another_form_are_refused(content: Any):
    with pytest.raises(PlanError):
        read_shape(steps=[{"launch": {**LAUNCH, "parameters": [["map", content]]}}])


@pytest.mark.parametrize(
    ("element_type", "shape", "strides", "fits"),
    [
        (7, [1024], [], True),
        (7, [1025], [], False),
        (0, [64, 64], [64], True),
        (6, [16, 8, 16], [256, 32], True),
        (6, [16, 8, 17], [256, 32], True),
        (6, [17, 8, 16], [32, 256], False),
        (13, [64, 128], [32], True),
        (14, [66, 128], [32], False),
    ],
)
def test_a_tensor_map_lies_within_its_buffer(element_type: int, shape: list[int], strides: list[int], fits: bool):
    content = ["x", 0, element_type, 0, shape, strides, [8] * len(shape), False]
    step = {"launch": {**LAUNCH, "parameters": [["map", content]]}}
    if fits:
        read_shape(steps=[step])
    else:
        with pytest.raises(PlanError, match="of buffer x"):
            read_shape(steps=[step])


@pytest.mark.parametrize(
    "changes",
    [
        *[{"buffer": name} for name in ("x", "z", None, 0)],
        *[{"offset": offset} for offset in (-4, 8, 1, 4.0, True)],
        *[{"bytes": size} for size in (0, -4, 256, 251, 4096, True, 2**80)],
        *[{"pattern": pattern} for pattern in (-1, 2**32, 0.5, True)],
        *[{"width": width} for width in (0, 3, 8, 4.0, True)],
        {"width": 1},
        {"width": 2, "pattern": 65536},
    ],
)
def test_fills_that_are_refused(changes: dict[str, Any]):
    with pytest.raises(PlanError):
        read_shape(steps=[{"fill": {**FILL, **changes}}, {"launch": LAUNCH}])


@pytest.mark.parametrize(
    "changes",
    [
        *[{"buffer": name} for name in ("x", "z", None)],
        *[{"source": name} for name in ("z", None, 0)],
        *[{"offset": offset} for offset in (97, -1, True)],
        *[{"source_offset": offset} for offset in (97, -1, True)],
        *[{"bytes": size} for size in (0, 4001, -1, 1.0)],
        {"source": "y"},
        {"source": "y", "source_offset": 0},
    ],
)
def test_copies_that_are_refused(changes: dict[str, Any]):
    with pytest.raises(PlanError):
        read_shape(steps=[{"copy": {**COPY, **changes}}, {"launch": LAUNCH}])


def test_parts_of_a_buffer_that_do_not_meet_can_be_copied():
    changes = {"source": "y", "source_offset": 2048, "bytes": 2048}
    assert read_shape(steps=[{"copy": {**COPY, **changes}}, {"launch": LAUNCH}])


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["x", "scratch0", "ptr", "map", "k", CUBIN]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(list(LAUNCH)), inner, max_size=3),
    max_leaves=8,
)


def _places(value: Any) -> list[Callable[[Any], None]]:
    """Return what sets each place of a document to something else."""
    found: list[Callable[[Any], None]] = []
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        found += [lambda new, key=key: value.__setitem__(key, new), *_places(inner)]  # type: ignore[misc]
    return found


@given(st.data())
def test_whatever_is_changed_is_refused_or_within_bounds(data: st.DataObject):
    document = copy.deepcopy({"unrecordable": None, "shapes": [SHAPE, SHAPE]})
    data.draw(st.sampled_from(_places(document)))(data.draw(_JSON))
    try:
        plans = read_plans(json.dumps(document).encode(), buffers=[BUFFERS] * 2, cubins={CUBIN}, limits=LIMITS)
    except PlanError:
        return
    if not plans.unrecordable:
        shapes = [plan.as_message() for plan in plans.shapes]
        assert json.dumps({"unrecordable": None, "shapes": shapes}, sort_keys=True) == json.dumps(
            document, sort_keys=True
        )


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_plans_or_a_plan_error(document: bytes):
    with pytest.raises(PlanError):
        read_plans(document, buffers=[BUFFERS], cubins={CUBIN}, limits=LIMITS)
