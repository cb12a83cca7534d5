"""The command line: `python -m evokernel`, and the script `evokernel`."""


def start() -> None:
    """Run the command line; an interrupt while it is imported is no error."""
    try:
        from evokernel.cli import main
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    main()


if __name__ == "__main__":  # not where multiprocessing reads it again
    start()
