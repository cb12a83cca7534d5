"""What a prompt says of compiled code: the limiter of the occupancy, the instructions of the hot loop, and no noise."""

from operators.llm.compiler_text import compiled

METRICS = {"compile_ms": 120.0, "recordable": 1.0, "hold_s": 1.0, "num_warps": 8.0, "blocks_by_registers": 1.0}
METRICS |= {"blocks_by_shared_memory": 2.0, "blocks_by_warps": 8.0, "blocks_by_slots": 32.0}
METRICS |= {"hot_loop_in_loop": 1.0, "hot_loop_instructions": 200.0, "hot_loop_tensor": 16.0, "hot_loop_fma": 0.0}
METRICS |= {"hot_loop_integer": 40.0, "hot_loop_loads": 8.0, "hot_loop_load_bits": 128.0, "hot_loop_stores": 0.0}
DESCRIPTOR = {"registers": 255.0, "occupancy": 0.125}


def test_a_gpu_kernel_is_told_with_what_limits_it():
    assert compiled(METRICS, DESCRIPTOR) == (
        "Compiled code: num warps 8, registers 255. Occupancy 12%: 1 block at once on a multiprocessor, limited by "
        "registers (would allow: shared memory 2, slots 32, warps 8). In the hot loop 200 instructions: tensor "
        "cores 16, integer arithmetic (addresses, mostly) 40, global loads 8 (mostly 128 bits a thread)."
    )


def test_of_several_kernels_it_is_told_which_one_is_meant():
    assert "of the kernel where it is worst" in compiled(METRICS, DESCRIPTOR | {"kernels": 3.0})
    assert "worst" not in compiled(METRICS, DESCRIPTOR | {"kernels": 1.0})


def test_two_limiters_are_both_named():
    text = compiled(METRICS | {"blocks_by_shared_memory": 1.0}, DESCRIPTOR)
    assert "limited by registers and shared memory (would allow: slots 32, warps 8)" in text


def test_a_full_multiprocessor_has_no_limiter():
    assert "Occupancy 100%." in compiled(METRICS, DESCRIPTOR | {"occupancy": 1.0})


def test_a_kernel_without_a_loop_and_copies_past_the_registers():
    copying = {"hot_loop_in_loop": 0.0, "hot_loop_loads": 0.0, "hot_loop_async_copies": 4.0}
    text = compiled(METRICS | copying, {})
    assert "There is no loop; in all 200 instructions: tensor cores 16" in text
    assert text.endswith("asynchronous copies 4 (mostly 128 bits a thread).")


def test_numbers_of_older_stores_and_of_processors_are_told_as_they_are():
    older = {"hot_loop_instructions": 90.0, "hot_loop_load_bits": 64.0, "compile_ms": 3.0}
    told = compiled(older, {"occupancy": 0.5})
    assert told == "Compiled code: hot loop instructions 90, hot loop load bits 64, occupancy 0.5."
    assert compiled({"sanitized": 1.0}, {}) == ""


def test_counters_are_told_by_the_feedback_and_not_once_more():
    assert compiled(METRICS | {"profiled_dram_pct": 91.0, "profile_s": 2.1}, DESCRIPTOR) == compiled(
        METRICS, DESCRIPTOR
    )
