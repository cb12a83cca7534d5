import torch
from nvcc import nvcc_launcher
from own import rows


def scaled(x: torch.Tensor, **_: int) -> torch.Tensor:
    most = x.abs().amax(dim=1, keepdim=True)
    return torch.where(most > 0, x / most, 0.0)


task = rows(
    "scale",
    scaled,
    nvcc_launcher(
        "scale.cu.py", "scale<<<rows, THREADS, 0, stream>>>((const float*)tensors[0], (float*)tensors[1], columns);"
    ),
    (4096, 4096),
)
