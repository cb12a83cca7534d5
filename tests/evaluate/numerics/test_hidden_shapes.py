"""Hidden shapes: in range, odd, and awkward."""

import numpy as np
import pytest

from evokernel.evaluate.numerics.hidden_shapes import probe_workloads
from evokernel.task import Workload, WorkloadSet


def make(probe=None, probes=4):
    workload = Workload("w", {"R": 40, "C": 500, "eps": 1e-5})
    return WorkloadSet(
        search=(workload,), holdout=(workload,), probe=probe or {"R": (1, 40), "C": (3, 500)}, probes=probes
    )


@pytest.mark.parametrize("seed", range(30))
def test_probes_stay_in_range_with_a_least_and_an_odd_one(seed):
    least, odd, *others = probe_workloads(make(probes=6), np.random.default_rng(seed))
    assert len(others) == 4
    assert least.sizes == {"R": 1, "C": 3}
    assert all(value % 2 for value in odd.sizes.values())
    assert odd.sizes["C"] > 200
    for workload in (least, odd, *others):
        assert 1 <= workload.dims["R"] <= 40
        assert 3 <= workload.dims["C"] <= 500
        assert workload.dims["eps"] == 1e-5


def test_probes_mix_primes_neighbours_of_powers_and_ends():
    workloads = make(probe={"R": (1, 200)}, probes=400)
    seen = [w.dims["R"] for w in probe_workloads(workloads, np.random.default_rng(0))][2:]
    assert {1, 200, 31, 127, 97} <= set(seen)
    assert len(set(seen)) > 50


def test_a_range_of_one_even_number_is_used_as_it_is():
    workloads = make(probe={"R": (8, 8)}, probes=1)
    assert [w.dims["R"] for w in probe_workloads(workloads, np.random.default_rng(0))] == [8, 8]
