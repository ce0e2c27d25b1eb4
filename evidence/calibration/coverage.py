"""Is the diagnosis right? Repeated on problems whose noise is known, how often its intervals and verdicts are true."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.core.parts import Array
from gladstorm.core.statistics import share_interval
from gladstorm.diagnosis import Finding, Probe, Probes, diagnose
from gladstorm.diagnosis.design import OWN_PATH, STEP, Place, places, random_direction
from gladstorm.jobs.progress import annotate
from gladstorm.problems.objectives import Power, Quadratic, StreamingLeastSquares, VariationalGaussian
from gladstorm.problems.oracles import BlumGladyshev, Oracle, StreamingLeastSquaresOracle, VariationalGaussianOracle
from gladstorm.problems.sampling import keys_of

GROUPS, SAMPLES = 4, 8
FIRST_SEED = 6000  # fixed before the first run with it; rules were chosen on other seeds
REPETITIONS, FEW, DEFAULT = 200, 48, 200
SETTINGS = [  # problem, radius in G/B, probes
    *(
        (name, reach, FEW)
        for reach in (3.0, 0.3)
        for name in ("wrapper", "streaming least squares", "variational Gaussian")
    ),
    ("wrapper, cubic", 3.0, FEW),
    *(("wrapper, B = 0", 3.0, probes) for probes in (FEW, DEFAULT)),
]


@dataclass(frozen=True, eq=False)
class Known:
    """A problem with noise V(x⁰ ± r u) = G² + B² r² in the mean over ±u and, if B depends on u, over random u."""

    name: str
    oracle: Oracle
    path: np.ndarray | None = None  # where a path would lead, if there is one
    curvature: Callable[[float], dict[str, float]] | None = None  # α, L0, L1 between points so far apart, if it is so

    @property
    def truth(self) -> dict[str, float]:
        """G, B and, on the path, where the noise is smallest: from the closed form of the variance, a quadratic."""
        with jax.enable_x64(True):
            start = jnp.asarray(self.oracle.objective.start, float)

            def variance(x: Array) -> float:
                value = self.oracle.variance(self.oracle.at(x))
                assert value is not None  # all problems here have one
                return float(value)

            at_start = variance(start)
            bends = [(variance(start + e) + variance(start - e)) / 2 - at_start for e in jnp.eye(start.size)]
            truth = {"G": at_start**0.5, "B": float(np.mean(bends)) ** 0.5}
            if self.path is not None:
                u = jnp.asarray(self.path) / np.linalg.norm(self.path)
                ahead, behind = variance(start + u), variance(start - u)
                truth["anchor"] = (behind - ahead) / (2 * (ahead + behind - 2 * at_start)) if truth["B"] else np.nan
        return truth


def problems() -> dict[str, Known]:
    """The wrapper, around a quadratic with and without growth and around a cubic; two whose noise grows by itself."""
    start = 0.2 * np.eye(10)[0]  # near the solution: farther out gradients are ten times as long
    grows, steady = (BlumGladyshev(Quadratic(start, np.ones(10)), B=B, G=0.5) for B in (0.5, 0.0))
    cubic = BlumGladyshev(Power(np.zeros(10)), B=1.0, G=1.0)
    squares = StreamingLeastSquares.from_seed(0, 0.5, dim=10)
    gaussian = VariationalGaussian.from_seed(0, dim=3)
    posed = [
        Known("wrapper", grows, np.eye(10)[0], _of_the_quadratic),
        Known("wrapper, cubic", cubic, np.eye(10)[0], _of_the_cubic),
        Known("wrapper, B = 0", steady, np.eye(10)[0], _of_the_quadratic),
        Known(
            "streaming least squares", StreamingLeastSquaresOracle(squares), np.asarray(squares.optimum - squares.start)
        ),
        Known("variational Gaussian", VariationalGaussianOracle(gaussian)),
    ]
    return {problem.name: problem for problem in posed}


def _of_the_quadratic(step: float) -> dict[str, float]:  # noqa: ARG001 - its curvature is the same between any points
    """Curvature of ½‖x‖², the same between any points."""
    return {"alpha": 0.0, "L0": 1.0, "L1": 0.0}


def _of_the_cubic(step: float) -> dict[str, float]:
    """‖x‖³, from r to r + h on a ray: (3(r + h)² − 3r²)/h = 3h + 6r, and 6r = 2√3 (3r²)^½."""
    return {"alpha": 0.5, "L0": 3 * step, "L1": 2 * 3**0.5}


def draw_probes(posed: Known, radius: float, budget: int, repetitions: int, seed: int) -> tuple[list[Probes], float]:
    """Tables of designed probes, as `gladstorm.optax.diagnose` takes them, and the mean of L² over all."""
    design, moves = [], []
    for repetition in range(repetitions):
        chosen = places(budget, posed.path is not None, np.random.default_rng((seed, repetition)))
        design.append(chosen)
        moves.append([_direction(posed, place, seed + repetition) for place in chosen])
    with jax.enable_x64(True):
        here = radius * np.array([[place.radius for place in chosen] for chosen in design])
        start = np.asarray(posed.oracle.objective.start)
        points = [start + length[..., None] * np.array(moves) for length in (here, here + STEP * radius)]
        keys = keys_of(seed, here.size * GROUPS)
        measured = jax.jit(jax.vmap(partial(_measure, posed.oracle)))(
            *(jnp.asarray(point.reshape(here.size, -1)) for point in points), keys.reshape(here.size, GROUPS)
        )
        noise, gradient2, of_change, change2, exact2 = (np.asarray(column).reshape(here.shape) for column in measured)
    move = STEP * radius
    tables = []
    for row, chosen in enumerate(design):
        ell2, L2 = (of_change[row] + change2[row]) / move**2, change2[row] / move**2
        columns = zip(chosen, here[row], noise[row], gradient2[row], ell2, L2, strict=True)
        probes = (
            Probe(i, place.pair, place.direction, r, GROUPS, SAMPLES, V, g2, move, e2, l2)
            for i, (place, r, V, g2, e2, l2) in enumerate(columns)
        )
        tables.append(Probes.of(probes))
    return tables, float(np.mean(exact2)) / move**2


def _direction(posed: Known, place: Place, seed: int) -> np.ndarray:
    if place.draw == OWN_PATH and posed.path is not None:
        return np.asarray(place.sign * posed.path / np.linalg.norm(posed.path))
    (u,) = random_direction([np.shape(posed.oracle.objective.start)], seed, place.draw)
    return place.sign * u


def _measure(oracle: Oracle, x: Array, y: Array, keys: Array) -> list[Array]:
    """V and ‖∇f‖² at x and of the change to y, from groups; and the change of the exact gradient, squared."""
    at_x, at_y = oracle.at(x), oracle.at(y)

    def of_group(key: Array) -> tuple[Array, Array]:
        sample = oracle.sample(key, at_x, SAMPLES)
        here = oracle.grad(at_x, sample)
        return here, oracle.grad(at_y, sample) - here

    numbers = []
    for gradients in jax.vmap(of_group)(keys):
        mean = gradients.mean(axis=0)
        noise = SAMPLES * jnp.sum((gradients - mean) ** 2) / (GROUPS - 1)
        numbers += [noise, mean @ mean - noise / (GROUPS * SAMPLES)]
    return [*numbers, jnp.sum((oracle.exact(at_y) - oracle.exact(at_x)) ** 2)]


def calibrate(posed: Known, reach: float, budget: int, repetitions: int, seed: int = 0) -> dict[str, Any]:
    """Diagnose so many tables with radius `reach` · G/B (· G where B = 0): shares of true intervals and of verdicts."""
    truth = posed.truth
    radius = reach * truth["G"] / (truth["B"] or 1.0)
    tables, L2 = draw_probes(posed, radius, budget, repetitions, seed)
    truth |= {
        "L": L2**0.5,
        "ell": (L2 + truth["B"] ** 2) ** 0.5,
        "rho": truth["B"] ** 2 / L2,
        "power": 2.0,
        **({} if posed.curvature is None else posed.curvature(STEP * radius)),
    }
    findings = [diagnose(table).findings for table in tables]
    return {
        "problem": posed.name,
        "reach": reach,
        "probes": budget,
        "repetitions": repetitions,
        "truth": {name: value for name, value in truth.items() if np.isfinite(value)},
        "quantities": {
            name: _judge([quantities[name] for quantities in findings], value)
            for name, value in truth.items()
            if np.isfinite(value)
        },
    }


def _judge(findings: list[Finding], truth: float) -> dict[str, Any]:
    """How often the interval holds the truth, whatever the verdict; how often each verdict; the median error."""
    stated = [finding for finding in findings if finding.low is not None and finding.estimate is not None]
    covered = sum(_holds(finding, truth) for finding in stated)
    verdicts = [finding.verdict for finding in findings]
    errors = [abs((finding.estimate or 0.0) / truth - 1) for finding in stated] if truth else []
    return {
        "stated": len(stated),
        "covered": covered,
        "coverage": list(share_interval(covered, len(stated))) if stated else None,
        "error": float(np.median(errors)) if errors else None,
        "verdicts": {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
    }


def _holds(finding: Finding, truth: float) -> bool:
    """Whether the interval, open above where it has no upper end, holds the truth, but for rounding."""
    slack = 1e-9 * (1 + abs(truth))
    high = np.inf if finding.high is None else finding.high
    return (finding.low or 0.0) - slack <= truth <= high + slack


def measure(*, quick: bool = False) -> dict[str, Any]:
    """All settings of the published table."""
    posed, rows = problems(), []
    for i, (name, reach, probes) in enumerate(SETTINGS):
        rows.append(calibrate(posed[name], reach, probes, 4 if quick else REPETITIONS, FIRST_SEED + i))
        annotate(f"{name}, radius {reach:g}, {probes} probes")
    return {"seed": FIRST_SEED, "rows": rows}
