"""A table of probes: what a mini-batch, cut into groups, tells about the noise and the smoothness at one point."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from gladstorm.core import equations

FORM = "gladstorm probes 1"
EUCLID, LAYERS = "euclid", "layers"  # norms in which distances, and gradients in the dual, are measured
IN_LAYERS = (
    "Distances are in the norm of the optimizer's steps, noise and gradients in its dual. The gradient is as long as "
    "mini-batches agree on it, so that the critical batch size is an upper end."
)
DIRECTIONS = ("start", "along", "against", "random", "path")  # where a probe lies, seen from x⁰
ON_THE_WAY = ("along", "path")  # those of a path: towards a checkpoint, or during a training


class Probe(NamedTuple):
    """Measurements of one mini-batch at a point x, and at a second point x⁺ if it was evaluated there too.

    Every estimate is unbiased and none is cut off at 0, so that means and fits of many are right: `gradient2` and `L2`
    may be negative.
    """

    step: int  #: the step of the training, or the number of the probe
    pair: int  #: the same for the two probes at x⁰ ± r u; any other probe has its own
    direction: str  #: start, along or against the path, random, or path for a probe during a training
    distance: float  #: r = ‖x − x⁰‖
    groups: int  #: m, the groups that the mini-batch is cut into
    samples: int  #: n, the samples in a group
    noise: float  #: V, the variance of one sample's gradient
    gradient2: float  #: ‖∇f(x)‖²
    moved: float  #: ‖x⁺ − x‖; NaN without a second point, and so are the two that follow
    ell2: float  #: E‖∇f(x⁺; ξ) − ∇f(x; ξ)‖²/‖x⁺ − x‖² of one sample
    L2: float  #: ‖∇f(x⁺) − ∇f(x)‖²/‖x⁺ − x‖²
    first: float = math.nan  #: ‖g‖ of the first half of the groups; NaN where it was not taken, and so is the next
    second: float = math.nan  #: ‖g‖ of the second half


def spread(squares: Sequence[float], total2: float, samples: int) -> tuple[float, float]:
    """Unbiased estimates of the variance of one sample's gradient and of ‖∇f‖², from the gradients g_i of m groups.

    They are n (Σ‖g_i‖² − m‖ḡ‖²)/(m − 1) and the mean of ⟨g_i, g_j⟩ over i ≠ j. For two halves that is
    (n/2)‖g_A − g_B‖² and ⟨g_A, g_B⟩.

    Args:
        squares: ‖g_i‖² of each group.
        total2: ‖Σ g_i‖², the squared length of their sum.
        samples: n, the samples in a group.

    >>> spread([1.0, 9.0], 16.0, samples=4)  # g_A = 1, g_B = 3
    (8.0, 3.0)
    """
    noise, gradient2 = equations.noise_and_gradient2(len(squares), float(sum(squares)), total2)
    return samples * noise, gradient2


@dataclass(frozen=True, eq=False)
class Probes:
    """A table of probes: every field of `Probe` is a column."""

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
    first: np.ndarray
    second: np.ndarray
    remarks: tuple[str, ...] = ()  #: sentences about what happened while the probes were taken
    norm: str = EUCLID  #: "euclid", or "layers" where noise and distances are in the norms of each layer

    @classmethod
    def of(cls, rows: Iterable[Probe], remarks: Iterable[str] = (), norm: str = EUCLID) -> Self:
        """Make a table of probes.

        Args:
            rows: The probes, at least one.
            remarks: Sentences about what happened while they were taken.
            norm: In which norm they are: "euclid", or "layers".
        """
        taken = list(rows)
        if not taken:
            raise ValueError("probes: there must be at least one probe; got none.")
        columns = dict(zip(Probe._fields, map(np.asarray, zip(*taken, strict=True)), strict=True))
        return cls(**columns, remarks=tuple(remarks), norm=norm)

    def __len__(self) -> int:
        return len(self.noise)

    @property
    def radius(self) -> float:
        """The largest distance from the start."""
        return float(self.distance.max())

    @property
    def has_path(self) -> bool:
        """Whether some probes lie on a path; probes at the start and in random directions tell nothing about one."""
        return bool(np.isin(self.direction, ON_THE_WAY).any())

    def ends(self, share: int, fewest: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the probes at the start and at the end of the path; of a run, those of its first and last part."""
        along = self.direction == "along"
        if along.any():
            farthest = along & (self.distance > 0.999 * self.distance[along].max())
            return np.flatnonzero(self.direction == "start"), np.flatnonzero(farthest)
        run = np.flatnonzero(np.isin(self.direction, ("start", "path")))
        ordered, count = run[np.argsort(self.step[run], kind="stable")], max(len(run) // share, min(len(run), fewest))
        return ordered[:count], ordered[len(run) - count :]

    def paired(self) -> Self:
        """The table with one row for each pair of probes at x⁰ ± r u: their mean, with the degrees of freedom of both.

        In the mean, what is odd in the direction cancels. The two probes of a pair share a random direction, so only
        different pairs are independent.
        """
        pairs, member, sizes = np.unique(self.pair, return_inverse=True, return_counts=True)
        first = np.array([np.flatnonzero(member == i)[0] for i in range(len(pairs))])
        columns = {name: getattr(self, name)[first] for name in Probe._fields}
        for name in ("distance", "noise", "gradient2", "ell2", "L2"):
            columns[name] = np.bincount(member, getattr(self, name)) / sizes
        columns["groups"] = 1 + np.bincount(member, self.groups - 1).astype(int)
        return replace(self, **columns)

    def save(self, path: str | Path) -> None:
        """Write the table as a parquet file; never half a file."""
        import pyarrow as pa  # half a second that only files should take

        from gladstorm.jobs.files import save_table

        columns = {name: getattr(self, name) for name in Probe._fields}
        save_table(Path(path), [pa.table(columns)], FORM, {"remarks": list(self.remarks), "norm": self.norm})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote. A damaged file, or another kind of file, raises a ValueError."""
        from gladstorm.jobs.files import load_table

        table, metadata = load_table("diagnose", Path(path), FORM)
        defaults = Probe._field_defaults  # columns that the first files did not have
        columns = {
            name: table[name].to_numpy() if name in table.column_names else np.full(len(table), defaults[name])
            for name in Probe._fields
        }
        probes = cls(**columns, remarks=tuple(metadata["remarks"]), norm=metadata.get("norm", EUCLID))
        if not len(probes) or min(probes.groups) < 2 or min(probes.samples) < 1 or min(probes.distance) < 0:
            raise ValueError(
                f"diagnose: {path} must hold probes of two groups or more, with samples in each; got others, or none. "
                "Take them with a NoiseProbe."
            )
        return probes
