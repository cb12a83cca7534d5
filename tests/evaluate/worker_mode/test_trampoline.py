import ctypes
import subprocess

import pytest

from evokernel.errors import HarnessError
from evokernel.evaluate.memory.arena import HostArena
from evokernel.evaluate.worker_mode.trampoline import build_trampoline, trampoline_source
from evokernel.task import Role, Scalar, Signature, Tensor
from tests.evaluate.kernels import poison, unwritten

SIGNATURE = Signature(
    (Tensor("a", ("N",)), Tensor("s", ("N",), "float64", role=Role.INOUT)),
    (Scalar("N"), Scalar("f", "float32"), Scalar("d", "float64")),
    (Tensor("c", ("N",), "float64", role=Role.OUTPUT),),
)
KERNEL = r"""
#include <cfenv>
#include <cstdint>
extern "C" void run(const float* a, double* s, int64_t n, float f, double d, double* c) {
    for (int64_t i = 0; i < n; i++) c[i] = a[i] * f + d + s[i];
    s[0] = std::fegetround();
    std::fesetround(FE_UPWARD);
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("trampoline")


@pytest.fixture(scope="module")
def kernel(folder):
    path = folder / "kernel.so"
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-x", "c++", "-", "-o", path], input=KERNEL.encode(), check=True)
    return ctypes.CDLL(str(path)).run


def call(trampoline, kernel, arena, *, first_set, calls, scalars):
    library = ctypes.CDLL(str(trampoline.path))
    bases = [0] + [s.memory.data_ptr() for s in (arena.inputs, arena.outputs)]
    strides = [0, *arena.layout()["strides"]]
    words = [
        bases[base] + index * strides[base] + value
        for index in range(arena.sets)
        for base, value in trampoline.arguments(arena, scalars)
    ]
    array = (ctypes.c_uint64 * len(words))(*[word % 2**64 for word in words])
    library.evk_calls(kernel, array, *(ctypes.c_long(n) for n in (arena.sets, first_set, calls)))


def test_each_call_gets_its_own_set_and_the_right_types(folder, kernel):
    trampoline = build_trampoline(SIGNATURE, folder)
    with HostArena.for_signature(SIGNATURE, {"N": 4}, sets=3) as arena:
        for index in range(3):
            arena.view(index, "a")[...] = index + 1
            arena.view(index, "s")[...] = 100
            poison(arena, index)
        call(trampoline, kernel, arena, first_set=2, calls=2, scalars={"N": 4, "f": 0.5, "d": -1e300 + 1e300 - 7})
        assert unwritten(arena, 1, "c") == 4
        assert arena.view(2, "c").tolist() == [94.5] * 4
        assert arena.view(0, "c").tolist() == [93.5] * 4
        assert arena.broken_guards() == ()


def test_the_floating_point_environment_is_fresh_in_each_call(folder, kernel):
    trampoline = build_trampoline(SIGNATURE, folder)
    with HostArena.for_signature(SIGNATURE, {"N": 1}, sets=1) as arena:
        arena.view(0, "s")[...] = -1
        call(trampoline, kernel, arena, first_set=0, calls=3, scalars={"N": 1, "f": 1, "d": 1})
        assert arena.view(0, "s")[0] == 0  # FE_TONEAREST, though each call leaves FE_UPWARD


def test_it_is_compiled_once_per_signature(folder):
    first = build_trampoline(SIGNATURE, folder)
    stamp = first.path.stat().st_mtime_ns
    assert build_trampoline(SIGNATURE, folder).path.stat().st_mtime_ns == stamp
    other = Signature(SIGNATURE.inputs, (Scalar("N"),), SIGNATURE.outputs)
    assert build_trampoline(other, folder).path != first.path
    assert {path.suffix for path in folder.iterdir()} == {".so"}


def test_the_text_names_no_argument():
    assert "double" in trampoline_source(SIGNATURE)
    hostile = Signature((Tensor('");evil("', (1,)),), (), SIGNATURE.outputs)
    assert "evil" not in trampoline_source(hostile)


def test_a_missing_scalar_is_named(folder):
    trampoline = build_trampoline(SIGNATURE, folder)
    with (
        HostArena.for_signature(SIGNATURE, {"N": 1}, sets=1) as arena,
        pytest.raises(HarnessError, match="'f'"),
    ):
        trampoline.arguments(arena, {"N": 1, "d": 1.0})
