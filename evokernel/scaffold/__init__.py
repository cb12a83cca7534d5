"""From a PyTorch operation to a task, a plain correct kernel and a config: what `evokernel init` writes."""
