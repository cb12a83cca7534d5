"""The layer above cuBLASLt, against a library of the same interface that computes on a processor."""

import ctypes
import subprocess
from ctypes import sizeof
from pathlib import Path

import pytest
import torch

from evokernel.errors import HarnessError
from evokernel.tasks.cublaslt import Algorithm, Heuristic, Library, Product, Sizes, library

SOURCE = Path(__file__).parents[1] / "support" / "cublaslt_stand_in.c"
STREAM = 5
"""What the stand-in takes for the right stream."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cublaslt") / "libstandin.so"
    command = ["cc", "-O1", "-Wall", "-Werror", "-fPIC", "-shared", "-o", str(made), str(SOURCE)]
    subprocess.run(command, check=True, timeout=300)
    return made


@pytest.fixture(scope="module")
def stand_in(path: Path) -> Library:
    return Library(str(path))


def sizes(m: int, n: int, k: int, *, bias: bool = False, dtype: torch.dtype = torch.float32) -> Sizes:
    return Sizes(m, n, k, dtype, bias, allow_tf32=False)


def matrix(*shape: int) -> torch.Tensor:
    """Numbers at an address that is aligned as those of a task are."""
    count = torch.Size(shape).numel()
    memory = torch.randn(count + 16)
    start = -memory.data_ptr() // 4 % 16
    return memory[start : start + count].view(shape)


def test_structures_are_those_of_the_header() -> None:
    assert sizeof(Algorithm) == 64
    assert sizeof(Heuristic) == 96
    places = [getattr(Heuristic, name).offset for name in ("algorithm", "workspace_bytes", "state", "waves")]
    assert places == [0, 64, 72, 76]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(8, 8, 8), (3, 17, 5), (1, 9, 4), (6, 1, 7)])
def test_a_row_major_product_comes_of_one_by_columns(stand_in: Library, m: int, n: int, k: int, bias: bool) -> None:
    product = Product(sizes(m, n, k, bias=bias), stand_in)
    a, b, c, added = matrix(m, k), matrix(k, n), matrix(m, n), matrix(n) if bias else None
    product.run(product.algorithms[0], a, b, c, bias=added, workspace=torch.empty(1), stream=STREAM)
    torch.testing.assert_close(c, a @ b if added is None else a @ b + added)


def test_each_algorithm_is_the_one_that_was_proposed(stand_in: Library, path: Path) -> None:
    product = Product(sizes(4, 4, 4), stand_in)
    ran = (ctypes.c_int * 3).in_dll(ctypes.CDLL(str(path)), "ran")
    assert len(product.algorithms) == 3  # what the library says it cannot do is left out
    before = list(ran)
    a, b, c = (matrix(4, 4) for _ in range(3))
    for number in (0, 2, 2):
        product.run(product.algorithms[number], a, b, c, workspace=torch.empty(1), stream=STREAM)
    assert [now - then for now, then in zip(ran, before, strict=True)] == [1, 0, 2]


def test_a_refusal_has_the_librarys_words(stand_in: Library) -> None:
    product = Product(sizes(4, 4, 4), stand_in)
    a, b, c = (matrix(4, 4) for _ in range(3))
    with pytest.raises(HarnessError, match=r"cublasLtMatmul failed with status 15 \(not supported here\)"):
        product.run(product.algorithms[1], a, b, c, workspace=torch.empty(1), stream=STREAM)


def test_what_it_cannot_do_is_said(stand_in: Library) -> None:
    with pytest.raises(HarnessError, match=r"no way to compute Sizes\(m=4, n=4, k=13"):
        Product(sizes(4, 4, 13), stand_in)
    with pytest.raises(HarnessError, match=r"not of torch\.int32"):
        Product(sizes(4, 4, 4, dtype=torch.int32), stand_in)
    product = Product(sizes(4, 4, 4), stand_in)
    a, b, c = (matrix(4, 4) for _ in range(3))
    for wrong in (a.t(), matrix(5, 4).view(-1)[1:17].view(4, 4)):
        with pytest.raises(HarnessError, match="contiguous tensors that start at a multiple of 64 bytes"):
            product.run(product.algorithms[0], wrong, b, c, workspace=torch.empty(1), stream=STREAM)


def test_a_missing_library_is_named() -> None:
    with pytest.raises(HarnessError, match=r"expected libcublasLt\.so\.1, which a torch built with CUDA brings"):
        Library("libcublasLt.so.1")
    with pytest.raises(HarnessError, match="cublasLt"):  # a library that is another one
        Library("libc.so.6")


@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch brings the library")
def test_a_torch_without_cuda_has_none() -> None:
    with pytest.raises(HarnessError, match=r"a torch built with CUDA, and torch .* here is not"):
        library()
