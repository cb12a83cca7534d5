"""Tuners of Optuna and kernel_tuner on recorded tables."""

import json
import random
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from tuning_tables import Point, Table


class Optuna:
    """A sampler of Optuna over the places of the values, as ordered integers.

    A trial that the rule forbids is told as failed at no cost. A point that cannot run counts as slower than any.
    """

    def __init__(self, sampler: Any, table: Table, start: Point, *, told: bool) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._failed = optuna.trial.TrialState.FAIL
        self._table, self._told = table, told
        self._study = optuna.create_study(sampler=sampler)
        places = [choices.index(value) for choices, value in zip(table.choices.values(), start, strict=True)]
        self._study.enqueue_trial(dict(zip(table.choices, places, strict=True)))
        self._open: dict[Point, list[Any]] = {}
        self._answers: dict[Point, float] = {}
        self._rng = random.Random(repr(start))

    def ask(self) -> Point | None:
        for _ in range(100):
            trial = self._study.ask()
            point = tuple(
                choices[trial.suggest_int(name, 0, len(choices) - 1)] for name, choices in self._table.choices.items()
            )
            if self._told and not self._table.allows(point):
                self._study.tell(trial, state=self._failed)
            elif point in self._answers:
                self._study.tell(trial, self._answers[point])
            elif point in self._open:
                self._study.tell(trial, state=self._failed)
            else:
                self._open[point] = [trial]
                return point
        known = self._answers.keys() | self._open.keys()  # it repeats itself: help it out
        left = [point for point in (self._table.working if self._told else self._table.us) if point not in known]
        if not left:
            return None
        point = self._rng.choice(left)
        self._open[point] = []
        return point

    def tell(self, point: Point, log_us: float | None) -> None:
        value = log_us if log_us is not None else 1.0 + max(self._answers.values(), default=20.0)
        self._answers[point] = value
        for trial in self._open.pop(point):
            self._study.tell(trial, value)


def kernel_tuner_order(strategy: str, table: Table, start: Point, *, seed: int, told: bool, most: int) -> list[Point]:
    """Return the points that a strategy of kernel_tuner measures, in order, each once."""
    import kernel_tuner

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - its strategies draw from the global state
    options: dict[str, Any] = {"max_fevals": most}
    if strategy == "simulated_annealing":
        options["x0"] = list(start)
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        results, _ = kernel_tuner.tune_kernel(
            "gemm",
            "__global__ void gemm() {}",
            (1, 1),
            [],
            dict(table.choices),
            strategy=strategy,
            strategy_options=options,
            restrictions=[table.rule] if told and any(name in table.rule for name in table.choices) else None,
            simulation_mode=True,
            cache=str(_cache(table, Path(folder), told=told)),
            quiet=True,
            lang="CUDA",
            block_size_names=["none_x"],
        )
    return list(dict.fromkeys(tuple(int(found[name]) for name in table.choices) for found in results))[:most]


def _cache(table: Table, folder: Path, *, told: bool) -> Path:
    entries = {}
    for point, us in table.us.items():
        if told and not table.allows(point):
            continue
        times = {name: 0 for name in ("compile", "verification", "benchmark", "strategy", "framework")}
        entries[",".join(map(str, point))] = {
            **dict(table.named(point)),
            **{f"{name}_time": value for name, value in times.items()},
            "time": "CompilationFailedConfig" if us is None else us,
            "times": [] if us is None else [us],
            "timestamp": "2026-01-01 00:00:00+00:00",
            **({"__error__": "CompilationFailedConfig"} if us is None else {}),
        }
    document = {
        "device_name": "table",
        "kernel_name": "gemm",
        "problem_size": [1, 1],
        "tune_params_keys": list(table.choices),
        "tune_params": dict(table.choices),
        "objective": "time",
        "cache": entries,
    }
    path = folder / "cache.json"
    path.write_text(json.dumps(document))
    return path


def sampler(kind: str, seed: int) -> Any:
    import optuna

    if kind == "optuna gp":
        return optuna.samplers.GPSampler(seed=seed, deterministic_objective=True)
    return optuna.samplers.TPESampler(seed=seed)
