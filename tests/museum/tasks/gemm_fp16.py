"""Matrix product in fp16."""

from museum_products import product_task

task = product_task("gemm_fp16", dtype="float16")
