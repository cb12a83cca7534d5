"""Matrix product in bf16."""

from museum_products import product_task

task = product_task("gemm_bf16", dtype="bfloat16")
