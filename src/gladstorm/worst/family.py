"""From any vector of numbers to a problem inside a class: whatever a search proposes, its constants are certified.

A problem is laid out from x⁰ to both sides, piece by piece. What a vector proposes for the end of a piece is
approached as far as the class admits, so slopes never exceed what is allowed; a last piece on each side brings f' to a
sign that keeps f bounded below; and f is made flatter, if need be, until f(x⁰) − inf f is at most the gap of the class.

- f ∈ L*_sym(α): |f''| ≤ L0 + L1 |f'|^α on every piece, at its smallest |f'|. Multiplying f by t ≤ 1 keeps that.
- Samples, where a method takes differences of one sample: with σ(x) c(x) the deviations of the two channels,
  E|∇f(y; ξ) − ∇f(x; ξ)|² = |f'(y) − f'(x)|² + ‖σ(y) c(y) − σ(x) c(x)‖², hence on a piece of width h at most |y − x|²
  times f''² + (‖Δc‖ σ/h + B ‖c‖)², with σ and ‖c‖ at their largest there: at most L² for mean-square smoothness.
  For E L*_sym(α) it is, by Jensen's inequality, at most (L0 + L1 |f'|)² if α = 1, L0² + L1² |f'|^{2α} if ½ ≤ α < 1,
  and L0² below. Pieces add up by Minkowski's inequality. The part of the noise alone is at most L0² (L²), and then
  multiplying f by t ≤ 1 keeps this, too: t² (A − n²) + n² ≤ L0² + t^{2α} (A − L0²) for n² ≤ L0² ≤ A.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from gladstorm.theory import Statement
from gladstorm.worst.line import Line, LineNoise

PIECES: Final = 5  # on each side of x⁰, the last of which brings f' to its sign
FREE: Final = PIECES - 1
ROUNDING: Final = 1e-9  # kept away from every limit
HALVINGS: Final = 40

Channels = tuple[float, float]  # c, the share of each channel in the noise


@dataclass(frozen=True)
class Node:
    """x, f'(x) and c(x)."""

    x: float
    u: float
    c: Channels


@dataclass(frozen=True)
class ProblemClass:
    """What a statement's class admits, and the scales of its run, which are the units of a `Shape`."""

    statement: Statement
    horizon: int

    @property
    def eta(self) -> float:
        """η."""
        return self.statement.schedule(self.horizon).eta

    @property
    def gamma(self) -> float:
        """γ."""
        return self.statement.schedule(self.horizon).gamma

    @property
    def reach(self) -> float:
        """γ T: as far as a run can go."""
        return self.gamma * self.horizon

    @property
    def memory(self) -> float:
        """γ/η: as far as a run can go while v remembers a sample."""
        return self.gamma / self.eta

    @property
    def level(self) -> float:
        """A gradient norm that the bound's noise, drift and curvature amount to: the unit of f'."""
        kept = [term.value for term in self.statement.terms(self.horizon) if "gap" not in term.name]
        return math.fsum(kept) / 4

    def deviation(self, distance: float) -> float:
        """σ: the largest deviation of a sample at this distance from x⁰."""
        return math.hypot(self.statement.problem.B * distance, self.statement.problem.G)

    @property
    def largest_share(self) -> float:
        """What ‖c‖ may be: less than 1 where samples must not differ by as much as noise of all variance would."""
        B = self.statement.problem.B
        if not self.takes_differences or B == 0:
            return 1.0
        return min(1.0, (1 - ROUNDING) * self.differing(0.0) / B)

    def steepest(self, u: float) -> float:
        """How large |f''| may be where |f'| is u or more."""
        s = self.statement
        if s.smoothness == "smooth":
            return s.L if s.corrects_drift else s.L0
        return s.L0 + s.L1 * math.pow(u, s.problem.alpha)

    def differing(self, u: float) -> float:
        """How fast samples may differ, in mean square, where |f'| is u or more."""
        s, alpha = self.statement, self.statement.problem.alpha
        if s.smoothness == "smooth" or alpha == 1:
            return self.steepest(u)
        return math.hypot(s.L0, s.L1 * math.pow(u, alpha)) if alpha >= 1 / 2 else s.L0

    def admits(self, begin: Node, other: Node) -> bool:
        """Whether a piece between two nodes is in the class; x⁰ = 0."""
        h = abs(other.x - begin.x)
        curvature = abs(other.u - begin.u) / h
        smallest = 0.0 if begin.u * other.u <= 0 else min(abs(begin.u), abs(other.u))
        if not self.takes_differences:
            return curvature <= (1 - ROUNDING) * self.steepest(smallest)
        turning = math.dist(begin.c, other.c) / h * max(self.deviation(begin.x), self.deviation(other.x))
        growing = self.statement.problem.B * max(math.hypot(*begin.c), math.hypot(*other.c))
        noise, rounded = turning + growing, 1 - ROUNDING / 2
        if noise > rounded * self.differing(0.0):  # so that f may be made flatter
            return False
        return math.hypot(curvature, noise) <= rounded * self.differing(smallest)

    @property
    def takes_differences(self) -> bool:
        """Whether samples must be smooth, not f alone."""
        return self.statement.corrects_drift and self.statement.noise != "deterministic"


@dataclass(frozen=True)
class Shape:
    """What a vector of numbers proposes: f' in units of the level, shares of the noise, rarities in η, and widths.

    The piece next to x⁰ is measured in γT, a share of the run; those behind it in γ/η, as far as v remembers.
    """

    widths: np.ndarray  # (side, piece)
    u: np.ndarray  # (side, piece): f' at the far end of each piece
    c: np.ndarray  # (side, piece, channel)
    start: np.ndarray  # f', c₁, c₂ at x⁰
    q: np.ndarray  # of each channel

    @classmethod
    def from_vector(cls, vector: np.ndarray) -> Shape:
        """Any vector of `SIZE` numbers."""
        free = (2, FREE)
        widths, u, c, start, q = np.split(vector, np.cumsum([2 * FREE, 2 * FREE, 4 * FREE, 3]))
        return cls(np.exp(widths).reshape(free), u.reshape(free), c.reshape(*free, 2), start, np.exp(q))

    def to_vector(self) -> np.ndarray:
        """The vector."""
        return np.concatenate([np.log(self.widths).ravel(), self.u.ravel(), self.c.ravel(), self.start, np.log(self.q)])


SIZE: Final = 8 * FREE + 5


def instance(vector: np.ndarray, of: ProblemClass) -> LineNoise:
    """The problem a vector stands for in a class: x⁰ = 0."""
    shape, problem = Shape.from_vector(vector), of.statement.problem
    first = Node(0.0, float(shape.start[0]) * of.level, _share(shape.start[1:], of))
    left, right = (_laid_out(shape, side, first, of) for side in (0, 1))
    nodes = [*reversed(left), first, *right]
    x, u, c = (np.array([getattr(node, name) for node in nodes]) for name in ("x", "u", "c"))
    lowest = _lowest(x, u)
    gap = _value(x, u, 0.0) - lowest
    flatter = 1.0 if gap <= problem.gap else (1 - ROUNDING) * problem.gap / gap
    width = np.diff(x)
    line = Line(np.zeros(1), x[:-1], width, flatter * np.diff(u) / width, flatter * u[0], flatter * lowest)
    q = np.clip(shape.q * of.eta, 1e-9, 1 / 2)
    return LineNoise(line, problem.B, problem.G, q, c[0], np.diff(c, axis=0) / width[:, None])


def gap(oracle: LineNoise) -> float:
    """f(x⁰) − inf f."""
    line = oracle.objective
    x = np.append(line.left, line.left[-1] + line.width[-1])
    u = np.cumsum(np.append(line.first, line.slope * line.width))
    return max(0.0, _value(x, u, float(line.start[0])) - line.f_inf)


def _laid_out(shape: Shape, side: int, first: Node, of: ProblemClass) -> list[Node]:
    """The nodes to one side of x⁰, the nearest first."""
    outwards = (-1.0, 1.0)[side]
    nodes = [first]
    for piece in range(FREE):
        width = float(shape.widths[side, piece]) * (of.reach if piece == 0 else of.memory)
        wanted = Node(
            nodes[-1].x + outwards * min(width, of.reach),
            float(shape.u[side, piece]) * of.level,
            _share(shape.c[side, piece], of),
        )
        nodes.append(_closest(nodes[-1], wanted, of))
    last = nodes[-1]
    back = max(0.0, -outwards * last.u)  # how far f' is from a sign that keeps f bounded below
    growing = of.statement.problem.B * math.hypot(*last.c)
    slope = math.sqrt(max(of.differing(0.0) ** 2 - growing**2, 0.0)) if of.takes_differences else of.steepest(0.0)
    width = max(back / slope * (1 + 4 * ROUNDING), of.gamma)
    nodes.append(Node(last.x + outwards * width, last.u + outwards * back, last.c))
    return nodes[1:]


def _closest(begin: Node, wanted: Node, of: ProblemClass) -> Node:
    """The node nearest to the wanted one, at its x, that the class admits: by halving, as the nearest to `begin` is."""

    def part_way(t: float) -> Node:
        u = begin.u + t * (wanted.u - begin.u)
        c = (begin.c[0] + t * (wanted.c[0] - begin.c[0]), begin.c[1] + t * (wanted.c[1] - begin.c[1]))
        return Node(wanted.x, u, c)

    if of.admits(begin, part_way(1.0)):
        return part_way(1.0)
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if of.admits(begin, part_way(middle)) else (low, middle)
    return part_way(low)


def _share(c: np.ndarray, of: ProblemClass) -> Channels:
    scale = of.largest_share / max(1.0, float(np.linalg.norm(c)))
    return float(c[0]) * scale, float(c[1]) * scale


def _value(x: np.ndarray, u: np.ndarray, at: float) -> float:
    """∫ f' from the first node."""
    inside = np.unique(np.clip(np.append(x, at), x[0], min(at, x[-1]))) if at > x[0] else x[:1]
    slopes = np.interp(inside, x, u)
    return float(np.sum(np.diff(inside) * (slopes[1:] + slopes[:-1]) / 2))


def _lowest(x: np.ndarray, u: np.ndarray) -> float:
    """inf f, with f = 0 at the first node: at a node or where f' is 0."""
    rising = (u[:-1] < 0) & (u[1:] > 0)
    zeros = x[:-1][rising] - u[:-1][rising] * np.diff(x)[rising] / np.diff(u)[rising]
    return min(_value(x, u, float(at)) for at in (*x, *zeros))
