"""`python -m evokernel` is the command line."""

from evokernel.cli import main

main()
