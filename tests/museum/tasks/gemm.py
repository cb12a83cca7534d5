"""Matrix product in fp32, on smaller workloads than those of the built-in task."""

from museum_products import product_task

task = product_task("gemm")
