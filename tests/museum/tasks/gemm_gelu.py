"""Matrix product in bf16 with GELU: of sums of a thousand products few are near 0, where GELU is no ramp."""

from dataclasses import replace

import torch
from museum_products import product_task


def reference(a: torch.Tensor, b: torch.Tensor, **_: int) -> torch.Tensor:
    return torch.nn.functional.gelu(a @ b)


def torch_layer(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    torch.nn.functional.gelu(torch.mm(inputs["a"], inputs["b"]), out=outputs[0])


plain = product_task("gemm_gelu", dtype="bfloat16")
task = replace(
    plain,
    reference=reference,
    flops="2 * M * N * K + 10 * M * N",
    precision=replace(plain.precision, exact_on_integers=False),
    baselines={"torch": torch_layer},
)
