"""Shapes to begin a search with: what is known to be bad for normalized methods, with random numbers in it.

- `pushed`: noise that is rare and large, on a slope that begins at x⁰. A method that follows the sign of an average of
  few samples follows the typical one, and climbs.
- `slid`: a wide bowl, as steep as the class admits, under fair coins. x stays where f' cancels the error of v.
- `carried`: a stretch without noise, slightly downhill, to where BG-0 admits more of it; there `pushed`.
- `descended`: the whole gap as one slope and then a valley, as narrow as the class admits: what bounds pay Δ/(γT) and
  the curvature for.
- `rolled`: a bowl as deep as the gap. x rolls down and then steps to and fro across the bottom, where a parabola as
  steep as the class admits makes every inequality of the proof without noise an equality.
"""

from typing import Final

import numpy as np

from gladstorm.worst.family import FREE, ProblemClass, Shape

FAIR: Final = 1e12  # a rarity that is cut off at q = 1/2


def propose(rng: np.random.Generator, of: ProblemClass, *, with_gap: bool) -> np.ndarray:
    """Draw one vector, of a random kind. Without noise only the last two are of use, and they take the gap."""
    kinds = [_pushed, _slid, _carried, *([_descended] if with_gap else [])]
    if of.statement.noise == "deterministic":
        kinds = [_descended, _rolled]
    kind, free = kinds[rng.integers(len(kinds))], (2, FREE)
    widths, rarity = np.full(free, _log(rng, 0.03, 3)), np.array([_log(rng, 0.1, 0.8), _log(rng, 0.1, 100)])
    shape = Shape(widths, np.zeros(free), np.zeros((*free, 2)), np.zeros(3), rarity)
    kind(shape, rng, of)
    return shape.to_vector()


def _pushed(shape: Shape, rng: np.random.Generator, of: ProblemClass) -> None:
    _slope(shape, 0, 0.0, rng, of)
    shape.c[..., 0], shape.start[1] = 1.0, 1.0
    shape.u[0] = -_log(rng, 0.1, 10)


def _slid(shape: Shape, rng: np.random.Generator, of: ProblemClass) -> None:
    steep = _log(rng, 0.1, 1)
    shape.widths[:, 0], shape.widths[:, 1:] = _log(rng, 0.1, 0.8), _log(rng, 0.1, 100)
    lengths = shape.widths * np.array([of.reach, *[of.memory] * (FREE - 1)])
    shape.u[:] = np.outer([-1, 1], np.ones(FREE)) * np.cumsum(lengths, axis=1) * steep * of.steepest(0.0) / of.level
    shape.c[..., 0], shape.start[1] = 1.0, 1.0
    shape.c[1, :, 0] = rng.choice([1.0, 0.0])
    shape.q[:] = FAIR if rng.random() < 0.7 else shape.q


def _carried(shape: Shape, rng: np.random.Generator, of: ProblemClass) -> None:
    width = rng.uniform(0.1, 0.9)
    downhill = -_log(rng, 0.02, 0.8) * of.statement.problem.gap / (width * of.reach) / of.level
    shape.widths[1, 0], shape.u[1, 0], shape.start[0] = width, downhill, downhill
    shape.widths[1, 1], shape.u[1, 1] = _log(rng, 0.01, 1), downhill
    _slope(shape, 2, shape.widths[1, 0] * of.reach, rng, of)
    shape.c[1, 1:, 0] = 1.0
    shape.u[0] = -_log(rng, 0.1, 10)


def _descended(shape: Shape, rng: np.random.Generator, of: ProblemClass) -> None:
    width = _log(rng, 0.02, 1.1)
    downhill = -of.statement.problem.gap / (width * of.reach) / of.level
    shape.widths[1, 0], shape.u[1, 0], shape.start[0] = width, downhill, downhill
    shape.u[1, 1:], shape.u[0] = -downhill, downhill
    shape.widths[1, 1:] = 2 * -downhill * of.level / of.steepest(0.0) / of.memory * _log(rng, 1, 10)
    shape.c[..., 0], shape.start[1] = 1.0, 1.0


def _rolled(shape: Shape, rng: np.random.Generator, of: ProblemClass) -> None:
    steep = of.steepest(0.0) * rng.choice([1.0, _log(rng, 0.1, 1)])
    top = np.sqrt(2 * of.statement.problem.gap * steep)
    shape.start[0], shape.u[0], shape.u[1] = -top / of.level, -top / of.level, top / of.level
    shape.widths[1, 0] = 2 * top / steep / of.reach


def _slope(shape: Shape, piece: int, distance: float, rng: np.random.Generator, of: ProblemClass) -> None:
    """Let f' rise, from this piece to the right, to about what the typical sample is off by, and stay there.

    That is √q times the noise's deviation. The piece where it rises is up to three times as wide as it must be.
    """
    typical = np.sqrt(shape.q[0] * of.eta) * of.deviation(max(distance, 0.1 * of.reach))
    top = rng.uniform(0.5, 1.2) * typical
    shape.u[1, piece:] = top / of.level
    shape.widths[1, piece] = top / of.steepest(0.0) / (of.memory if piece else of.reach) * _log(rng, 1, 3)


def _log(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
