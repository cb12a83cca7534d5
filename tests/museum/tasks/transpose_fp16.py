"""The transpose of a matrix in fp16."""

from museum_rows import rows_task
from transpose import reference

from evokernel.task import Precision

task = rows_task(
    "transpose_fp16",
    reference,
    lambda given, y: y.copy_(given["x"].T),
    output=("C", "R"),
    precision=Precision(exact_on_integers=True),
    dtype="float16",
)
