"""Triton programs that PyTorch's compiler, Inductor, writes for a task: seeds, made with and without a GPU."""
