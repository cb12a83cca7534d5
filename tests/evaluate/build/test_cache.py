"""Compiled kernels found again: by the real compiler, after damage, beside other processes, and not too many."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.evaluate.build.cache import BuildCache, CachingCompilePool, default_folder, key_of
from evokernel.evaluate.inside.process import bundle
from evokernel.languages.gpu.cuda import CudaLanguage
from evokernel.languages.gpu.language import GpuPythonLanguage
from evokernel.languages.gpu.triton import TritonLanguage
from evokernel.languages.toolchain import CompileAnswer, PythonCompiler
from evokernel.records.build import Built
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from tests.support.nvrtc import needs_nvrtc
from tests.support.warm_compiler import WarmForge

KEY = "0" * 64
FILES = {"cache/A/one.cubin": b"code", "cache/A/one.json": b"{}"}
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")

TASK = Task(
    name="twice",
    reference=lambda x, **_: 2 * x,
    signature=Signature(
        inputs=(Tensor("x", ("N",)),), scalars=(Scalar("N"),), outputs=(Tensor("y", ("N",), role=Role.OUTPUT),)
    ),
    workloads={"cuda": WorkloadSet((Workload("64k", {"N": 65536}),), (Workload("9", {"N": 9}),), {"N": (1, 9)})},
    flops="N",
)
SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def twice(x, y, N: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < N), mask=i < N)


def run(x, N, y):
    twice[(triton.cdiv(N, 256),)](x, y, N, 256)
"""


class Watched:
    """A forge that remembers what it was asked, and may change the answer."""

    def __init__(self, forge: PythonCompiler) -> None:
        self._forge = forge
        self.known: list[Mapping[str, str]] = []

    def __call__(self, program: str, request: Mapping[str, Any], *, timeout_s: float) -> CompileAnswer:
        self.known.append(request["known"])
        return self._forge(program, request, timeout_s=timeout_s)


def cubins(artifact: bytes) -> dict[str, bytes]:
    return {name: data for name, data in bundle.unpack(artifact).items() if name.endswith(".cubin")}


def marked(cubin: bytes) -> bytes:
    """Return a cubin that can be told from what a compiler makes: it has an entry address."""
    return cubin[:24] + b"\1" + cubin[25:]


def build(language: GpuPythonLanguage, *hidden: int, source: str = SOURCE) -> Built:
    built = language.build(source, TASK, hidden=[{"N": size} for size in hidden])
    assert isinstance(built, Built), built
    return built


# ---------------------------------------------------------------------------------------------------- with Triton


@needs_triton
def test_a_source_built_for_another_shape_compiles_only_what_is_new(tmp_path: Path):
    cache = BuildCache(tmp_path)
    watched = Watched(WarmForge())
    language = TritonLanguage(forge=CachingCompilePool(watched, cache))
    first = build(language, 9)
    (entry,) = os.listdir(tmp_path)
    # What is not compiled again cannot be told from what is: so each of the first build's kernels gets a mark.
    kernels = {name: marked(data) if name.endswith(".cubin") else data for name, data in cache.get(entry).items()}
    cache.put(entry, kernels)
    second = build(language, 77)
    old, new = cubins(first.artifact), cubins(second.artifact)
    assert [len(known) for known in watched.known] == [0, 4]
    assert len(old) == len(new) == 2
    (common,) = old.keys() & new.keys()  # that of the measured shape; the one for 9 was found and not used
    assert new[common] == marked(old[common]) != old[common]
    (fresh,) = new.keys() - old.keys()
    assert new[fresh] != marked(new[fresh])
    assert len(cache.get(entry)) == 6


@needs_triton
def test_what_is_found_again_is_the_same(tmp_path: Path):
    forge = CachingCompilePool(WarmForge(), BuildCache(tmp_path))
    first = build(TritonLanguage(forge=forge), 9)
    again = build(TritonLanguage(forge=forge), 9)
    other = build(TritonLanguage(forge=forge), 77)
    assert again.artifact == first.artifact
    assert again.hash == other.hash == first.hash
    assert again.descriptor == other.descriptor == first.descriptor
    assert {k: v for k, v in again.metrics.items() if k != "compile_ms"} == {
        k: v for k, v in first.metrics.items() if k != "compile_ms"
    }


@needs_triton
def test_forged_kernels_reach_no_other_source(tmp_path: Path):
    watched = Watched(WarmForge())
    language = TritonLanguage(forge=CachingCompilePool(watched, BuildCache(tmp_path)))
    build(language)
    build(language, source=SOURCE + "# another text, the same program\n")
    assert [len(known) for known in watched.known] == [0, 0]


CUDA = """\
from evokernel.cuda import Module


def run(x, N, y):
    text = 'extern "C" __global__ void twice(const float* x, float* y) { int i = blockIdx.x; y[i] = 2 * x[i]; }'
    Module(f"// for {N}\\n{text}").twice[N, 1](x, y)
"""


@needs_nvrtc
def test_cuda_sources_are_found_again_too(tmp_path: Path):
    cache = BuildCache(tmp_path)
    language = CudaLanguage(forge=CachingCompilePool(WarmForge(), cache))
    first = build(language, 9, source=CUDA)
    (entry,) = os.listdir(tmp_path)
    cache.put(entry, {name: marked(data) for name, data in cache.get(entry).items()})
    second = build(language, 77, source=CUDA)
    old, new = cubins(first.artifact), cubins(second.artifact)
    (common,) = old.keys() & new.keys()
    assert new[common] == marked(old[common]) != old[common]


# ---------------------------------------------------------------------------------------------------- without


class Scripted:
    """A forge that answers with these files in turn, and remembers what was known."""

    def __init__(self, *files: Mapping[str, bytes], answer: Any = None) -> None:
        self._files = list(files)
        self._answer = answer if answer is not None else {"plans": []}
        self.known: list[Any] = []

    def __call__(self, program: str, request: Mapping[str, Any], *, timeout_s: float) -> CompileAnswer:
        self.known.append(request.get("known"))
        return CompileAnswer(self._answer, bundle.pack(self._files.pop(0)))


REQUEST = {"source": "s", "environment": "e", "capability": 90, "properties": {"a": 1}, "shapes": [1], "measured": 1}


def test_only_compiled_kernels_are_kept_and_handed_over(tmp_path: Path):
    scripted = Scripted({**FILES, "kernel.py": b"s", "plans.json": b"{}"}, {})
    forge = CachingCompilePool(scripted, BuildCache(tmp_path))
    for shapes in ([1], [2]):
        forge("build", {**REQUEST, "shapes": shapes}, timeout_s=1.0)
    assert scripted.known == [{}, {"cache/A/one.cubin": "Y29kZQ==", "cache/A/one.json": "e30="}]


def test_a_question_without_a_source_is_passed_on(tmp_path: Path):
    scripted = Scripted({})
    CachingCompilePool(scripted, BuildCache(tmp_path))("build", {"tools_for": 90}, timeout_s=1.0)
    assert scripted.known == [None]


@pytest.mark.parametrize(
    "change", [{"source": "t"}, {"environment": "f"}, {"capability": 100}, {"properties": {"a": 2}}]
)
def test_everything_but_the_shapes_is_in_the_key(change: dict[str, Any]):
    assert key_of("build", {**REQUEST, **change}) != key_of("build", REQUEST)
    assert key_of("other", REQUEST) != key_of("build", REQUEST)
    assert key_of("build", {**REQUEST, "shapes": [2, 3], "measured": 2}) == key_of("build", REQUEST)


def test_an_entry_that_would_grow_too_large_begins_anew(tmp_path: Path):
    def kernel(name: str) -> dict[str, bytes]:
        return {f"cache/{name}/k.cubin": bytes(9 << 20)}

    scripted = Scripted(kernel("A"), kernel("B"), {})
    forge = CachingCompilePool(scripted, BuildCache(tmp_path))
    for _ in range(3):
        forge("build", REQUEST, timeout_s=1.0)
    assert [list(known) for known in scripted.known] == [[], ["cache/A/k.cubin"], ["cache/B/k.cubin"]]


def test_of_a_failed_build_nothing_is_kept(tmp_path: Path):
    forge = CachingCompilePool(lambda *_, **__: CompileAnswer(None, b"", "crashed"), BuildCache(tmp_path))
    forge("build", REQUEST, timeout_s=1.0)
    forge = CachingCompilePool(lambda *_, **__: CompileAnswer({"plans": []}, b"no bundle"), BuildCache(tmp_path))
    forge("build", REQUEST, timeout_s=1.0)
    assert os.listdir(tmp_path) == []


@given(place=st.integers(0, 10**6), bit=st.integers(0, 7), cut=st.integers(0, 40))
def test_a_damaged_entry_is_not_there(tmp_path_factory: pytest.TempPathFactory, place: int, bit: int, cut: int):
    folder = tmp_path_factory.mktemp("builds")
    cache = BuildCache(folder)
    cache.put(KEY, FILES)
    data = bytearray((folder / KEY).read_bytes())
    data[place % len(data)] ^= 1 << bit
    (folder / KEY).write_bytes(data[: len(data) - cut])
    assert cache.get(KEY) == {}
    cache.put(KEY, FILES)
    assert cache.get(KEY) == FILES


def test_the_entries_not_used_for_longest_are_dropped(tmp_path: Path):
    cache = BuildCache(tmp_path, limit_bytes=4500)
    for number in range(4):
        cache.put(f"{number}", {"cache/k.cubin": bytes(1000)})
        os.utime(tmp_path / f"{number}", (number, number))
    assert cache.get("0")  # used just now
    BuildCache(tmp_path, limit_bytes=4500).put("4", {"cache/k.cubin": bytes(1000)})
    assert sorted(os.listdir(tmp_path)) == ["0", "3", "4"]


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path):
    (tmp_path / "file").write_text("")
    cache = BuildCache(tmp_path / "file" / "builds")
    cache.put(KEY, FILES)
    assert cache.get(KEY) == {}


def test_the_folder_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    BuildCache(default_folder()).put(KEY, FILES)
    assert default_folder() == tmp_path / "evokernel" / "builds"
    assert default_folder().stat().st_mode & 0o777 == 0o700
    assert (default_folder() / KEY).stat().st_mode & 0o077 == 0


WRITER = """
import sys
from pathlib import Path
from evokernel.evaluate.build.cache import BuildCache
cache = BuildCache(Path(sys.argv[1]), limit_bytes=200_000)
for turn in range(300):
    key = f"{turn % 7}"
    cache.put(key, {"cache/k.cubin": sys.argv[2].encode() * 20_000})
    found = cache.get(key)
    assert not found or set(found["cache/k.cubin"]) in ({97}, {98}), key
    assert not found or len(found["cache/k.cubin"]) == 20_000
"""


def test_processes_may_write_the_same_entries_at_the_same_time(tmp_path: Path):
    argv = [sys.executable, "-c", WRITER, str(tmp_path)]
    running = [subprocess.Popen([*argv, letter]) for letter in "ab"]
    assert [process.wait(600) for process in running] == [0, 0]
    assert all(not name.startswith("tmp") for name in os.listdir(tmp_path))
