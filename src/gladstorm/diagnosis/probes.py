"""A table of probes: what a mini-batch, cut into groups, tells about the noise and the smoothness at one point."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

FORM = "gladstorm probes 1"
DIRECTIONS = ("start", "along", "against", "random", "path")  # where a probe lies, seen from x⁰


class Probe(NamedTuple):
    """One mini-batch at one point x, and at a second point x⁺ if it was evaluated there too.

    g_i is the mean gradient of group i of m, each of n samples. Every estimate is unbiased and none is clamped, so that
    means and fits of many are right: ‖∇f‖² and L² may come out negative.
    """

    step: int  # of the training, or the number of the probe
    pair: int  # the same for the two probes at x⁰ ± r u; for any other, its own
    direction: str
    distance: float  # r = ‖x − x⁰‖
    groups: int  # m
    samples: int  # n, in a group
    noise: float  # V, the variance of one sample's gradient
    gradient2: float  # ‖∇f(x)‖²
    moved: float  # ‖x⁺ − x‖; NaN without a second point, as the two that follow
    ell2: float  # E‖∇f(x⁺; ξ) − ∇f(x; ξ)‖²/‖x⁺ − x‖² of one sample
    L2: float  # ‖∇f(x⁺) − ∇f(x)‖²/‖x⁺ − x‖²


def spread(squares: Sequence[float], total2: float, samples: int) -> tuple[float, float]:
    """n (Σ‖g_i‖² − m‖ḡ‖²)/(m − 1) and the mean of ⟨g_i, g_j⟩ over i ≠ j, from each ‖g_i‖² and ‖Σ g_i‖².

    They estimate the variance of one sample and the squared length of the mean, without bias. For halves they are
    (n/2)‖g_A − g_B‖² and ⟨g_A, g_B⟩.

    >>> spread([1.0, 9.0], 16.0, samples=4)  # g_A = 1, g_B = 3
    (8.0, 3.0)
    """
    m, within = len(squares), float(sum(squares))
    across = (total2 - within) / (m * (m - 1))
    return samples * (within / m - across), across


@dataclass(frozen=True, eq=False)
class Probes:
    """Probes as columns, with what was remarked while they were taken."""

    step: np.ndarray
    pair: np.ndarray
    direction: np.ndarray
    distance: np.ndarray
    groups: np.ndarray
    samples: np.ndarray
    noise: np.ndarray
    gradient2: np.ndarray
    moved: np.ndarray
    ell2: np.ndarray
    L2: np.ndarray
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, rows: Iterable[Probe], remarks: Iterable[str] = ()) -> Self:
        """The table of some probes."""
        taken = list(rows)
        if not taken:
            raise ValueError("probes: there must be at least one probe; got none.")
        columns = dict(zip(Probe._fields, map(np.asarray, zip(*taken, strict=True)), strict=True))
        return cls(**columns, remarks=tuple(remarks))

    def __len__(self) -> int:
        return len(self.noise)

    @property
    def radius(self) -> float:
        """The largest distance from the start."""
        return float(self.distance.max())

    def paired(self) -> Self:
        """The table with one row for each pair, their mean, which has the degrees of freedom of both.

        What is odd in the direction cancels in it, and what a random direction has of its own is in both: it is the
        pairs that are independent.
        """
        pairs, member, sizes = np.unique(self.pair, return_inverse=True, return_counts=True)
        first = np.array([np.flatnonzero(member == i)[0] for i in range(len(pairs))])
        columns = {name: getattr(self, name)[first] for name in Probe._fields}
        for name in ("distance", "noise", "gradient2", "ell2", "L2"):
            columns[name] = np.bincount(member, getattr(self, name)) / sizes
        columns["groups"] = 1 + np.bincount(member, self.groups - 1).astype(int)
        return type(self)(**columns, remarks=self.remarks)

    def save(self, path: str | Path) -> None:
        """Write them as a parquet file, whole or not at all."""
        import pyarrow as pa  # half a second that only files should take

        from gladstorm.foundation.files import save_table

        columns = {name: getattr(self, name) for name in Probe._fields}
        save_table(Path(path), [pa.table(columns)], FORM, {"remarks": list(self.remarks)})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; a ValueError says when a file is damaged or something else."""
        from gladstorm.foundation.files import load_table

        table, metadata = load_table("diagnose", Path(path), FORM)
        columns = {name: table[name].to_numpy() for name in Probe._fields}
        return cls(**columns, remarks=tuple(metadata["remarks"]))
