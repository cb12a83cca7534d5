"""Folder that a project is written to: whether files can be made there is known before anything is tried."""

import os
import tempfile
from pathlib import Path

from evokernel.errors import TaskError


def check_folder(place: Path, *, option: str = "--out") -> None:
    """Raise `TaskError` where no file can be written to a folder, or to the one in which it would be made.

    Nothing is left there: what fails later leaves no empty folder.

    Args:
        place: the folder, which need not exist.
        option: name of the choice that another folder is given by.
    """
    whole = place.absolute()
    # `Path.exists` raises an error where a folder above may not be read
    there = next(each for each in (whole, *whole.parents) if os.path.exists(each))
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise TaskError(
            f"cannot write to {place}: {there}: {error.strerror}; name a folder that can be written with {option}"
        ) from None
