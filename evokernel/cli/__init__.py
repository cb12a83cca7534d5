"""The command line. Commands are imported when they are called, so that `--help` costs nothing."""

from evokernel.cli.group import LazyCommands, main

__all__ = ["LazyCommands", "main"]
