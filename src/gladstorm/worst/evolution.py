"""Covariance matrix adaptation: a search for the largest value of a noisy function of some tens of numbers.

The (μ/μ_w, λ) strategy of Hansen (arXiv:1604.00772) with the constants recommended there. Not the package `cmaes`: its
weights of the worse half are negative, so that from the second generation on it searches elsewhere even with the same
random numbers, and the published numbers of `worst` and `tightness` are those of this search.
"""

import math

import numpy as np


class Evolution:
    """A normal distribution that moves towards vectors of large value. `ask`, evaluate, `tell`, and again.

    `step` is σ, about how far from the mean the best vector may be, and `population` is λ.
    """

    def __init__(self, mean: np.ndarray, step: float, population: int, rng: np.random.Generator) -> None:
        self.mean, self.step, self.population, self.rng = mean, step, population, rng
        self._covariance, self._generation = np.eye(mean.size), 0
        self._path, self._covariance_path = np.zeros(mean.size), np.zeros(mean.size)

    def ask(self) -> np.ndarray:
        """λ vectors, a row each."""
        scales, axes = np.linalg.eigh(self._covariance)
        self._root = axes * np.sqrt(np.maximum(scales, 1e-20))
        self._drawn = self.rng.normal(size=(self.population, self.mean.size))
        asked: np.ndarray = self.mean + self.step * self._drawn @ self._root.T
        return asked

    def tell(self, values: np.ndarray) -> None:
        """The values of the vectors asked for last: the better half moves the mean, their spread the covariance."""
        n, best = self.mean.size, np.argsort(-values)[: self.population // 2]
        weights = math.log(self.population / 2 + 0.5) - np.log(np.arange(1, best.size + 1))
        weights /= weights.sum()
        mass = 1 / np.sum(weights**2)  # μ_eff
        for_path = (mass + 2) / (n + mass + 5)  # c_σ
        for_covariance = (4 + mass / n) / (n + 4 + 2 * mass / n)  # c_c
        one = 2 / ((n + 1.3) ** 2 + mass)  # c_1
        many = min(1 - one, 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass))  # c_μ
        damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (n + 1)) - 1) + for_path
        usual = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))  # E‖N(0, I)‖

        moves = self._drawn[best] @ self._root.T
        move, drawn = weights @ moves, weights @ self._drawn[best]
        axes = self._root / np.linalg.norm(self._root, axis=0)
        self.mean = self.mean + self.step * move
        self._generation += 1
        self._path = (1 - for_path) * self._path + math.sqrt(for_path * (2 - for_path) * mass) * (axes @ drawn)
        length = np.linalg.norm(self._path) / math.sqrt(1 - (1 - for_path) ** (2 * self._generation))
        steady = float(length < (1.4 + 2 / (n + 1)) * usual)
        self._covariance_path = (1 - for_covariance) * self._covariance_path + steady * move * math.sqrt(
            for_covariance * (2 - for_covariance) * mass
        )
        self._covariance = (
            (1 - one - many + one * (1 - steady) * for_covariance * (2 - for_covariance)) * self._covariance
            + one * np.outer(self._covariance_path, self._covariance_path)
            + many * (moves.T * weights) @ moves
        )
        self.step *= math.exp(for_path / damping * (np.linalg.norm(self._path) / usual - 1))
