"""A package like dill: as it is imported, it asks for a folder that it can write to."""

import tempfile

tempfile.gettempdir()
