"""The command line. Commands are imported when they are called, so that `--help` costs nothing."""

import sys

INTERRUPTED_EXIT = 130


def main() -> None:
    """Run the command line as this process; an interrupt is quiet from here on, also while parts are imported."""
    try:
        from evokernel.cli.group import main as commands

        commands()
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        sys.exit(INTERRUPTED_EXIT)
