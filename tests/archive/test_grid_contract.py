import pytest

from archive.grid import GridArchive
from evokernel.protocols import Archive
from evokernel.testing.archive import ArchiveContract


class TestGridArchive(ArchiveContract):
    @pytest.fixture
    def archive(self) -> Archive:
        return GridArchive({"vector_bits": (128.0, 256.0, 512.0), "spills": (1.0, 16.0)})
