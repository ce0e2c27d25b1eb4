"""The surroundings of a path of one or two numbers: f on a grid, and the noise of a stochastic gradient there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gladstorm.core.statistics import significant

if TYPE_CHECKING:
    from gladstorm.problems.oracle import Oracle
    from gladstorm.simulation.record import Record

NODES, NOISE_NODES, GRAPH_NODES = (49, 37), (9, 7), (241,)  # of f, of the noise, of f on a line
MOST, SURROUND, LEVELS, DIGITS = (0.03, 0.97), 0.2, 14, 4  # quantiles of points that the box holds, room around them
ASPECT = 1.6  # width of the box over its height: about that of a chart
DRAWS = 1024  # from which the covariance of the noise is estimated, the same at all nodes
TYPICAL = 0.15  # of the box: the largest standard deviation of a typical record's noise, as it is drawn


def landscapes(pairs: Sequence[tuple[Any, Record]], oracles: Sequence[Oracle]) -> dict[str, Any]:
    """f around the paths of records, and for each record its noise, JSON-ready.

    Records on one objective share a box and the scale of their noise, so that one can compare them. The box holds
    most recorded points that are not above the start. On a line, f itself is the second coordinate.
    """
    by_objective: dict[str, list[int]] = {}
    for group, (_, record) in enumerate(pairs):
        by_objective.setdefault(json.dumps(record.config["oracle"]["objective"]), []).append(group)
    made: list[dict[str, Any]] = []
    noises: list[dict[str, Any]] = [{} for _ in pairs]
    for groups in by_objective.values():
        oracle, records = oracles[groups[0]], [pairs[group][1] for group in groups]
        low, high = _box(records)
        axes = [
            np.linspace(a, b, n) for a, b, n in zip(low, high, NODES if low.size == 2 else GRAPH_NODES, strict=False)
        ]
        values = _values(oracle, _nodes(axes))
        smallest, largest = np.nanmin(values), np.nanmax(values)
        box = [*zip(low, high, strict=True)]
        if low.size == 1:
            box.append((smallest - SURROUND * (largest - smallest), largest))
        levels = smallest + (largest - smallest) * (np.arange(1, LEVELS + 1) / LEVELS) ** 2
        shape = [axis.size for axis in axes]
        made.append({"box": _short(box), "shape": shape, "values": _short(values), "levels": _short(levels)})
        coarse = [np.linspace(a, b, n) for a, b, n in zip(low, high, NOISE_NODES, strict=False)]
        covariances = [_covariances(oracles[group], _nodes(coarse)) for group in groups]
        size = np.sqrt(np.median([each[:, :2].sum(axis=1).max() for each in covariances]))
        scale = float(TYPICAL * (high[0] - low[0]) / size) if size > 0 else 0.0
        for group, each in zip(groups, covariances, strict=True):
            noises[group] = {"landscape": len(made) - 1, "shape": [axis.size for axis in coarse], "scale": scale}
            noises[group]["covariances"] = _short(each)
    return {"landscapes": made, "noises": noises}


def coordinates(record: Record) -> np.ndarray:
    """The path in a plane, over (configuration, seed, step, 2): x, or on a line x and f(x)."""
    if record.path.shape[-1] == 2:
        return record.path
    return np.concatenate([record.path, record.value[..., None]], axis=-1)


def _box(records: Sequence[Record]) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a box around the starts and most of the recorded points that are not above them."""
    entries = records[0].path.shape[-1]
    starts = np.concatenate([record.path[:, :, 0].reshape(-1, entries) for record in records])
    inside = np.concatenate([record.path[record.value <= record.value[..., :1]] for record in records])
    corners = np.concatenate([starts, np.quantile(inside, MOST, axis=0)])
    low, high = corners.min(axis=0), corners.max(axis=0)
    middle, half = (low + high) / 2, np.maximum((high - low) * (0.5 + SURROUND), 1e-3)
    if half.size == 2:
        half = np.maximum(half, [ASPECT * half[1], half[0] / ASPECT])
    return middle - half, middle + half


def _nodes(axes: Sequence[np.ndarray]) -> np.ndarray:
    """The nodes of a grid, row by row: the first coordinate changes fastest."""
    return np.stack([each.ravel() for each in np.meshgrid(*axes)], axis=-1)


def _values(oracle: Oracle, points: np.ndarray) -> np.ndarray:
    import jax

    with jax.enable_x64(True):
        return np.asarray(jax.vmap(oracle.objective.value)(jax.numpy.asarray(points)))


def _covariances(oracle: Oracle, points: np.ndarray) -> np.ndarray:
    """Var g_1, Var g_2 and Cov(g_1, g_2) of one sample's gradient at every point; of one number, zeros beside it."""
    import jax

    from gladstorm.problems.sampling import keys_of

    def noise(key: Any, x: Any) -> Any:
        point = oracle.at(x)
        return oracle.grad(point, oracle.sample(key, point)) - oracle.exact(point)

    with jax.enable_x64(True):
        keys = keys_of(0, DRAWS)
        drawn = np.asarray(jax.vmap(jax.vmap(noise, (0, None)), (None, 0))(keys, points))  # (point, draw, entry)
    second = np.einsum("pki,pkj->pij", drawn, drawn) / DRAWS
    if points.shape[1] == 1:
        return np.concatenate([second[:, 0], np.zeros((len(points), 2))], axis=1)
    return np.stack([second[:, 0, 0], second[:, 1, 1], second[:, 0, 1]], axis=1)


def _short(values: Any) -> list[Any]:
    """Nested lists of numbers, to some digits; None for what is not finite."""
    return [
        _short(each) if np.ndim(each) else significant(float(each), DIGITS) if np.isfinite(each) else None
        for each in values
    ]
