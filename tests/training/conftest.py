"""A run in which models were asked, with every sort of answer."""

from pathlib import Path

import pytest

from evokernel.records.evaluation import Fidelity, Status
from tests.support.stores import StoreBuilder

SAME = "Make it faster.\n\u2028 ünïcode </script>"


def fill(path: Path) -> dict[str, str]:
    """Write the run; return ids by name.

    `fast` and `slow` and `wrong` answer the same prompt, `near` too, but it cannot be told from `fast`. `finer`
    refines `fast`, and `mended` repairs `wrong`, which `finest` refines. `ruled` was made by a rule.
    """
    ids: dict[str, str] = {}
    with StoreBuilder(path) as builder:

        def ask(name: str, speedup: float | None, parent: str, *, prompt: str = "", operator: str = "mutate") -> None:
            builder.call(f"the reply: {name}", prompt=prompt, operator=operator, model="large" if prompt else "small")
            text, parents = f"// {name}\nvoid run() {{}}\n", (ids[parent],)
            status = Status.COMPILE_ERROR if name == "wrong" else Status.NUMERICAL
            ids[name] = builder.add(
                text, speedup=speedup, parents=parents, operator=operator, status=status, feedback=f"about {name}"
            )

        ids["seed"] = builder.seed()
        ask("fast", 2.0, "seed", prompt=SAME)
        ask("slow", 1.0, "seed", prompt=SAME)
        ask("wrong", None, "seed", prompt=SAME)
        ask("near", 2.02, "seed", prompt=SAME)
        ask("finer", 3.0, "fast", operator="refine")
        ask("mended", 1.5, "wrong", operator="repair")
        ask("finest", 1.25, "mended", operator="refine")
        builder.call("not a kernel")
        builder.nothing("unusable: no code", exhausted=False)
        ids["ruled"] = builder.add("// ruled\n", speedup=4.0, parents=(ids["finer"],), operator="refine")
        builder.call("half of", prompt="long")
        builder.call("the rest", prompt="long, go on", ordinal=1)
        ids["halves"] = builder.add("// halves\n", speedup=5.0, parents=(ids["seed"],), operator="mutate")
        builder.call("harness")
        ids["ours"] = builder.add("// ours\n", speedup=None, status=Status.HARNESS_ERROR, operator="mutate")
    return ids


def remeasure(path: Path, name: str, speedup: float | None, *, budget: Fidelity = Fidelity.FINAL) -> None:
    """Evaluate a candidate of the run once more; without a speed-up it fails."""
    with StoreBuilder(path, begin=False) as builder:
        candidate = builder.store.candidate(name).candidate
        status = Status.HOLDOUT_FAILED
        builder.store.add_evaluation(builder.evaluation(candidate, speedup=speedup, budget=budget, status=status))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def ids(path: Path) -> dict[str, str]:
    return fill(path)
