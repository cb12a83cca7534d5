"""Matrix product in fp32, where TF32 is allowed."""

from museum_products import product_task

task = product_task("gemm_tf32", allow_tf32=True)
