"""Problems inside a class, made of any vector of numbers: whatever a search proposes, its constants are certified.

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
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gladstorm.theory import Statement
from gladstorm.worst.line import LineProblem

PIECES: Final = 5  # on each side of x⁰, the last of which brings f' to its sign
FREE: Final = PIECES - 1
SIZE: Final = 8 * FREE + 5  # numbers of a vector
ROUNDING: Final = 1e-9  # the distance from every limit
HALVINGS: Final = 40


@dataclass(frozen=True)
class Node:
    """A point x with f'(x) and c(x), the share of each channel in the noise."""

    x: float
    u: float
    c: tuple[float, float]


@dataclass(frozen=True)
class ProblemClass:
    """A statement with its horizon: what its class admits, and the scales of its run, the units of a `Shape`."""

    statement: Statement
    horizon: int

    @property
    def eta(self) -> float:
        """Weight η of a new sample."""
        return self.statement.schedule(self.horizon).eta

    @property
    def gamma(self) -> float:
        """Length γ of a step."""
        return self.statement.schedule(self.horizon).gamma

    @property
    def reach(self) -> float:
        """γT, the largest distance of a run."""
        return self.gamma * self.horizon

    @property
    def memory(self) -> float:
        """γ/η, the largest distance while v remembers a sample."""
        return self.gamma / self.eta

    @property
    def level(self) -> float:
        """A quarter of the bound's terms about noise, drift and curvature: the unit of f'."""
        return math.fsum(term.value for term in self.statement.terms(self.horizon) if "gap" not in term.name) / 4

    @property
    def takes_differences(self) -> bool:
        """Whether samples must be smooth, not f alone."""
        return self.statement.corrects_drift and self.statement.noise != "deterministic"

    @property
    def largest_share(self) -> float:
        """Largest ‖c‖: less than 1 where samples must not differ by as much as noise of all variance would."""
        B = self.statement.problem.B
        if not self.takes_differences or B == 0:
            return 1.0
        return min(1.0, (1 - ROUNDING) * self.differing(0.0) / B)

    def deviation(self, distance: float) -> float:
        """σ, the largest deviation of a sample at this distance from x⁰."""
        return math.hypot(
            self.statement.problem.B * distance**self.statement.problem.half_growth, self.statement.problem.G
        )

    def steepest(self, u: float) -> float:
        """Largest |f''| where |f'| is u or more."""
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

    def admits(self, begin: Node, end: Node) -> bool:
        """Whether a piece between two nodes is in the class; x⁰ = 0."""
        h = abs(end.x - begin.x)
        curvature = abs(end.u - begin.u) / h
        smallest = 0.0 if begin.u * end.u <= 0 else min(abs(begin.u), abs(end.u))
        if not self.takes_differences:
            return curvature <= (1 - ROUNDING) * self.steepest(smallest)
        turn = math.dist(begin.c, end.c) / h * max(self.deviation(begin.x), self.deviation(end.x))
        noise = turn + self.statement.problem.B * max(math.hypot(*begin.c), math.hypot(*end.c))
        rounded = 1 - ROUNDING / 2
        if noise > rounded * self.differing(0.0):  # so that f may be made flatter
            return False
        return math.hypot(curvature, noise) <= rounded * self.differing(smallest)


@dataclass(frozen=True)
class Shape:
    """The proposal that a vector stands for: f' in units of the level, shares of the noise, rarities in η, and widths.

    The piece next to x⁰ is measured in γT, a share of the run; those behind it in γ/η, as far as v remembers.
    """

    widths: np.ndarray  # (side, piece)
    u: np.ndarray  # (side, piece): f' at the far end of each piece
    c: np.ndarray  # (side, piece, channel)
    start: np.ndarray  # f', c₁, c₂ at x⁰
    q: np.ndarray  # of each channel

    @classmethod
    def from_vector(cls, vector: np.ndarray) -> Shape:
        """Read any vector of `SIZE` numbers."""
        free = (2, FREE)
        widths, u, c, start, q = np.split(vector, np.cumsum([2 * FREE, 2 * FREE, 4 * FREE, 3]))
        return cls(np.exp(widths).reshape(free), u.reshape(free), c.reshape(*free, 2), start, np.exp(q))

    def to_vector(self) -> np.ndarray:
        """Write the vector that `from_vector` reads."""
        return np.concatenate([np.log(self.widths).ravel(), self.u.ravel(), self.c.ravel(), self.start, np.log(self.q)])


def instance(vector: np.ndarray, of: ProblemClass) -> LineProblem:
    """Build the problem of a class that a vector stands for."""
    shape = Shape.from_vector(vector)
    first = Node(0.0, float(shape.start[0]) * of.level, _share(shape.start[1:], of))
    nodes = [*reversed(laid_out(shape, 0, first, of)), first, *laid_out(shape, 1, first, of)]
    q1, q2 = np.clip(shape.q * of.eta, 1e-9, 1 / 2).tolist()
    x, slope, share = zip(*((node.x, node.u, node.c) for node in nodes), strict=True)
    problem, allowed = LineProblem(x, slope, share, (q1, q2)), of.statement.problem.gap
    gap = problem.gap()
    flatter = 1.0 if gap <= allowed else (1 - ROUNDING) * allowed / gap
    return replace(problem, slope=tuple(flatter * u for u in slope))


def laid_out(shape: Shape, side: int, first: Node, of: ProblemClass) -> list[Node]:
    """List the nodes to one side of x⁰, the nearest first."""
    outwards = (-1.0, 1.0)[side]
    nodes = [first]
    for piece in range(FREE):
        width = float(shape.widths[side, piece]) * (of.reach if piece == 0 else of.memory)
        x = nodes[-1].x + outwards * min(width, of.reach)
        wanted = Node(x, float(shape.u[side, piece]) * of.level, _share(shape.c[side, piece], of))
        nodes.append(closest(nodes[-1], wanted, of))
    last = nodes[-1]
    back = max(0.0, -outwards * last.u)  # how far f' is from a sign that keeps f bounded below
    noise = of.statement.problem.B * math.hypot(*last.c) if of.takes_differences else 0.0
    steepest = of.differing(0.0) if of.takes_differences else of.steepest(0.0)
    width = max(back / math.sqrt(max(steepest**2 - noise**2, 0.0)) * (1 + 4 * ROUNDING), of.gamma)
    nodes.append(Node(last.x + outwards * width, last.u + outwards * back, last.c))
    return nodes[1:]


def closest(begin: Node, wanted: Node, of: ProblemClass) -> Node:
    """Find the node nearest to the wanted one, at its x, that the class admits, by halving from `begin`."""

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


def _share(c: np.ndarray, of: ProblemClass) -> tuple[float, float]:
    scale = of.largest_share / max(1.0, float(np.linalg.norm(c)))
    return float(c[0]) * scale, float(c[1]) * scale
