"""The mutation exam and the catch table, as far as neither a judge nor a GPU is needed: `benchmarks/`."""

import ast
import json
import shutil

import pytest

from benchmarks.catch_table import exhibits, page, submission
from benchmarks.differences import ROUNDS, Subject, differences
from benchmarks.mutants import at_size, mutants
from benchmarks.other_judges import as_model, as_problem
from evokernel.tasks import load_task
from tests.museum.exhibits import HONEST, TASKS, read_exhibits

KINDS = {"term", "mask", "edge", "bounds", "address", "statement", "start value", "output kept", "narrow"}
SUM = """#include <cstdint>
extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) sum += x[r * C + c];
        y[r] = sum;
    }
}
"""


@pytest.mark.parametrize(
    ("language", "more"),
    [("cpp", {"scalar"}), ("triton", {"scalar", "synchronisation", "grid y"}), ("cuda", {"synchronisation"})],
)
def test_honest_kernels_have_mutants_of_all_kinds(language: str, more: set[str]):
    kinds = set()
    for kernel in read_exhibits(HONEST / language):
        made = mutants(kernel.source, language, scalars=frozenset({"eps"}))
        assert len({each.source for each in made} - {kernel.source}) == len(made) > 10, kernel.label
        kinds |= {each.operator for each in made}
        if language != "cpp":
            task = load_task(kernel.task).on("cuda")
            for each in made:
                ast.parse(at_size(kernel.source, each.source, language, task=task))
    assert kinds >= KINDS | more


@pytest.mark.slow
def test_the_independent_set_tells_mutants_from_their_kernel():
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    task = load_task(str(TASKS / "sum.py")).on("cpu")
    beyond = SUM.replace("c < C", "c <= C")
    changed = [
        SUM.replace("sum = 0.0f", "sum = 0.000f"),  # the same program
        SUM.replace("y[r] = sum", "y[r] = y[r] > sum ? y[r] : sum"),
        beyond,
        at_size(SUM, beyond, "cpp", task=task),
        SUM.replace("int64_t c = 0", "int32_t c = 0"),
        SUM.replace("++c", "c += 0"),
    ]
    subjects = [Subject(SUM, 0), *(Subject(text, 0) for text in changed)]
    found = differences(str(TASKS / "sum.py"), subjects, "cpp", device="cpu", seed=0, patience_s=8)
    assert [bool(text) for text in found] == [False, False, True, True, True, False, True]
    assert found[1] is None
    assert found[6] == "never ends"


@pytest.mark.slow
def test_a_mutant_that_errs_as_an_honest_kernel_of_its_task_does_only_rounds():
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    compensated = (HONEST / "cpp" / "sum_kahan.cpp").read_text()
    wrong = SUM.replace("sum = 0.0f", "sum = 1e-4f")
    alone = [Subject(compensated, 0), Subject(SUM, 0), Subject(wrong, 0)]
    beside = [Subject(compensated, 0), Subject(SUM, 1), Subject(f"{SUM}int other;\n", 0), Subject(wrong, 0)]
    sums = str(TASKS / "sum.py")
    first, second = (differences(sums, given, "cpp", device="cpu", seed=26) for given in (alone, beside))
    assert "times the tolerance" in (first[1] or "")
    assert second[2] == ROUNDS
    assert all("times the tolerance" in (text or "") for text in (first[2], second[3]))


def test_every_exhibit_fits_other_judges():
    cheats, honest = exhibits()
    assert len(cheats) > 100
    for exhibit in cheats + honest:
        given = submission(exhibit)
        for text in as_model(given):
            compile(text, exhibit.label, "exec")
        definition, workload, solution = as_problem(given)
        assert json.loads(json.dumps(solution))["sources"][0]["content"] == exhibit.source
        assert {*definition["axes"]} == {*workload["axes"]}


def test_the_page_counts_what_judges_accepted():
    cheats, honest = exhibits()
    found = {"accepted": True, "words": "correct", "speedup": 1.0}
    verdicts = {
        "evokernel": {each.label: {**found, "accepted": each in honest} for each in cheats + honest},
        "KernelBench": {each.label: found for each in cheats + honest},
    }
    text = page({"hardware": "a GPU", "versions": {}, "verdicts": verdicts})
    pays = sum("gains" not in each.head for each in cheats)
    assert f"| all | 0 of {len(cheats)} | {pays} of {len(cheats)} |" in text
