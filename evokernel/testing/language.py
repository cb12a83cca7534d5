"""Contract of languages."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from evokernel.languages import LANGUAGES, syntax_of
from evokernel.protocols import Language
from evokernel.records.build import BuildFailure, Built
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

SCALE = Signature(
    inputs=(Tensor("x", ("N",)),), scalars=(Scalar("N"),), outputs=(Tensor("y", ("N",), role=Role.OUTPUT),)
)
_SIZES = WorkloadSet(search=(Workload("8", {"N": 8}),), holdout=(Workload("9", {"N": 9}),), probe={"N": (1, 9)})
SCALE_TASK = Task(name="scale", reference=lambda x, **_: 2 * x, signature=SCALE, workloads={"cpu": _SIZES}, flops="N")


@dataclass(frozen=True)
class LanguageSamples:
    """Sources of one language for y[i] = 2 x[i]."""

    good: str
    """Compiles, and has a tunable."""
    commented: str
    """The same with comments and another layout."""
    retuned: str
    """The same with another value of a tunable that matters to what is compiled."""
    broken: str
    """Does not compile."""
    mistake: str
    """A word that the message about `broken` must contain."""
    rejected: str
    """Refused by the static check."""


class LanguageContract:
    """Tests for one language; give `language` and `samples`."""

    @pytest.fixture
    def language(self) -> Language:
        """Return the language."""
        raise NotImplementedError

    @pytest.fixture
    def samples(self) -> LanguageSamples:
        """Return sources in it."""
        raise NotImplementedError

    @pytest.fixture
    def built(self, language: Language, samples: LanguageSamples) -> Built:
        """Return the build of the good sample."""
        built = language.build(samples.good, SCALE_TASK)
        assert isinstance(built, Built), built
        return built

    def test_says_what_it_is(self, language: Language) -> None:
        assert language.name in LANGUAGES
        assert language.suffix.startswith(".")
        assert language.syntax == syntax_of(language.name)
        assert 8 < len(language.environment) < 200
        assert "\n" not in language.environment

    def test_accepts_the_good_and_says_why_not(self, language: Language, samples: LanguageSamples) -> None:
        assert language.static_check(samples.good) is None
        assert language.static_check(samples.commented) is None
        assert language.static_check(samples.rejected)
        assert language.static_check("")
        assert language.static_check(samples.good + "\0")
        assert language.static_check(samples.good + "\ud800")

    def test_comments_and_layout_may_decide_and_so_count(self, language: Language, samples: LanguageSamples) -> None:
        texts = (samples.good, samples.commented, samples.retuned)
        assert len({language.program_hash(text) for text in texts}) == len(texts)

    def test_build_is_repeatable_and_ignores_comments(
        self, language: Language, samples: LanguageSamples, built: Built
    ) -> None:
        again, commented = language.build(samples.good, SCALE_TASK), language.build(samples.commented, SCALE_TASK)
        assert isinstance(again, Built)
        assert isinstance(commented, Built)
        assert again.artifact == built.artifact
        assert commented.hash == again.hash == built.hash
        assert commented.descriptor == again.descriptor == built.descriptor

    def test_another_value_of_a_tunable_is_another_artifact(
        self, language: Language, samples: LanguageSamples, built: Built
    ) -> None:
        retuned = language.build(samples.retuned, SCALE_TASK)
        assert isinstance(retuned, Built)
        assert retuned.hash != built.hash

    def test_numbers_are_finite_floats(self, built: Built) -> None:
        for numbers in (built.descriptor, built.metrics):
            assert numbers
            assert all(isinstance(value, float) and 0 <= value < 1e12 for value in numbers.values())

    def test_failure_can_be_acted_on(self, language: Language, samples: LanguageSamples) -> None:
        failure = language.build(samples.broken, SCALE_TASK)
        assert isinstance(failure, BuildFailure)
        assert not failure.timed_out
        assert samples.mistake in failure.message
        assert failure.message.count("\n") < 40
        assert "/usr/" not in failure.message
        assert "/tmp/" not in failure.message

    def test_builds_from_several_threads(self, language: Language, samples: LanguageSamples, built: Built) -> None:
        with ThreadPoolExecutor(4) as pool:
            made = pool.map(language.build, [samples.good] * 4, [SCALE_TASK] * 4)
            hashes = {one.hash for one in made if isinstance(one, Built)}
        assert hashes == {built.hash}

    def test_checked_build(self, language: Language, samples: LanguageSamples) -> None:
        made = language.build_checked(samples.good, SCALE_TASK)
        assert made is None or isinstance(made, bytes)
        assert isinstance(language.build_checked(samples.broken, SCALE_TASK), BuildFailure | None)

    def test_guide_names_the_arguments_in_order(self, language: Language) -> None:
        signature = replace(SCALE, scalars=(Scalar("N"), Scalar("alpha", "float32")))
        text = language.guide(replace(SCALE_TASK, signature=signature, workloads={}))
        entry = text[text.index("run(") :]
        places = [entry.index(name) for name in ("x", "N", "alpha", "y")]
        assert places == sorted(places)
        assert re.search(r"aligned\s+to\s+\d+\s+bytes", text)
        assert "tune:" in text

    def test_guide_says_what_integers_stay_below(self, language: Language) -> None:
        index = Tensor("index", ("N",), "int64", below="2 * N")
        signature = replace(SCALE, inputs=(*SCALE.inputs, index))
        (line,) = [
            line
            for line in language.guide(replace(SCALE_TASK, signature=signature, workloads={})).splitlines()
            if line.startswith("- index[N]:")
        ]
        assert line.endswith("int64, input, all values from 0 to 2 * N - 1")
