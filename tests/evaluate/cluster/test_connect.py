"""Connecting to a cluster that is not there."""

import pytest

from evokernel.errors import ConfigError
from evokernel.evaluate.cluster.connection import connect


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_missing_ray_or_cluster_is_told() -> None:
    with pytest.raises(ConfigError, match=r"pip install -e '\.\[ray\]'|nothing answers at 127\.0\.0\.1:1 "):
        connect("127.0.0.1:1")
