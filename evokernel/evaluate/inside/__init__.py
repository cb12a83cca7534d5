"""Code that runs in the sandbox: standard library only, started by path with `python -I -S`, without evokernel."""
