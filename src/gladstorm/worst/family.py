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
FAIR: Final = 1e12  # a rarity that is cut off at q = 1/2


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


def propose(rng: np.random.Generator, of: ProblemClass, *, with_gap: bool) -> np.ndarray:
    """Draw one vector, a shape to begin a search with: what is known to be bad for normalized methods, made random.

    Without noise only the last two kinds are of use, and they take the gap.
    """
    kinds = [_pushed, _slid, _carried, *([_descended] if with_gap else [])]
    if of.statement.noise == "deterministic":
        kinds = [_descended, _rolled]
    kind, free = kinds[rng.integers(len(kinds))], (2, FREE)
    widths, rarity = np.full(free, _log(rng, 0.03, 3)), np.array([_log(rng, 0.1, 0.8), _log(rng, 0.1, 100)])
    shape = Shape(widths, np.zeros(free), np.zeros((*free, 2)), np.zeros(3), rarity)
    kind(shape, rng, of)
    return shape.to_vector()


def _pushed(shape: Shape, rng: np.random.Generator, of: ProblemClass) -> None:
    """Rare and large noise, on a slope that begins at x⁰: who follows the sign of an average of few samples climbs."""
    _slope(shape, 0, 0.0, rng, of)
    shape.c[..., 0], shape.start[1] = 1.0, 1.0
    shape.u[0] = -_log(rng, 0.1, 10)


def _slid(shape: Shape, rng: np.random.Generator, of: ProblemClass) -> None:
    """A wide bowl, as steep as the class admits, under fair coins: x stays where f' cancels the error of v."""
    steep = _log(rng, 0.1, 1)
    shape.widths[:, 0], shape.widths[:, 1:] = _log(rng, 0.1, 0.8), _log(rng, 0.1, 100)
    lengths = shape.widths * np.array([of.reach, *[of.memory] * (FREE - 1)])
    shape.u[:] = np.outer([-1, 1], np.ones(FREE)) * np.cumsum(lengths, axis=1) * steep * of.steepest(0.0) / of.level
    shape.c[..., 0], shape.start[1] = 1.0, 1.0
    shape.c[1, :, 0] = rng.choice([1.0, 0.0])
    shape.q[:] = FAIR if rng.random() < 0.7 else shape.q


def _carried(shape: Shape, rng: np.random.Generator, of: ProblemClass) -> None:
    """A stretch without noise, slightly downhill, to where BG-0 admits more of it; there as in `_pushed`."""
    width = rng.uniform(0.1, 0.9)
    downhill = -_log(rng, 0.02, 0.8) * of.statement.problem.gap / (width * of.reach) / of.level
    shape.widths[1, 0], shape.u[1, 0], shape.start[0] = width, downhill, downhill
    shape.widths[1, 1], shape.u[1, 1] = _log(rng, 0.01, 1), downhill
    _slope(shape, 2, shape.widths[1, 0] * of.reach, rng, of)
    shape.c[1, 1:, 0] = 1.0
    shape.u[0] = -_log(rng, 0.1, 10)


def _descended(shape: Shape, rng: np.random.Generator, of: ProblemClass) -> None:
    """The whole gap as one slope and then a valley as narrow as the class admits: what bounds pay Δ/(γT) for."""
    width = _log(rng, 0.02, 1.1)
    downhill = -of.statement.problem.gap / (width * of.reach) / of.level
    shape.widths[1, 0], shape.u[1, 0], shape.start[0] = width, downhill, downhill
    shape.u[1, 1:], shape.u[0] = -downhill, downhill
    shape.widths[1, 1:] = 2 * -downhill * of.level / of.steepest(0.0) / of.memory * _log(rng, 1, 10)
    shape.c[..., 0], shape.start[1] = 1.0, 1.0


def _rolled(shape: Shape, rng: np.random.Generator, of: ProblemClass) -> None:
    """A bowl as deep as the gap: x rolls down and then steps to and fro across the bottom.

    There a parabola as steep as the class admits makes every inequality of the proof without noise an equality.
    """
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
