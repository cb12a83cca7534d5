#!python
"""The command line: `python -m evokernel`, and the script `evokernel`, which is this file.

Installers would write a script of their own, whose imports an interrupt ends with a traceback.
"""

if __name__ == "__main__":  # not where multiprocessing reads it again
    try:
        from evokernel.cli import main
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    main()
