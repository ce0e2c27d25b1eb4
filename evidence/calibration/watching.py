"""Readings of a training: intervals of the critical batch size, of B at every look, and the bias of clipping."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from evidence.calibration.clipping import clip_bias
from evidence.calibration.coverage import GROUPS, SAMPLES, _holds, _measure
from gladstorm.core.statistics import finite, share_interval, significant
from gladstorm.diagnosis import Probe, Probes, spread
from gladstorm.diagnosis.clipping import clipping
from gladstorm.diagnosis.critical_batch import critical_batch
from gladstorm.diagnosis.readings import CriticalSequence, GrowthSequence
from gladstorm.jobs.progress import annotate
from gladstorm.problems.objectives import Power, Quadratic
from gladstorm.problems.oracles import BlumGladyshev, FullRankOracle, Oracle, Skewed
from gladstorm.problems.sampling import keys_of

SEED = 31000  # fixed before the first run with it
PROBES, REPETITIONS = 32, 200
RATIOS = (0.03, 1.0, 30.0)  # tr Σ/‖∇f‖²
RUNS, LOOKS = 1000, 150
GROWTHS = [(0.0, 4, "straight"), (1.0, 4, "slower"), (1.0, 10, "to and fro"), (5.0, 10, "straight")]
RUNNING = [(1.0, 4), (30.0, 100), (300.0, 1000), (2000.0, 1000)]  # ratios with the dimension of the noise
THRESHOLDS, HALVES = (0.3, 1.0, 2.0), 400
E1 = np.eye(10)[0]
NOTHING = (np.nan, np.nan, np.nan)


def problems(ratio: float) -> dict[str, Oracle]:
    """At e₁ each has tr Σ = ratio · ‖∇f‖², in closed form."""
    size = ratio**0.5
    near, origin = Quadratic(E1, np.ones(10)), Quadratic(np.zeros(10), np.ones(10))
    return {
        "normal noise, ½‖x‖²": BlumGladyshev(near, B=0.0, G=size),
        "normal noise, ‖x‖³": BlumGladyshev(Power(E1), B=0.0, G=3 * size),
        "rare and large noise": Skewed(near, B=0.0, G=size, q=0.1),
        "noise that has grown": FullRankOracle(origin, B=0.9**0.5 * size, G=0.1**0.5 * size),
    }


def of_batches(name: str, ratio: float, repetitions: int, seed: int) -> dict[str, Any]:
    """How often the interval of the critical batch size holds it, from tables of probes at one point."""
    oracle = problems(ratio)[name]
    with jax.enable_x64(True):
        x = jnp.asarray(E1)
        keys = keys_of(seed, (repetitions * PROBES, GROUPS))
        noise, gradient2, *_ = jax.jit(jax.vmap(partial(_measure, oracle, x, x)))(keys)
        rows = np.stack([noise, gradient2], axis=1).reshape(repetitions, PROBES, 2)
        truth = float(oracle.variance(oracle.at(x)) / jnp.sum(oracle.exact(oracle.at(x)) ** 2))  # type: ignore[operator]
    generator = np.random.default_rng(seed)
    findings = []
    for table in rows.tolist():
        probes = (Probe(i, i, "start", 0.0, GROUPS, SAMPLES, V, g2, *NOTHING) for i, (V, g2) in enumerate(table))
        findings.append(critical_batch(Probes.of(probes), generator))
    covered = sum(_holds(finding, truth) for finding in findings)
    return {
        "problem": name,
        "truth": truth,
        "repetitions": repetitions,
        "covered": covered,
        "coverage": list(share_interval(covered, repetitions)),
        "estimated": sum(finding.is_estimated for finding in findings),
    }


def of_sequences(B: float, freedom: int, way: str, runs: int, seed: int) -> dict[str, Any]:
    """In how many runs the running interval of B misses it at any look; V is gamma with so many degrees of freedom."""
    generator = np.random.default_rng(seed)
    missed, widths = 0, []
    for _ in range(runs):
        if way == "to and fro":
            distance = np.abs(np.cumsum(generator.normal(size=LOOKS))) / LOOKS**0.5
        else:
            distance = np.linspace(0, 1, LOOKS) ** (0.5 if way == "slower" else 1.0)
        noise = (1 + B**2 * distance**2) * generator.gamma(freedom / 2, size=LOOKS) * 2 / freedom
        sequence, missed_here = GrowthSequence(), False
        for r, V in zip(distance.tolist(), noise.tolist(), strict=True):
            sequence.update(r, V)
            interval = sequence.interval()
            missed_here = missed_here or not interval.low <= B <= interval.high
        missed += missed_here
        widths.append(interval.high - interval.low)
    width = float(np.median(widths))
    return {"B": B, "freedom": freedom, "way": way, "runs": runs, "looks": LOOKS, "missed": missed, "width": width}


def of_ratio(ratio: float, dim: int, runs: int, seed: int) -> dict[str, Any]:
    """In how many runs the running interval of the critical batch size misses it at any look at two groups of eight."""
    generator = np.random.default_rng(seed)
    missed, ends = 0, []
    for _ in range(runs):
        groups = generator.normal(size=(LOOKS, 2, dim)) / (8 * dim) ** 0.5
        groups[:, :, 0] += ratio**-0.5
        squares, totals = np.sum(groups**2, axis=2), np.sum(groups.sum(axis=1) ** 2, axis=1)
        sequence = CriticalSequence()
        every = [
            sequence.update(*spread(each.tolist(), float(total), 8))
            for each, total in zip(squares, totals, strict=True)
        ]
        missed += any(not each.low <= ratio <= each.high for each in every)
        ends.append(every[-1])
    low, high = (float(np.median([getattr(each, name) for each in ends])) for name in ("low", "high"))
    ends_of = {"low": significant(low, 3), "high": finite(significant(high, 3))}
    return {"ratio": ratio, "dim": dim, "runs": runs, "looks": LOOKS, "missed": missed, **ends_of}


def of_clipping(name: str, threshold: float, looks: int, seed: int) -> dict[str, Any]:
    """The bias of clipping by the simulator's exact gradient, and from halves of mini-batches of so many looks."""
    oracle = problems(4.0)[name]
    size = 3.0 if "‖x‖³" in name else 1.0  # ‖∇f‖
    with jax.enable_x64(True):
        point = oracle.at(jnp.asarray(E1))
        keys = keys_of(seed, (looks, 2))

        def half(key: Any) -> Any:
            return oracle.grad(point, oracle.batch(oracle.draw(key), jnp.asarray(2)))

        pairs = np.asarray(jax.jit(jax.vmap(jax.vmap(half)))(keys))
    rows = []
    for i, (A, B) in enumerate(pairs):
        V, norms = float(np.sum((A - B) ** 2)), (float(np.linalg.norm(A)), float(np.linalg.norm(B)))
        rows.append(Probe(i, i, "path", 1.0, 2, 2, V, float(A @ B), *NOTHING, *norms))
    estimate = clipping(Probes.of(rows), threshold * size, np.random.default_rng(seed))
    exact = clip_bias(oracle, E1, threshold * size, batch=2, seed=seed)
    return {
        "problem": name,
        "threshold": threshold,
        "looks": looks,
        "share": exact.share,
        "exact": exact.bias,
        **estimate.bias.as_dict(),
    }


def measure(*, quick: bool = False) -> dict[str, Any]:
    """All rows of the published tables."""
    names = list(problems(1.0))
    batches = [
        of_batches(name, ratio, 4 if quick else REPETITIONS, SEED + i)
        for i, (name, ratio) in enumerate((name, ratio) for name in names for ratio in RATIOS)
    ]
    annotate("critical batch sizes")
    sequences = [of_sequences(*each, 4 if quick else RUNS, SEED + 100 + i) for i, each in enumerate(GROWTHS)]
    annotate("running intervals of B")
    ratios = [of_ratio(*each, 4 if quick else RUNS // 5, SEED + 300 + i) for i, each in enumerate(RUNNING)]
    clipped = [
        of_clipping(name, threshold, 40 if quick else HALVES, SEED + 200 + i)
        for i, (name, threshold) in enumerate((name, c) for name in (names[0], names[2]) for c in THRESHOLDS)
    ]
    return {"seed": SEED, "batches": batches, "sequences": sequences, "ratios": ratios, "clipping": clipped}
