from own import gemm, own_launcher

task = gemm("gemm_tma.py", own_launcher("gemm_tma.py"), (4096, 4096, 4096))
