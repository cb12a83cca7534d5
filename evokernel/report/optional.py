"""Libraries that only notebooks need, imported on first use with advice on their installation."""

import importlib
from typing import Any

from evokernel.errors import StoreError


def needed(name: str) -> Any:
    """Import and return a library of the extra `notebook`.

    Raises:
        StoreError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise StoreError(
            f"this view of a run needs {name.partition('.')[0]}, which cannot be imported ({error}); "
            "install evokernel-search[notebook]"
        ) from None
