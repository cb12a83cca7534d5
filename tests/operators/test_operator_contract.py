import pytest

from evokernel.protocols import Operator
from evokernel.records.fitness import Elite
from evokernel.testing.operator import OperatorContract, elite
from operators.rules.blend import Blend
from operators.rules.graft import Graft
from operators.rules.rewrite import Rewrite
from operators.rules.tune import Tune
from tests.support.skeletons import ROWS, SPLIT


class TestTune(OperatorContract):
    @pytest.fixture
    def operator(self) -> Operator:
        return Tune()


class TestBlend(OperatorContract):
    @pytest.fixture
    def operator(self) -> Operator:
        return Blend()


class TestRewrite(OperatorContract):
    @pytest.fixture
    def operator(self) -> Operator:
        return Rewrite()


class TestGraft(OperatorContract):
    @pytest.fixture
    def operator(self) -> Operator:
        return Graft()

    @pytest.fixture
    def parents(self) -> tuple[Elite, ...]:
        return elite(SPLIT), elite(ROWS, 0.1)
