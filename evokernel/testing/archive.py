"""Contract of archives of elites."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evokernel.protocols import Archive
from evokernel.records.candidate import Candidate
from evokernel.records.fitness import Elite, Fitness

OFFERS = st.lists(
    st.tuples(st.floats(-5, 5), st.dictionaries(st.sampled_from(["vector_bits", "spills"]), st.floats(0, 600))),
    max_size=30,
)


def elites(offers: list[tuple[float, dict[str, float]]]) -> list[Elite]:
    """Return elites with these fitnesses and descriptors."""
    return [
        Elite(Candidate(f"// {number}", "cpp"), Fitness(fitness, fitness), descriptor, number, str(number), "s")
        for number, (fitness, descriptor) in enumerate(offers)
    ]


class ArchiveContract:
    """Tests for one archive; give `archive`, with niches for `vector_bits` and `spills`."""

    @pytest.fixture
    def archive(self) -> Archive:
        """Return the archive."""
        raise NotImplementedError

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(OFFERS)
    def test_the_best_offer_is_always_held(
        self, archive: Archive, offers: list[tuple[float, dict[str, float]]]
    ) -> None:
        kept: list[Elite] = []
        for one in elites(offers):
            taken = archive.add(one, kept)
            assert taken == (one in kept)
        held = [one.fitness.value for one in kept]
        assert max(held, default=None) == max((fitness for fitness, _ in offers), default=None)
        assert len(held) == len({one.candidate.id for one in kept})

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(OFFERS)
    def test_the_same_offers_give_the_same_elites_in_the_same_order(
        self, archive: Archive, offers: list[tuple[float, dict[str, float]]]
    ) -> None:
        orders = []
        for _ in range(2):
            kept: list[Elite] = []
            for one in elites(offers):
                archive.add(one, kept)
            orders.append(kept)
        assert orders[0] == orders[1]

    def test_an_elite_can_be_removed_and_its_place_taken_again(self, archive: Archive) -> None:
        strong, weak = elites([(2.0, {}), (1.0, {})])
        kept: list[Elite] = []
        archive.add(strong, kept)
        assert not archive.add(weak, kept)
        kept.remove(strong)
        assert archive.add(weak, kept)
