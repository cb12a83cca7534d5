"""Plain kernels for many small operations, compiled together and compared with torch."""

import ctypes
import math
import platform
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.languages.toolchain import run_plain
from evokernel.scaffold.loops.cpp_writer import CppWriter
from evokernel.scaffold.loops.narrow_numbers import conversions_text
from evokernel.scaffold.loops.operation_graph import OperationGraph, in_order
from evokernel.scaffold.loops.part_functions import in_functions
from evokernel.scaffold.loops.trace import to_graph, trace
from evokernel.scaffold.loops.vector_functions import with_vector_functions
from evokernel.scaffold.operation.sizes import FIRST, SECOND, NotGeneral, SymbolicSizes, in_python
from evokernel.scaffold.project import ProjectSettings, init_project
from evokernel.source.expressions import evaluate
from tests.support.plain_operations import CASES, Shapes

SIZES = (
    {"B": 2, "H": 3, "S": 5, "D": 8, "M": 4, "N": 7, "K": 6},
    {"B": 3, "H": 1, "S": 4, "D": 2, "M": 9, "N": 3, "K": 5},
)


def shapes_at(shapes: Shapes, dims: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(dims[e] if isinstance(e, str) else e for e in shape) for name, shape in shapes.items()}


def dimensions(shapes: Shapes) -> tuple[str, ...]:
    return tuple(dict.fromkeys(e for shape in shapes.values() for e in shape if isinstance(e, str)))


def generate(name: str) -> str:
    return generate_of(name, *CASES[name])[0]


def generate_of(name: str, function: Callable[..., Any], shapes: Shapes) -> tuple[str, str]:
    """Return a kernel as one function, and as one made of several; traced once for both."""
    sizes = SymbolicSizes(dimensions(shapes))
    first, second = shapes_at(shapes, sizes.first), shapes_at(shapes, sizes.second)
    graphs = trace(lambda given: function(**given), {key: (first[key], second[key]) for key in shapes}, sizes)
    traced = to_graph(*graphs, sizes)
    outputs = {f"out{place}": node for place, node in enumerate(traced.outputs)}
    body = CppWriter(outputs, sizes, arguments=list(shapes), taken=[*sizes.names, *outputs]).body()
    parameters = [f"const float* {key}" for key in shapes]
    parameters += [f"int64_t {key}" for key in sizes.names] + [f"float* {key}" for key in outputs]
    functions, rest = in_functions(body, dict(each.rsplit(" ", 1)[::-1] for each in parameters))
    several = [f"namespace own_{name} {{", *functions, _function(f"{name}_in_parts", parameters, rest), "}", ""]
    return _function(name, parameters, body), "\n".join(several)


def _function(name: str, parameters: Sequence[str], body: Sequence[str]) -> str:
    return "\n".join([f'extern "C" void {name}({", ".join(parameters)}) {{', *body, "}", ""])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("loops")
    source = "#include <algorithm>\n#include <cmath>\n#include <cstdint>\n#include <vector>\n"
    source += "".join(text for name in CASES for text in generate_of(name, *CASES[name]))
    (folder / "all.cpp").write_text(source, encoding="utf-8")
    argv = ["g++", "-std=c++20", "-O0", "-Wall", "-Werror", "-shared", "-fPIC", "all.cpp", "-o", "all.so"]
    done = run_plain(argv, workdir=folder, timeout_s=600, memory_bytes=4 << 30)
    assert done.ok, done.stderr
    return ctypes.CDLL(str(Path(folder) / "all.so"))


@pytest.mark.parametrize("name", list(CASES))
def test_loops_compute_what_torch_computes(library: ctypes.CDLL, name: str) -> None:
    function, shapes = CASES[name]
    for dims in ({**SIZES[0], "H": 3}, SIZES[1]):
        torch.manual_seed(0)
        inputs = {key: torch.randn(shape) for key, shape in shapes_at(shapes, dims).items()}
        result = function(**inputs)
        expected = result if isinstance(result, tuple) else (result,)
        pointers = [ctypes.c_void_p(item.data_ptr()) for item in inputs.values()]
        values = [ctypes.c_int64(dims[key]) for key in dimensions(shapes)]
        for called in (name, f"{name}_in_parts"):
            outputs = [torch.full(item.shape, float("nan")) for item in expected]
            getattr(library, called)(*pointers, *values, *(ctypes.c_void_p(item.data_ptr()) for item in outputs))
            for ours, theirs in zip(outputs, expected, strict=True):
                torch.testing.assert_close(ours, theirs.contiguous(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("op", "step"), [("sum", "lanes[lane] +="), ("amax", "lanes[lane] = std::max<float>(lanes")])
def test_a_reduction_through_memory_has_several_totals_where_its_length_allows(op: str, step: str) -> None:
    sizes = SymbolicSizes(("N", "K"))
    graph = OperationGraph()
    for shape, several in (((FIRST[0], FIRST[1]), True), ((FIRST[0], 8), False)):
        rows = graph.node("input", (), attrs=("input 0",), shape=shape, kind="float")
        nodes = {"out": graph.reduce(op, graph.pointwise("mul", rows, rows), (1,))}
        source = "\n".join(CppWriter(nodes, sizes, arguments=["x"], taken=["N", "K", "out"]).body())
        assert (step in source) is several


def test_steps_that_are_alike_are_loops_inside_each_other() -> None:
    source = generate("steps")
    assert source.count("std::min<float>(std::min<float>(") < 10  # of 49 cells
    assert re.search(r"for \(int64_t step2 = .*\n(?: {8}.*\n)*? {8}for \(int64_t step = ", source)


def test_a_value_that_is_used_several_times_is_computed_once() -> None:
    source = generate("chain")
    assert source.count("std::tanh(") == 4  # one in the loop over the steps that are alike
    assert source.count("lanes[lane] +=") == 4


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("einsum", "out0[i * M * N + j * N + k] += x[i * M * K + j * K + l] * t[i * K * N + l * N + k];"),
        ("columns", "out0[i] += x[j * N + i];"),
    ],
)
def test_the_innermost_loop_goes_from_one_element_to_the_next(name: str, line: str) -> None:
    lines = [each.strip() for each in generate(name).splitlines()]
    assert lines[lines.index(line) - 1] == "for (int64_t {0} = 0; {0} < N; ++{0}) {{".format(line[-3])


def test_rows_are_put_in_order_and_not_ranked() -> None:
    source = generate("sorted")
    assert (source.count("std::stable_sort("), source.count("std::partial_sort(")) == (2, 1)


def test_a_network_may_be_deeper_than_python_calls() -> None:
    graph = OperationGraph()
    made = graph.node("input", (), attrs=("input 0",), shape=(4,), kind="float")
    for _ in range(sys.getrecursionlimit()):
        made = graph.pointwise("add", graph.pointwise("tanh", made), made)
    order = in_order((made, made))
    places = {node: place for place, node in enumerate(order)}
    assert len(order) == 1 + 2 * sys.getrecursionlimit()
    assert all(places[arg] < places[node] for node in order for arg in node.args)


def test_a_product_may_have_more_elements_than_64_bits_count() -> None:
    graph = OperationGraph()
    rows = graph.node("input", (), attrs=("input 0",), shape=(2**22, 2**22, 1), kind="float")
    columns = graph.node("input", (), attrs=("input 1",), shape=(2**22,), kind="float")
    assert graph.pointwise("mul", rows, columns).shape == (2**22,) * 3


def test_an_operation_without_a_loop_is_named() -> None:
    sizes = SymbolicSizes(("N",))
    graphs = trace(lambda given: torch.special.i0e(given["x"]), {"x": ((1009,), (1112,))}, sizes)
    with pytest.raises(NotGeneral, match=r"(?:aten|prims).*i0e has no naive loop yet"):
        to_graph(*graphs, sizes)


def test_many_constants_are_refused() -> None:
    sizes, many = SymbolicSizes(("N",)), torch.rand(100)
    with pytest.raises(NotGeneral, match="a tensor of 100 constants has no naive loop yet"):
        to_graph(*trace(lambda given: given["x"] * many, {"x": ((1009, 100), (1112, 100))}, sizes), sizes)


def test_constants_that_follow_from_sizes_in_no_known_way_are_refused() -> None:
    sizes = SymbolicSizes(("N",))
    graphs = trace(lambda given: given["x"] * torch.tensor(math.sin(len(given["x"]))), {"x": ((1009,), (1112,))}, sizes)
    with pytest.raises(NotGeneral, match="in a way that is not known here"):
        to_graph(*graphs, sizes)


def test_a_reference_that_changes_with_the_size_is_refused() -> None:
    def odd(given: dict[str, Any]) -> Any:
        return given["x"] + 1 if given["x"].shape[0] == 1009 else given["x"].exp() * 2

    with pytest.raises(NotGeneral, match="differently at different sizes"):
        trace(odd, {"x": ((1009,), (1112,))}, SymbolicSizes(("N",)))


def test_a_rule_that_is_known_not_to_hold_is_not_learned_again() -> None:
    first, second = FIRST[0] - 1, SECOND[0] - 1
    sizes = SymbolicSizes(("N",))
    sizes.learn(first, second)
    again = SymbolicSizes(("N",), wrong={(first, sizes.quotients[first])})
    with pytest.raises(NotGeneral, match="no simple rule"):
        again.learn(first, second)


@settings(max_examples=60, deadline=None)
@given(length=st.integers(1, 7), step=st.integers(1, 4), padding=st.integers(0, 3), width=st.integers(24, 200))
def test_the_size_behind_a_window_in_steps_is_that_of_its_rule(
    length: int, step: int, padding: int, width: int
) -> None:
    def after(size: int) -> int:
        return (size + 2 * padding - length) // step + 1

    sizes = SymbolicSizes(("M", "N"))
    first, second = after(sizes.first["N"]), after(sizes.second["N"])
    sizes.learn(first, second)
    sizes.learn(first * sizes.first["M"], second * sizes.second["M"])
    assert sizes.at(first, sizes.first) == first
    assert sizes.at(first, sizes.second) == second
    if step <= 2:  # an odd width and an even one tell the remainders apart
        assert sizes.at(first, {"M": 3, "N": width}) == after(width)
        assert sizes.at(first * sizes.first["M"], {"M": 3, "N": width}) == 3 * after(width)
        text = in_python(sizes.text(first * sizes.first["M"]))
        assert evaluate(text, {"M": 3, "N": width}) == 3 * after(width)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "bfloat16"])
def test_few_bits_are_rounded_as_torch_rounds(name: str, tmp_path: Path) -> None:
    bits = 8 if "float8" in name else 16
    loop = f"for (int64_t i = 0; i < count; ++i) back[i] = from_{name}(made[i] = to_{name}(x[i]));"
    entry = f'extern "C" void run(const float* x, int64_t count, uint{bits}_t* made, float* back) {{ {loop} }}'
    headers = "".join(f"#include <{each}>\n" for each in ("algorithm", "bit", "cmath", "cstdint"))
    text = headers + conversions_text(loop) + entry
    (tmp_path / "eight.cpp").write_text(text, encoding="utf-8")
    argv = ["g++", "-std=c++20", "-O0", "-Wall", "-Werror", "-shared", "-fPIC", "eight.cpp", "-o", "eight.so"]
    done = run_plain(argv, workdir=tmp_path, timeout_s=600, memory_bytes=4 << 30)
    assert done.ok, done.stderr
    halves = torch.arange(1 << 16, dtype=torch.int32) << 16  # all numbers of bfloat16, and those beside them
    x = torch.cat([halves - 1, halves, halves + 1]).view(torch.float32)
    whole = torch.uint8 if bits == 8 else torch.int16
    made, back = torch.zeros(len(x), dtype=whole), torch.zeros(len(x))
    pointers = [ctypes.c_void_p(each.data_ptr()) for each in (x, made, back)]
    ctypes.CDLL(str(tmp_path / "eight.so")).run(pointers[0], ctypes.c_int64(len(x)), *pointers[1:])
    due = x.to(getattr(torch, name))
    off = (made != due.view(whole)) & ~(due.isnan() if bits == 16 else torch.zeros(len(x), dtype=torch.bool))
    assert not off.any(), (x[off], made[off], due.view(whole)[off])
    torch.testing.assert_close(back, due.float(), rtol=0, atol=0, equal_nan=True)


def test_sixteen_bits_are_widened_where_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text("import torch\ndef own(x, y): return (x * y).softmax(-1)\n", encoding="utf-8")
    settings = ProjectSettings(devices=("cpu",), cpu_dtype="bfloat16")
    project = init_project(path, inputs="x: bf16[6x40], y: bf16[40]", out=tmp_path, settings=settings)
    assert (project.seeds[0].why, project.unfit) == ("", "")


def test_parts_that_differ_in_buffers_alone_are_one_function() -> None:
    body = [
        "    std::vector<float> t(N);",
        "    for (int64_t i = 0; i < N; ++i) {",
        "        t[i] = x[i] * y[0];",
        "    }",
        "    std::vector<float> t2(N);",
        "    for (int64_t i = 0; i < N; ++i) {",
        "        t2[i] = t[i] * x[0];",
        "    }",
        "    std::copy(t2.begin(), t2.end(), out);",
    ]
    types = {"x": "const float*", "y": "const float*", "N": "int64_t", "out": "float*"}
    functions, lines = in_functions(body, types)
    assert lines == [
        "    std::vector<float> t(N);",
        "    part_1(t.data(), x, y, N);",
        "    std::vector<float> t2(N);",
        "    part_1(t2.data(), t.data(), x, N);",
        "    std::copy(t2.begin(), t2.end(), out);",
    ]
    (function,) = functions
    assert (
        "part_1(float* __restrict b1, const float* __restrict b2, const float* __restrict b3, int64_t N) {" in function
    )


def test_a_mean_is_over_the_extents_that_are_summed() -> None:
    """Where sizes halve evenly the product of a half and an eighth is that of two quarters, and at others it is not."""

    def mean(x: torch.Tensor) -> torch.Tensor:
        quarter = x[:, ::2, ::2][:, ::2, ::2]
        return quarter.mean((1, 2)) + quarter[:, ::2, ::2].amax((1, 2))

    source, _ = generate_of("mean", mean, {"x": ("B", "M", "N")})
    (count,) = re.findall(r"static_cast<float>\((.*)\) \+", source)
    assert evaluate(in_python(count), {"M": 56, "N": 28}) == 14 * 7


def test_masks_of_windows_are_no_buffers() -> None:
    """Equal convolutions share them, and they have an element for each product."""
    source = generate("two_convolutions")
    assert "std::vector<char>" not in source
    assert source.count(">= 0 &&") == 2


def test_functions_are_called_in_their_vector_forms_where_the_library_has_them() -> None:
    declared, body = with_vector_functions("y[i] = std::exp(x[i]) + std::pow(x[i], 2.0f);", "float")
    if platform.libc_ver()[0] == "glibc" and platform.machine() == "x86_64":
        assert declared == 'extern "C" __attribute__((simd("notinbranch"), const)) float expf(float) noexcept;\n'
        assert body == "y[i] = expf(x[i]) + std::pow(x[i], 2.0f);"
        assert with_vector_functions("std::exp(x)", "double")[1] == "exp(x)"
    else:
        assert not declared
