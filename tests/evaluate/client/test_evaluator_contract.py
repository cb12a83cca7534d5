import os
from collections.abc import Iterator

import pytest

from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.records.evaluation import Fidelity, Stage, Status
from evokernel.testing.evaluator import SETTINGS, EvaluatorContract, EvaluatorDriver, kernel, write_task
from tests.support.processes import descendants


class TestLocalEvaluator(EvaluatorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def driver(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvaluatorDriver]:
        language = local_language("cpp", SETTINGS)
        task = write_task(tmp_path_factory.mktemp("task"))
        cores, before = os.sched_getaffinity(0), descendants()
        driver = EvaluatorDriver(open_evaluator(task, language, settings=SETTINGS), language)
        yield driver
        driver.close()
        assert descendants() <= before
        assert os.sched_getaffinity(0) == cores

    def test_reading_past_the_end_is_found_by_the_sanitizer(self, driver: EvaluatorDriver):
        (found,) = driver.evaluate(kernel(after="volatile float x = a[M * K]; (void)x;"))
        assert found.status is Status.SANITIZER, found.feedback
        assert found.stage is Stage.SANITIZER

    def test_one_measurement_serves_all_that_compile_to_the_same(self, driver: EvaluatorDriver):
        source = kernel("volatile int twin = 5; (void)twin;")
        renamed = source.replace("twin", "brother")
        (first,) = driver.evaluate(source)
        (second,) = driver.evaluate(renamed)
        assert first.key.program_hash != second.key.program_hash
        assert second.artifact_hash == first.artifact_hash
        assert second.timings == first.timings
        assert second.metrics["twin"] == 1.0
        assert second.key == driver.identity.key(driver.language.program_hash(renamed), Fidelity.QUICK)
        assert second.candidate_id == driver.request(renamed, Fidelity.QUICK).candidate.id
        said = f"compiled to the same as {first.candidate_id}, whose times these are\n"
        assert second.feedback == said + first.feedback

    def test_a_larger_budget_measures_a_twin_anew(self, driver: EvaluatorDriver):
        source = kernel("volatile int mark = 7; (void)mark;")
        (quick,) = driver.evaluate(source)
        (precise,) = driver.evaluate(source.replace("mark", "sign"), budget=Fidelity.PRECISE)
        assert precise.artifact_hash == quick.artifact_hash
        assert precise.stage is Stage.PRECISE
        assert precise.timings != quick.timings

    def test_the_verdict_on_a_wrong_kernel_is_never_shared(self, driver: EvaluatorDriver):
        source = kernel("float shift = 2.0f;", "c[0] += shift;")
        for text in (source, source.replace("shift", "drift")):
            (found,) = driver.evaluate(text)
            assert found.status is Status.NUMERICAL
            assert "compiled to the same" not in found.feedback
