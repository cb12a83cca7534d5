"""The number at the cursor of each row, which then moves on: called again and again, it would leave the row."""

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet


def reference(cursor, x, **_):
    return cursor + 1, 2 * x.gather(1, cursor.long()[:, None])[:, 0]


def _size(rows: int, columns: int) -> Workload:
    return Workload(f"{rows}x{columns}", {"R": rows, "C": columns})


task = Task(
    name="cursors",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("cursor", ("R",), "int32", below="C", role=Role.INOUT), Tensor("x", ("R", "C"))),
        scalars=(Scalar("R"), Scalar("C")),
        outputs=(Tensor("y", ("R",), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(512, 64), _size(1000, 33)),
            holdout=(_size(301, 77),),
            probe={"R": (1, 40), "C": (2, 300)},
        )
    },
    flops="R",
    bytes_moved="16 * R",
    precision=Precision(),
)
