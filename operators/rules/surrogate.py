"""Surrogate of a tunable space: a Gaussian process over the positions of the values, and expected improvement.

Ordered values that span a factor of three lie at their logarithms. The kernel mixes Matern 5/2 kernels: each tunable by
itself, in pairs, and all together. Length scales, weights and noise are drawn anew each time; those that explain the
measurements best are averaged. Expected improvement: Jones et al. 1998.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

DRAWS = 12
"""Random settings that are tried."""
STEPS = 6
"""Settings tried near the best of those."""
MIXED = 2
"""Settings that are averaged."""
FITTED = 64
"""The most measurements that settings are chosen by; the best half and a random part of the others."""
NEAR = 0.3
"""Up to about this far above the shortest, logarithms of times count as they are; beyond, differences shrink."""
SCALE, SCALE_SPREAD = 0.7, 0.8
NOISE, NOISE_SPREAD = 1e-3, 1.2
JITTER = 1e-6
CONSIDERED = 64
"""Points among which the one farthest from others is looked for."""


def levels(choices: Sequence[int]) -> Floats:
    """Return the position of each choice, 0 to 1: by logarithm from a factor of three on, else by rank."""
    ratios = choices[0] > 0 and choices[-1] >= 3 * choices[0]
    values = np.log2(choices) if ratios else np.arange(len(choices), dtype=float)
    found: Floats = (values - values[0]) / max(values[-1] - values[0], 1e-9)
    return found


@dataclass(frozen=True)
class Settings:
    """Settings of the kernel, several at once."""

    scales: Floats
    """Length scales, shape (settings, tunables)."""
    weights: Floats
    """Weights of single tunables, pairs, and all together, shape (settings, 3)."""
    noise: Floats
    """Variance of the noise, shape (settings,)."""

    @classmethod
    def draw(cls, tunables: int, rng: np.random.Generator) -> "Settings":
        """Return random settings."""
        return cls(
            np.exp(rng.normal(math.log(SCALE), SCALE_SPREAD, (DRAWS, tunables))),
            rng.dirichlet(np.ones(3), DRAWS),
            np.exp(rng.normal(math.log(NOISE), NOISE_SPREAD, DRAWS)),
        )

    def take(self, index: Places) -> "Settings":
        """Return some of the settings."""
        return Settings(self.scales[index], self.weights[index], self.noise[index])

    def near(self, rng: np.random.Generator) -> "Settings":
        """Return settings a step away."""
        scales, weights, noise = (
            each * np.exp(rng.normal(0.0, 0.3, each.shape)) for each in (self.scales, self.weights, self.noise)
        )
        return Settings(scales, weights / weights.sum(axis=1, keepdims=True), noise)

    def joined(self, other: "Settings") -> "Settings":
        """Return both."""
        pairs = zip((self.scales, self.weights, self.noise), (other.scales, other.weights, other.noise), strict=True)
        return Settings(*(np.concatenate(pair) for pair in pairs))

    @property
    def log_prior(self) -> Floats:
        """Logarithm of the prior density, up to a constant."""
        scales = (np.log(self.scales / SCALE) / SCALE_SPREAD) ** 2
        density: Floats = -0.5 * (scales.sum(axis=1) + (np.log(self.noise / NOISE) / NOISE_SPREAD) ** 2)
        return density


class Surrogate:
    """A Gaussian process over a grid of tunables.

    Args:
        positions: of each tunable's choices, 0 to 1.
    """

    def __init__(self, positions: Sequence[Floats], rng: np.random.Generator) -> None:
        self._positions = positions
        self._rng = rng

    def improvement(self, seen: Places, log_us: Floats, in_hand: Places, points: Places) -> tuple[Floats, Floats]:
        """Return the expected improvement at each point, in units of its own, and the expected logarithm of the time.

        Args:
            seen: places of the values of each measured point, shape (measured, tunables).
            log_us: logarithms of the times measured there, up to a constant.
            in_hand: places of points that wait; they count as measured at their expectation.
            points: places of the points to weigh.
        """
        target = NEAR * np.log1p((log_us - log_us.min()) / NEAR)
        centre, spread = float(target.mean()), max(float(target.std()), 1e-3)
        z = (target - centre) / spread
        settings, shares = self._settings(seen, z)
        known = np.concatenate([seen, in_hand])
        covariances = self._covariance(settings, known, known, noise=True)
        crosses = self._covariance(settings, known, points)
        total, expected = np.zeros(len(points)), np.zeros(len(points))
        for share, covariance, cross in zip(shares, covariances, crosses, strict=True):
            factor = np.linalg.cholesky(covariance)
            solved = np.linalg.solve(factor[: len(z), : len(z)], z)
            variance = (solved @ solved + 2.0) / (len(z) + 2.0)
            half = np.linalg.solve(factor, cross)
            mean = half[: len(z)].T @ solved  # what is in hand has its mean, so it moves no other
            deviation = np.sqrt(variance * np.maximum(1.0 - np.einsum("ij,ij->j", half, half), 1e-9))
            total += share * expected_improvement(mean, deviation, lowest=float(z.min()))
            expected += share * mean
        above = np.maximum(centre + spread * expected, 0.0)
        return total, log_us.min() + NEAR * np.expm1(above / NEAR)

    def _settings(self, seen: Places, z: Floats) -> tuple[Settings, Floats]:
        """Return the likeliest settings with their shares."""
        order = np.argsort(z, kind="stable")
        if len(z) > FITTED:
            others = self._rng.choice(order[FITTED // 2 :], FITTED // 2, replace=False)
            order = np.concatenate([order[: FITTED // 2], others])
        seen, z = seen[order], z[order]
        settings = Settings.draw(len(self._positions), self._rng)
        likelihood = self._likelihood(settings, seen, z)
        best = np.argsort(-likelihood, kind="stable")[: STEPS // 2]
        near = settings.take(np.repeat(best, 2)).near(self._rng)
        settings = settings.joined(near)
        likelihood = np.concatenate([likelihood, self._likelihood(near, seen, z)])
        best = np.argsort(-likelihood, kind="stable")[:MIXED]
        shares = np.exp(likelihood[best] - likelihood[best[0]])
        return settings.take(best), shares / shares.sum()

    def _likelihood(self, settings: Settings, seen: Places, z: Floats) -> Floats:
        """Return the logarithm of each setting's posterior density; the scale of the values is integrated out."""
        factors = np.linalg.cholesky(self._covariance(settings, seen, seen, noise=True))
        solved = np.linalg.solve(factors, np.broadcast_to(z[:, None], (len(factors), len(z), 1)))[:, :, 0]
        variance = ((solved**2).sum(axis=1) + 2.0) / (len(z) + 2.0)
        volume = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
        density: Floats = settings.log_prior - volume - 0.5 * (len(z) + 2.0) * np.log(variance)
        return density

    def _covariance(self, settings: Settings, a: Places, b: Places, *, noise: bool = False) -> Floats:
        """Return the covariance of points under each setting, shape (settings, len(a), len(b))."""
        shape = (len(settings.noise), len(a), len(b))
        total, squares, product = np.zeros(shape), np.zeros(shape), np.ones(shape)
        for index, positions in enumerate(self._positions):
            apart = np.abs(positions[:, None] - positions[None, :])
            r = math.sqrt(5.0) * apart / settings.scales[:, index, None, None]
            table = (1.0 + r + r * r / 3.0) * np.exp(-r)
            each = table[:, a[:, index]][:, :, b[:, index]]
            total += each
            squares += each * each
            product *= each
        count = len(self._positions)
        parts = (total / count, (total * total - squares) / max(1, count * (count - 1)), product)
        covariance: Floats = sum(settings.weights[:, i, None, None] * part for i, part in enumerate(parts))  # type: ignore[assignment]
        if noise:
            at = np.arange(len(a))
            covariance[:, at, at] += settings.noise[:, None] + JITTER
        return covariance


def expected_improvement(mean: Floats, deviation: Floats, *, lowest: float) -> Floats:
    """Return the expected improvement on the lowest value so far, of normal predictions."""
    z = (lowest - mean) / deviation
    density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    gain: Floats = deviation * np.maximum(z * normal_below(z) + density, 0.0)
    return gain


def central(points: Floats, rng: np.random.Generator) -> Floats:
    """Return a score of each point, the higher the nearer it is to the middle of every range."""
    score: Floats = 0.5 * rng.random(len(points)) - np.abs(points - 0.5).sum(axis=1)
    return score


def apart(points: Floats, taken: Floats, rng: np.random.Generator) -> Floats:
    """Return a score of each point: of a random few the distance to the nearest taken point, of the others 0."""
    score = np.zeros(len(points))
    some = rng.choice(len(points), min(len(points), CONSIDERED), replace=False)
    score[some] = np.abs(points[some, None, :] - taken[None, :, :]).sum(axis=2).min(axis=1)
    return score


def chance_to_fit(known: Floats, needs: Floats, points: Floats, *, limit: float) -> Floats:
    """Return the chance of each point to need at most the limit of a resource.

    The logarithm of the need is regressed on the positions and their products: needs are mostly products of sizes.
    """
    count, noise = known.shape[1], 1e-3
    precision = np.concatenate([[0.1], np.full(count, 1.0), np.full(count * (count + 1) // 2, 30.0)])
    target = np.log(needs)
    a, b = _terms(known), _terms(points)
    covariance = np.linalg.inv(a.T @ a / noise + np.diag(precision))
    weights = covariance @ (a.T @ (target - target.mean())) / noise
    deviation = np.sqrt(np.einsum("ij,jk,ik->i", b, covariance, b) + 1e-4)
    return normal_below((math.log(limit) - target.mean() - b @ weights) / deviation)


def normal_below(z: Floats) -> Floats:
    """Return the standard normal distribution function."""
    return np.array([0.5 * math.erfc(-each / math.sqrt(2.0)) for each in z])


def _terms(x: Floats) -> Floats:
    """Return 1, the positions, and the products of two."""
    first, second = np.triu_indices(x.shape[1])
    return np.column_stack([np.ones(len(x)), x, x[:, first] * x[:, second]])
