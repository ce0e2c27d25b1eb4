"""How noisy the gradient is along a run, seen from the start and from the point where the noise is least."""

from typing import Any

import numpy as np

from gladstorm.core.rules import COUNT
from gladstorm.methods import Method
from gladstorm.problems.oracles import Oracle, measured_variance
from gladstorm.simulation.simulate import run
from gladstorm.theory import around_start


def noise_along_path(
    oracle: Oracle, method: Method, *, steps: int, points: int = 20, draws: int = 2000, seed: int = 0
) -> dict[str, Any]:
    """Measure the noise of an oracle that declares BG-0 constants at about so many iterates of a run.

    The iterates are the ends of runs of different lengths: a run's noise depends on its seed and step alone. `anchor`
    names a, the point around which the constants are declared.

    >>> from gladstorm import objectives, oracles, sgd
    >>> stream = oracles.StreamingLeastSquaresOracle(objectives.named("streaming-least-squares", dim=2))
    >>> path = noise_along_path(stream, sgd(0.05), steps=100, points=3, draws=100)
    >>> path["steps"].tolist(), path["anchor"]
    ([0, 50, 100], 'x*')
    """
    COUNT.require("noise_along_path", "steps", steps)
    COUNT.require("noise_along_path", "points", points)
    if oracle.bg0 is None:
        name = type(oracle).__name__
        raise ValueError(f"noise_along_path: oracle must declare BG-0 constants; got oracle={name} with bg0=None.")
    visited = np.unique(np.rint(np.linspace(0, steps, points)).astype(int))
    x = np.stack(
        [run(oracle, method, steps=int(k), seeds=[seed], records=1, progress=False).last[0, 0] for k in visited]
    )
    around_anchor, shifted = oracle.bg0, around_start(oracle.bg0, oracle.objective.start)
    from_start, variance = measured_variance(oracle, x, draws=draws, seed=seed)
    from_anchor = np.linalg.norm(x - np.asarray(around_anchor.anchor), axis=1)
    return {
        "steps": visited,  # k
        "from_start": from_start,  # ‖x^k − x⁰‖
        "from_anchor": from_anchor,  # ‖x^k − a‖
        "variance": variance,  # of a single sample, measured
        "allowed_from_start": shifted.B**2 * from_start**2 + shifted.G**2,  # by BG-0 with the constants around x⁰
        "allowed_from_anchor": around_anchor.B**2 * from_anchor**2 + around_anchor.G**2,  # and with those around a
        "anchor": around_anchor.where,
    }
