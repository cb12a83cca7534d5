"""Reading what a build answered: numbers, messages, and answers made up by a hostile candidate."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.languages.device_limits import WARP, DeviceLimits
from evokernel.languages.gpu.profile import read_answer
from evokernel.languages.gpu.triton_messages import digest_failure

FACTS = {"registers": 64, "local_bytes": 8, "static_shared_bytes": 0, "tensor_cores": 2, "tma": 1, "local_accesses": 3}
FACTS |= {"in_loop": 1, "instructions": 90, "tensor": 8, "fma": 0, "arithmetic": 3, "special": 0, "conversions": 0}
FACTS |= {"integer": 30, "loads": 2, "load_bits": 128, "stores": 0, "store_bits": 0, "shared": 6}
FACTS |= {"async_copies": 4, "barriers": 2}
LAUNCH = {"kernel": "k", "cubin": "c0", "grid": [4, 1, 1], "block": [256, 1, 1], "shared_bytes": 65536}
FILL = {"fill": {"buffer": "y", "offset": 0, "bytes": 4, "pattern": 0, "width": 4}}
H100 = DeviceLimits()
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


def plan(*steps: Any) -> dict[str, Any]:
    return {"scratch": {}, "steps": [step if step is FILL else {"launch": step} for step in steps]}


def answer(**changes: Any) -> dict[str, Any]:
    return {"plans": [plan(LAUNCH)], "unrecordable": None, "cubins": {"c0": FACTS}, "compile_ms": 12.0, **changes}


def test_the_worst_kernel_counts():
    other = {**LAUNCH, "cubin": "c1", "shared_bytes": 1024, "block": [32, 2, 2]}
    light = {**FACTS, "registers": 200, "local_bytes": 0, "tensor_cores": 0}
    found = read_answer(
        answer(plans=[plan(LAUNCH, FILL, other), plan(LAUNCH)], cubins={"c0": FACTS, "c1": light}), H100
    )
    assert found.descriptor["registers"] == 200
    assert found.descriptor["spills"] == 8
    assert found.descriptor["shared_kib"] == 64
    assert found.descriptor["tensor_cores"] == 2
    assert found.descriptor["kernels"] == 2
    assert found.descriptor["occupancy"] == 0.125
    assert found.metrics["hot_loop_async_copies"] == 4
    fitting = {name: value for name, value in found.metrics.items() if name.startswith("blocks_by")}
    assert fitting == {  # those of the launch with the fewest warps in flight
        "blocks_by_registers": 2,
        "blocks_by_shared_memory": 114,
        "blocks_by_warps": 16,
        "blocks_by_slots": 32,
    }


def test_the_hash_is_over_all_that_is_launched():
    one = read_answer(answer(), H100)
    assert one.hash == read_answer(answer(compile_ms=99.0), H100).hash
    for change in ({"grid": [5, 1, 1]}, {"block": [128, 1, 1]}, {"parameters": [["i32", 2]]}):
        assert read_answer(answer(plans=[plan({**LAUNCH, **change})]), H100).hash != one.hash
    assert read_answer(answer(plans=[plan(FILL, LAUNCH)]), H100).hash != one.hash


def test_static_shared_memory_counts():
    found = read_answer(answer(cubins={"c0": {**FACTS, "static_shared_bytes": 1024}}), H100)
    assert found.descriptor["shared_kib"] == 65


def test_warps_are_counted_whole():
    assert read_answer(answer(plans=[plan({**LAUNCH, "block": [33, 1, 3]})]), H100).metrics["num_warps"] == 4


@pytest.mark.parametrize(
    "hostile",
    [
        {},
        answer(plans=[]),
        answer(plans=[plan()]),
        answer(plans=[plan("x")]),
        answer(plans=["x"]),
        answer(plans=7),
        answer(plans=[plan({**LAUNCH, "block": [0, 1, 1]})]),
        answer(plans=[plan({**LAUNCH, "block": [1024, 2, 1]})]),
        answer(plans=[plan({**LAUNCH, "block": ["128"]})]),
        answer(plans=[plan({**LAUNCH, "shared_bytes": -1})]),
        answer(cubins={}),
        answer(cubins={"c0": {**FACTS, "registers": float("nan")}}),
        answer(cubins={"c0": {**FACTS, "registers": "many"}}),
        answer(cubins={"c0": {}}),
        answer(compile_ms=1e300),
    ],
)
def test_made_up_answers_are_value_errors(hostile: dict[str, Any]):
    with pytest.raises(ValueError, match=r"answer|launches"):
        read_answer(hostile, H100)


def test_an_answer_nested_too_deeply_is_a_value_error():
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(ValueError, match="RecursionError"):
        read_answer(answer(plans=[plan({**LAUNCH, "parameters": nested})]), H100)


@given(st.sampled_from(["plans", "cubins", "compile_ms"]), _JSON)
def test_any_json_is_an_answer_or_a_value_error(field: str, value: Any):
    try:
        found = read_answer(answer(**{field: value}), H100)
    except ValueError:
        return
    assert all(isinstance(number, float) for number in (*found.descriptor.values(), *found.metrics.values()))


@given(_JSON)
def test_any_json_is_a_failure_or_a_value_error(value: Any):
    try:
        message = digest_failure(
            {"stage": "run", "type": "T", "line": value, "message": value, "hidden": False}, "a\nb"
        )
        digest_failure(value, "a\nb")
    except ValueError:
        return
    assert message.count("\n") < 40


@pytest.mark.parametrize(
    ("num_warps", "registers", "shared_bytes", "expected"),
    [
        (4, 32, 0, 1.0),
        (8, 255, 0, 8 / 64),
        (4, 128, 0, 16 / 64),
        (4, 32, 232448, 4 / 64),
        (8, 64, 100 << 10, 16 / 64),
        (1, 16, 0, 32 / 64),
        (32, 128, 0, 0.0),
    ],
)
def test_occupancy_of_an_h100(num_warps: int, registers: int, shared_bytes: int, expected: float):
    found = H100.residency(num_warps=num_warps, registers=registers, shared_bytes=shared_bytes)
    assert found.blocks * num_warps * WARP / H100.multiprocessor_threads == expected


def test_a_failure_shows_its_line_without_paths():
    failure = {"stage": "run", "type": "ValueError", "line": 3, "message": "bad /usr/lib/python3/x.py", "hidden": False}
    text = digest_failure(failure, "one\ntwo\nthree\nfour\n")
    assert text.splitlines() == [
        "run() raises: ValueError",
        "      1 | one",
        "      2 | two",
        "->    3 | three",
        "bad x.py",
    ]


def test_resources_say_what_to_lower():
    failure = {"stage": "resources", "required": 393216, "limit": 232448, "resource": "shared memory", "hidden": False}
    text = digest_failure(failure, "STAGES = 5  # tune: 3 5\n")
    assert "393216 bytes" in text
    assert "232448" in text
    assert "num_stages" in text
    assert "STAGES" in text
    assert "num_warps" in digest_failure({**failure, "resource": "threads"}, "")
    assert "393216" not in digest_failure({**failure, "hidden": True}, "")
