from evokernel.languages.cpp.guide import entry_signature, guide
from evokernel.task import Role, Scalar, Signature, Task, Tensor

SIGNATURE = Signature(
    inputs=(
        Tensor("a", ("M", "K"), "bfloat16"),
        Tensor("m", ("M",), "bool"),
        Tensor("u", ("M",), "float8_e5m2"),
        Tensor("s", (1,), "float64", Role.INOUT),
    ),
    scalars=(Scalar("M"), Scalar("eps", "float32")),
    outputs=(Tensor("c", ("M", "K - 1"), "float16", Role.OUTPUT),),
)
TASK = Task(name="t", reference=lambda **_: None, signature=SIGNATURE, workloads={}, flops="M")


def test_entry_signature():
    expected = 'extern "C" void run(const uint16_t* a, const bool* m, const uint8_t* u, double* s, int64_t M, '
    expected += "float eps, _Float16* c)"
    assert entry_signature(SIGNATURE) == expected


def test_guide_states_the_contract():
    text = guide(TASK, threads=1, flags="g++ -O3")
    assert entry_signature(SIGNATURE) + ";" in text
    assert "a[M, K]: bfloat16 as its 16 bits, input" in text
    assert "m[M]: bool (a byte each, 0 or 1), input" in text
    assert "u[M]: float8_e5m2 as its 8 bits, input" in text
    assert "c[M, K - 1]: float16, output" in text
    assert "changed in place" in text
    assert "One thread only" in text
    assert "g++ -O3" in text


def test_guide_with_threads():
    text = guide(TASK, threads=4, flags="")
    assert "up to 4 threads" in text
    assert "<omp.h>" in text
