import pytest

from evokernel.errors import LanguageError
from evokernel.languages.cpp.disassembly import Instruction, numbers_in, read_disassembly
from evokernel.languages.cpp.isa import X86, Arm64, isa_of
from evokernel.languages.cpp.natural_loops import regions
from evokernel.languages.cpp.profile import profile

X86_NEST = """
0000000000001100 <run>:
    1100:\tpush   %rbp
    1101:\tmov    %rsp,%rbp
    1104:\tsub    $0x80,%rsp
    1108:\tvmulps %ymm1,%ymm2,%ymm3
    110c:\txor    %eax,%eax
    1110:\tvmovups (%rdi),%zmm1
    1114:\tvfmadd231ps (%rsi),%zmm1,%zmm0
    1118:\tvmovaps %zmm0,-0x40(%rbp)
    111c:\tvmovaps 0x40(%rsp),%zmm0
    1120:\tjne    1110 <run+0x10>
    1124:\tvmulss %xmm1,%xmm2,%xmm3
    1128:\tcmp    %rax,%rdx
    112c:\tbnd jne 1110 <run+0x10>
    1130:\tret
"""
SCALAR_INSIDE = """
0000000000001100 <run>:
    1100:\tvmulps %zmm1,%zmm2,%zmm3
    1104:\tjne    1100 <run>
    1108:\tnop
    110c:\tvmulss %xmm1,%xmm2,%xmm3
    1110:\tcall   2000 <_ZL6helperf>
    1114:\tjne    110c <run+0xc>
    1118:\tjmp    1108 <run+0x8>

0000000000002000 <_ZL6helperf>:
    2000:\tvaddss %xmm1,%xmm2,%xmm3
    2004:\tjne    2000 <_ZL6helperf>
    2008:\tret

0000000000003000 <decoy>:
    3000:\tvaddps %zmm1,%zmm2,%zmm3
    3004:\tjne    3000 <decoy>
    3008:\tret
"""
ARM = """
0000000000000700 <run>:
     700:\tstp\tx29, x30, [sp, #-32]!
     704:\tmov\tx29, sp
     708:\tldr\tq1, [x0], #16
     70c:\tfmla\tv0.4s, v1.4s, v2.s[0]
     710:\tstr\tq3, [sp, #16]
     714:\tsubs\tx3, x3, #0x1
     718:\tb.ne\t708 <run+0x8>  // b.any
     71c:\tret
"""


def test_hot_loop_of_x86():
    found = profile(read_disassembly(X86_NEST), X86())
    assert (found.vector_bits, found.spills, found.loop_fma) == (512, 2, 1)
    assert found.loop_instructions == 8  # both jumps go back to one head: one loop
    assert found.frame_bytes == 128


def test_vectors_outside_the_deepest_loop_do_not_count():
    found = profile(read_disassembly(SCALAR_INSIDE), X86())
    assert found.vector_bits == 0
    assert found.loop_depth == 3  # two loops around the call, one in the helper


def test_hot_loop_of_aarch64():
    found = profile(read_disassembly(ARM), Arm64())
    assert (found.vector_bits, found.spills, found.loop_fma, found.frame_bytes) == (128, 1, 1, 32)


def test_scalable_vectors_have_the_length_of_the_machine():
    text = ARM.replace("v0.4s, v1.4s, v2.s[0]", "z0.s, p0/m, z1.s, z2.s")
    assert profile(read_disassembly(text), Arm64(sve_bits=256)).vector_bits == 256


def test_scalar_aarch64():
    text = ARM.replace("fmla\tv0.4s, v1.4s, v2.s[0]", "fmadd\ts0, s1, s2, s3")
    found = profile(read_disassembly(text), Arm64())
    assert (found.vector_bits, found.loop_fma) == (0, 1)


def test_mathematical_calls_are_work():
    loop = (
        "\n0000000000001100 <run>:\n    1100:\tcall   1050 <{name}@plt>\n    1105:\tjne    1100 <run>\n    1108:\tret\n"
    )
    assert profile(read_disassembly(loop.format(name="expf")), X86()).loop_calls == 1
    assert profile(read_disassembly(loop.format(name="_ZGVeN16v_expf")), X86()).vector_bits == 512


def test_integer_kernels_are_judged_by_integer_vectors():
    text = X86_NEST.replace("vfmadd231ps", "vpaddd").replace("vmulss", "imul").replace("vmulps", "vmovaps")
    assert profile(read_disassembly(text), X86()).vector_bits == 512


def test_entry_without_code():
    with pytest.raises(ValueError, match="no machine code for 'run'"):
        profile({}, X86())


def test_a_block_out_of_line_belongs_to_its_loop():
    text = """
0000000000001000 <run>:
    1000:\tadd    $0x1,%rax
    1004:\tje     1010 <run+0x10>
    1008:\tjne    1000 <run>
    100c:\tret
    1010:\tsub    $0x1,%rdx
    1014:\tjmp    1008 <run+0x8>
"""
    found = regions(read_disassembly(text)["run"], X86())
    assert sorted((region.depth, len(region.instructions)) for region in found) == [(0, 1), (1, 5)]


def test_straight_code_and_endless_loops():
    assert [region.depth for region in regions([Instruction(0, "ret", "")], X86())] == [0]
    assert [region.depth for region in regions([Instruction(0, "jmp", "0 <run>")], X86())] == [1]


def test_recursion_ends():
    text = "\n0000000000001000 <run>:\n    1000:\tcall   1000 <run>\n    1004:\tjne    1000 <run>\n    1008:\tret\n"
    assert profile(read_disassembly(text), X86()).loop_calls in (0, 1, 2)


def test_machines():
    assert isinstance(isa_of("x86_64"), X86)
    assert isinstance(isa_of("aarch64"), Arm64)
    with pytest.raises(LanguageError, match="riscv64"):
        isa_of("riscv64")


def test_jumps_without_order_are_not_followed_for_ever():
    jumps = [Instruction(8 * number, "jne", "8 <run+0x8>") for number in range(1, 30_000)]
    code = [Instruction(0, "nop", ""), *jumps, Instruction(240_000, "ret", "")]
    assert profile({"run": code}, X86()).loop_depth == 0
    few = [*code[:300], code[-1]]
    assert max(region.depth for region in regions(few, X86())) == 1
    assert max(region.depth for region in regions(few, X86(), iter(()))) == 0


def test_numbers_of_all_comparisons_of_an_arm_are_read():
    lines = ["cmp\tw2, #0x155", "ccmp\tw3, #0x4d, #0x0, eq", "cmn\tw4, #0x3e9", "eor\tw5, w5, #0x3f0", "tst\tx6, #0x7f"]
    text = "0 <run>:\n" + "".join(f"  {4 * place:x}:\t{line}\n" for place, line in enumerate(lines))
    assert numbers_in(read_disassembly(text)) == (77, 127, 341, 1001, 1008)
