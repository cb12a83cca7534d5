"""What runs within the sandbox: standard library only, started by path with `python -I -S`, never imports evokernel."""
