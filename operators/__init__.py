"""Operators: makers of proposals from parents, by rule or through a model."""

from evokernel.protocols import Operator
from operators.rules.blend import Blend
from operators.rules.graft import Graft
from operators.rules.rewrite import Rewrite
from operators.rules.tune import Tune

OPERATORS: dict[str, type[Operator]] = {"tune": Tune, "blend": Blend, "rewrite": Rewrite, "graft": Graft}
