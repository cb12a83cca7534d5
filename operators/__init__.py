"""Operators: each makes proposals from parents, by rule or through a model."""

from evokernel.protocols import Operator
from operators.blend import Blend
from operators.graft import Graft
from operators.rewrite import Rewrite
from operators.tune import Tune

OPERATORS: dict[str, type[Operator]] = {"tune": Tune, "blend": Blend, "rewrite": Rewrite, "graft": Graft}
