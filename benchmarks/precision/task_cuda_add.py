from nvcc import nvcc_launcher
from own import add

task = add(
    nvcc_launcher(
        "add.cu.py",
        "const long long n = rows * columns; add<<<(n + THREADS - 1) / THREADS, THREADS, 0, stream>>>"
        "((const float*)tensors[0], (const float*)tensors[1], (float*)tensors[2], n);",
    ),
    (1024, 1024),
)
