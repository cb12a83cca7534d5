import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.languages import make_language
from evokernel.languages.cpp.elf import read_shared_object
from evokernel.languages.toolchain import run_plain
from evokernel.records.build import Built
from evokernel.task import Role, Signature, Task, Tensor

SIGNATURE = Signature(inputs=(), scalars=(), outputs=(Tensor("y", ("N",), dtype="int32", role=Role.OUTPUT),))
TASK = Task(name="t", reference=lambda **_: None, signature=SIGNATURE, workloads={}, flops="N")
SOURCE = 'static int z[9] = {1};\nextern "C" void run(int* y) { for (int i = 0; i < 9; ++i) y[i] = z[i]; }\n'
MADE = make_language("cpp", run=run_plain).build(SOURCE, TASK)
IMAGE = MADE.artifact if isinstance(MADE, Built) else b""


def test_reads_what_was_compiled():
    found = read_shared_object(IMAGE)
    assert found.exports == {"run"}
    assert 0 < found.code_bytes <= found.text_bytes


def test_reads_numbers_that_tables_and_comparisons_of_floats_have():
    source = """extern "C" void run(int* y, long n) {
        static const int few[] = {77, 1003, 101, 141, -5, 50000000};
        for (int i = 0; i < 6; ++i) if (few[i] == n) y[0] = 1;
        if (float(n) > 700.5f && double(n) * 1.1 < 709.0) y[1] = 1;
    }
    """
    made = make_language("cpp", run=run_plain).build(source, TASK)
    assert isinstance(made, Built)
    assert {77, 1003, 101, 141, 700, 709} <= {*made.numbers}
    assert all(2 <= each <= 1 << 22 for each in made.numbers)


@pytest.mark.parametrize("image", [b"", b"\x7fELF", b"MZ" + bytes(200), IMAGE[:64], IMAGE[:-100]])
def test_not_such_a_file(image: bytes):
    with pytest.raises(ValueError, match="ELF"):
        read_shared_object(image)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=20))
@settings(max_examples=150, deadline=None)
def test_damage_is_a_value_error_or_harmless(changes: list[tuple[int, int]]):
    image = bytearray(IMAGE)
    tables = len(image) - 2048  # the section headers are at the end, the file header at the start
    for place, value in changes:
        image[place % 64 if place % 2 else tables + place % 2048] = value
    try:
        found = read_shared_object(bytes(image))
    except ValueError:
        return
    assert found.code_bytes >= 0
