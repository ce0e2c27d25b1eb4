"""The proof of paper/proofs/lower_bounds.md, line by line: every inequality that can be evaluated, with its constant.

Suprema of functions of one variable come from exact calculus (SymPy) or from interval arithmetic with bisection
(mpmath's `iv`, which the package needs anyway; python-flint would be faster and nothing here takes a second). What is
compared is always an enclosure: `at_most` is true only if the whole interval is. `CONSTANTS` has every number that the
proof states, and each has a mutation that makes a check fail: no number is there without being needed.

Cited and not checked: Ball's lemma on caps of the sphere (1997, Lemma 2.2), Banach's theorem on symmetric multilinear
forms, Rademacher's and Fubini's theorems. Points, pairs and answers are searched in test_lower_bound_search.py.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sympy as sp
from mpmath import iv

from evidence.verification.rotated_runway import SQUASHED, RotatedRunway
from gladstorm.core import hardness
from gladstorm.problems.hard.noisy_runway import QUIET
from gladstorm.problems.hard.zero_chain import DEPTH, LARGEST, SMOOTHNESS
from gladstorm.problems.objectives import NoisyRunway

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "paper/proofs/lower_bounds.md"
C = dict[str, Any]

# What the proof states. Numbers that the code computes with are the code's.
CONSTANTS: dict[str, tuple[str | float, str]] = {  # with a slightly better one, or a worse one that breaks a condition
    "Ψ′": ("4.458", "4.45"),
    "Ψ″": ("32.5", "32.3"),
    "Φ": ("4.133", "4.13"),
    "|H|": ("11.3", "11.2"),
    "F/T": (DEPTH, "11"),
    "∂ₛH": ("18.42", "18.41"),
    "∂ₜH": ("4.482", "4.48"),
    "∂ₛₛH": ("134.4", "134.2"),
    "∂ₛₜH": ("7.35", "7.34"),
    "∂ᵢF": (LARGEST, "22.8"),
    "∇²F": (SMOOTHNESS, "151"),
    "a": (str(QUIET), "0.11"),
    "q": ("6.25", "6.3"),
    "Φ(½) − Φ(0)": ("0.7915", "0.791"),
    "n": ("2.16", "2.15"),
    "∂ₛD": ("3.53", "3.52"),
    "∇D": ("5.71", "5.7"),
    "∂ₛₛD": ("25.8", "25.7"),
    "∂ₜₜD": ("1.98", "1.97"),
    "∇²D": ("28", "27.8"),
    "∇n": ("11.4", "11.3"),
    "∇²n": ("109", "108"),
    "P/√T": (SQUASHED, "200"),
    "D²π": ("1.2", "1.15"),
    "∇F̂": ("0.6", "0.63"),
    "R": (hardness.RUNWAY, "9"),
    "χ′": ("3.75", "3.7"),
    "χ″": ("23.1", "23"),
    "levels": (hardness.LEVELS, "23"),
    "share": (hardness.SHARE, "0.63"),
    "w": (hardness.REACHED, "45"),
    "‖∇M‖²": (hardness.LINK, "130"),
    "1/p": (hardness.RARITY, "7"),
    "L̄/X": (hardness.PERMITTED, "0.46"),
    "density": (hardness.DENSITY, "4.7"),
    "sum": ("0.7", "0.71"),
    "carrier": ("0.25", "0.24"),
    "E1, k = 2": ("2100", "2050"),
    "E1, k = 4": ("4200", "4100"),
    "E2, k = 2": ("107", "106"),
    "E2, k = 4": ("214", "213"),
    "E3": ("0.78", "0.79"),
    "E4, B": ("0.35", "0.36"),
    "E4, ε": ("128", "127"),
    "∇²f, k = 2": (NoisyRunway.smoothness, "322"),
    "∇²f, k = 4": (RotatedRunway.smoothness, "635"),
    "∇²M, k = 2": ("227.5", "227"),
    "∇²M, k = 4": ("456", "455"),
    "d": ("1.06e7", "1.05e7"),
    "Theorem 1": ("2e9", "1.8e9"),
    "Theorem 1, ε → 0": ("1e11", "9e10"),
    "Theorem 2": ("1.2e8", "1.1e8"),
    "8": ("8", "5"),
    "A9, γ": ("8", "6"),
    "A9": ("2048", "2047"),
    "B9, γ": ("560", "540"),
    "B9": ("4480", "4479"),
    "4": ("4", "3.6"),
    "256": ("256", "170"),
    "A9, decay": ("16", "12"),
    "B9, decay": ("1280", "1270"),
    "B9, decay, price": ("10240", "10239"),
    "E1, γ": ("8", "7.5"),
    "Theorem 4, λ": ("10", "9.9"),
    "Theorem 4, p": ("32", "31"),
    "Theorem 4": ("2.2e11", "2.1e11"),
    "Theorem 5, p": ("1040", "1039"),
    "Theorem 5, λ": ("9.2", "9.1"),
    "Theorem 5, ε": ("16640", "16600"),
    "Theorem 5, T": ("222", "220"),
    "Theorem 5": ("1e6", "9e5"),
    "Theorem 6, λ": ("608", "607"),
    "Theorem 6, T": ("33", "32"),
    "Theorem 6, L0": ("41000", "40000"),
    "Theorem 6, B": ("144", "143"),
    "Theorem 6": ("3.4e9", "3.3e9"),
    "Theorem 6 again, R": ("3", "2.9"),
    "Theorem 6 again, λ": ("311", "307"),
    "Theorem 6 again, T": ("73", "72"),
    "Theorem 6 again, L0": ("45500", "45400"),
    "Theorem 6 again, B": ("54", "53"),
    "Theorem 6 again": ("5.3e8", "5.2e8"),
    "Theorem 7, Theorem 2": ("7.5e6", "7.4e6"),
    "Theorem 7, Theorem 6": ("1.33e7", "1.31e7"),
    "Theorem 7, E1": ("132", "131"),
    "Theorem 7, E2": ("1712", "1700"),
    "Theorem 8, λ": ("636", "635"),
    "Theorem 8, L0": ("97700", "97600"),
    "Theorem 8, B": ("733", "732"),
    "Theorem 8, T": ("195400", "195300"),
    "Theorem 8": ("4.2e11", "4.1e11"),
    "Theorem 8, growth": ("1.7e9", "1.6e9"),
    "Theorem 4, growth, √p": ("16", "15.9"),
    "Theorem 4, growth, T": ("3072", "3071"),
    "Theorem 4, growth, p": ("67072", "67000"),
    "Theorem 4, growth": ("8.3e8", "8.2e8"),
    "Theorem 9": ("1.7e5", "1.6e5"),
}
STATED = {name: stated for name, (stated, _) in CONSTANTS.items()}


def intervals(stated: dict[str, str | float]) -> C:
    return {name: iv.mpf(str(value)) for name, value in stated.items()}


def at_most(a: Any, b: Any) -> None:
    """a ≤ b for all numbers of two intervals; a rounding of 10⁻¹² is allowed for those that are equal by definition."""
    low, high = iv.mpf(a), iv.mpf(b)
    assert low.b <= high.a + abs(high.a) * 1e-12, f"{low} ≤ {high}"


def never_above(f: Callable[[Any], Any], low: Any, high: Any, bound: Any, depth: int = 40) -> None:
    """f ≤ bound on [low, high]: by bisection until the enclosure of every piece says so."""
    pieces = [(iv.mpf(low).a, iv.mpf(high).b, depth)]
    while pieces:
        a, b, left = pieces.pop()
        if f(iv.mpf([a, b])).b <= iv.mpf(bound).a:
            continue
        assert left, f"above {bound} near {a}"
        middle = (a + b) / 2
        pieces += [(a, middle, left - 1), (middle, b, left - 1)]


def largest(expression: Any, variable: Any, low: Any, high: Any) -> Any:
    """The supremum of an expression on [low, high], by its critical points and ends: exact, as an interval."""
    points = {
        low,
        high,
        *(each for each in sp.solveset(sp.diff(expression, variable), variable, sp.Interval(low, high))),
    }
    values = [
        sp.limit(expression, variable, each) if each is sp.oo else expression.subs(variable, each) for each in points
    ]
    return enclosed(max(values, key=sp.N))


def enclosed(number: Any) -> Any:
    """An exact number as an interval: its decimals and the next one."""
    middle = iv.mpf(str(sp.N(number, 30)))
    return middle + abs(middle) * iv.mpf([-1e-25, 1e-25])


E, PI = iv.e, iv.pi
K = (2, 4)


@cache
def calculus() -> C:
    """Suprema that do not depend on a stated constant: exact, then enclosed."""
    s, t, r = sp.symbols("s t r", positive=True)
    root, psi = sp.sqrt(s), sp.exp(1 - s)  # with s = (2t − 1)^−2: Ψ = e^(1−s), dt = −ds/(4 s^(3/2))
    slope, bend = 4 * root**3 * psi, (16 * s**3 - 24 * s**2) * psi
    assert sp.simplify(sp.diff(psi, s) * (-4 * root**3) - slope) == 0
    assert sp.simplify(sp.diff(slope, s) * (-4 * root**3) - bend) == 0
    assert sp.solve(sp.diff(slope, s), s) == [sp.Rational(3, 2)]
    assert sp.simplify(sp.diff(bend, s) * sp.exp(s - 1) + 8 * s * (2 * s**2 - 9 * s + 6)) == 0
    bends = [abs(enclosed(bend.subs(s, each))) for each in sp.solve(2 * s**2 - 9 * s + 6, s)]
    curved = t * sp.exp((1 - t**2) / 2)
    assert sp.solve(sp.diff(curved, t), t) == [1]
    gate = t**3 * (10 - 15 * t + 6 * t**2)
    assert [gate.subs(t, end) for end in (0, 1)] == [0, 1]
    return {
        "Ψ′": enclosed(slope.subs(s, sp.Rational(3, 2))),
        "Ψ″": max(bends, key=lambda each: each.b),
        "Φ″": enclosed(curved.subs(t, 1)),
        "Φ(½) − Φ(0)": enclosed(sp.sqrt(sp.E) * sp.integrate(sp.exp(-(t**2) / 2), (t, 0, sp.Rational(1, 2)))),
        "D²π": largest(3 * r * (1 + r**2) ** sp.Rational(-3, 2), r, 0, sp.oo),
        "χ′": 2 * largest(sp.diff(gate, t), t, 0, 1),
        "χ″": 4 * largest(sp.diff(gate, t, 2), t, 0, 1),
    }


def lemma_1_functions(c: C) -> None:
    """Ψ, Φ and their derivatives."""
    at_most(calculus()["Ψ′"], c["Ψ′"])
    at_most(calculus()["Ψ″"], c["Ψ″"])
    at_most(calculus()["Φ″"], 1)
    at_most(iv.sqrt(2 * PI * E), c["Φ"])


def lemma_1_link(c: C) -> None:
    """A link H and its derivatives, where only one of its two terms is not 0; then the chain."""
    psi_slope, phi_all = iv.sqrt(54 / E), iv.sqrt(2 * PI * E)
    at_most(E * phi_all, c["|H|"])
    at_most(c["|H|"], c["F/T"])
    at_most(psi_slope * phi_all, c["∂ₛH"])
    at_most(E * iv.sqrt(E), c["∂ₜH"])
    at_most(c["Ψ″"] * c["Φ"], c["∂ₛₛH"])
    at_most(psi_slope * iv.sqrt(E), c["∂ₛₜH"])
    at_most(c["∂ₛH"] + c["∂ₜH"], c["∂ᵢF"])
    at_most(E + c["∂ₛₛH"] + 2 * c["∂ₛₜH"], c["∇²F"])  # tridiagonal: |∂ₜₜH| ≤ e · 1 and |∂ₛₛH| on it, |∂ₛₜH| beside it


def lemma_2_bracket(c: C) -> None:
    """D = H(s, t) − H(s, 0) for |t| ≤ ½."""
    at_most(calculus()["Φ(½) − Φ(0)"], c["Φ(½) − Φ(0)"])
    at_most(c["Φ(½) − Φ(0)"] * E, c["n"])
    at_most(c["Ψ′"] * c["Φ(½) − Φ(0)"], c["∂ₛD"])
    at_most(iv.sqrt(c["∂ₛD"] ** 2 + c["∂ₜH"] ** 2), c["∇D"])
    at_most(c["Ψ″"] * c["Φ(½) − Φ(0)"], c["∂ₛₛD"])
    at_most(E * iv.exp(iv.mpf(3) / 8) / 2, c["∂ₜₜD"])  # |Φ″| grows up to t = 1
    half, apart = (c["∂ₛₛD"] + c["∂ₜₜD"]) / 2, (c["∂ₛₛD"] - c["∂ₜₜD"]) / 2
    at_most(half + iv.sqrt(apart**2 + c["∂ₛₜH"] ** 2), c["∇²D"])


def lemma_2_noise(c: C) -> None:
    """n = D Θ with Θ = (1 − S)², ‖∇S‖² ≤ 25 S and 0 ≤ ∇²S ≤ 12.5: q = 6.25 (|t| − a)² is 1 at ½."""
    assert (c["q"] * (iv.mpf("0.5") - c["a"]) ** 2 - 1).delta < 1e-12
    at_most(c["q"] * (iv.mpf("0.5") - c["a"]) ** 2, 1)
    at_most(1, c["q"] * (iv.mpf("0.5") - c["a"]) ** 2)
    slope2, bend = 4 * c["q"], 2 * c["q"]  # q′² = 4·6.25 q, q″ = 2·6.25

    def first(S: Any) -> Any:
        return c["∇D"] * (1 - S) ** 2 + c["n"] * 2 * iv.sqrt(slope2) * (1 - S) * iv.sqrt(S)

    def second(S: Any) -> Any:
        mixed = 2 * c["∇D"] * 2 * iv.sqrt(slope2) * (1 - S) * iv.sqrt(S)
        ends = 2 * slope2 * S, 2 * bend * (1 - S)  # −2(1 − S)·12.5 ≤ ∇²Θ ≤ 2·25 S
        return (
            c["∇²D"] * (1 - S) ** 2
            + mixed
            + c["n"] * iv.mpf([max(each.a for each in ends), max(each.b for each in ends)])
        )

    never_above(first, 0, 1, c["∇n"])
    never_above(second, 0, 1, c["∇²n"])


def lemma_3_squashing(c: C) -> None:
    """‖D²π‖ ≤ (3/P) r (1 + r²)^(−3/2), and F̂ has no stationary point while |ω_T| < 1."""
    at_most(calculus()["D²π"], c["D²π"])
    beta, P, F = 2 / iv.sqrt(5), c["P/√T"], c["∂ᵢF"]  # β at ‖u‖ = P/2, where it is smallest for ‖u‖ ≤ P/2
    at_most(c["∇F̂"], P / 10 - beta * F)  # ‖u‖ ≥ P/2
    bent = P / 2 * F / P**2
    at_most(c["∇F̂"], (1 - bent) * beta - iv.mpf(1) / 5 / beta)  # below, at the smallest β: it grows with β


def section_3_runway_and_gate(c: C) -> None:
    """h falls by 2εR + εR; χ′ and χ″ of the gate; the gap; what the carrier is at the distance R/2."""
    at_most(calculus()["χ′"], c["χ′"])
    at_most(calculus()["χ″"], c["χ″"])
    at_most(3 / c["R"] + c["share"], 1)  # Δ: the runway and the chain
    at_most(2 * c["F/T"], c["levels"])
    at_most(c["R"] * 4 * iv.sqrt(2), c["w"])  # w(R/2) ≥ bR/4 = BΔ/(8·4√2 ε)


def conditions(c: C) -> None:
    """(E1)–(E4) are what the proof needs: p ≤ 1/16, T ≥ 1, 0.8 ε/λ ≤ 0.45 L0, R ≥ 4 r0."""
    for k in K:
        p = k**2 * c["‖∇M‖²"] * c["1/p"] * c["R"] ** 2  # p = this · ε⁴/(BΔ)²
        at_most(p / c[f"E1, k = {k}"] ** 2, iv.mpf(1) / 16)
        links = c["share"] * c["R"] / (c["levels"] * k * c["density"])  # T = ⌊this · L̄/B⌋
        at_most(1, links * c["L̄/X"] * c[f"E2, k = {k}"])
    # 0.2 κ/λ² = 0.8 ε/λ and 1/λ = 8ε·0.45 X/(5BΔ): ε²X times this
    at_most(iv.mpf(4) / 5 * c["R"] * c["L̄/X"] / c["density"] * c["E3"], c["L̄/X"])
    at_most(c["E4, B"] / iv.sqrt(2), iv.mpf(1) / 4)
    at_most(4 * 4 * c["R"], c["E4, ε"])  # R ≥ 4 r0, r0 = (4b/L1)^(1/α)/(L0/4)


def lemma_6_variance(c: C) -> None:
    """‖∇M‖² ≤ 131 (kε)², and a half of B²‖x‖² for each kind of noise where ‖x‖ ≥ R/2."""
    narrow = iv.mpf(1) / 9
    at_most(c["share"] * c["R"] / (c["levels"] * 2), narrow)  # λ/R ≤ 5/48, as T ≥ 1
    at_most(c["∇n"] ** 2 + (c["χ′"] * c["n"] * narrow) ** 2, c["‖∇M‖²"])
    at_most(1 / c["1/p"], iv.mpf(1) / 2 / 4)  # (BR)²/8 ≤ ½B²(R/2)²


def lemma_7_curvature(c: C) -> None:
    """The blocks of the Hessians, in units of ε/λ, and their sum in units of BR/λ."""
    narrow = iv.mpf(1) / 9  # λ/R
    for k in K:
        links = c["share"] * c["R"] / (c["levels"] * k)  # T ≤ this · R/λ
        squashed, confined = (c["D²π"] / c["P/√T"], iv.mpf(1) / 5) if k == 4 else (0, 0)
        on_v = k * (c["∇²F"] + c["∂ᵢF"] * squashed + confined)
        mixed = c["χ′"] * k * c["∂ᵢF"] * iv.sqrt(links * narrow)  # √T/R ≤ √(links · λ/R)/λ
        on_y = (2 + c["χ″"] * c["levels"] * k * links) * narrow
        f = iv.mpf([max(on_v.a, on_y.a), max(on_v.b, on_y.b)]) + mixed
        at_most(f, c[f"∇²f, k = {k}"])
        M_v, M_mixed = k * (c["∇²n"] + c["∇n"] * squashed), c["χ′"] * k * c["∇n"] * narrow
        M_y = c["χ″"] * k * c["n"] * narrow**2
        at_most(M_y, M_v)
        at_most(M_v + M_mixed, c[f"∇²M, k = {k}"])
        eps = 1 / (k * iv.sqrt(c["‖∇M‖²"] * c["1/p"]))  # ε = this · √p BR
        at_most(eps * (c[f"∇²f, k = {k}"] / 4 + c[f"∇²M, k = {k}"]), c["density"])  # √p ≤ ¼


def lemma_7_class(c: C) -> None:
    """¼ for the carrier and 0.45 for the chain are at most 0.7, and 0.7² ≤ ½."""
    at_most(c["carrier"] + c["L̄/X"], c["sum"])
    at_most(c["sum"] ** 2, iv.mpf(1) / 2)
    at_most(iv.mpf(1) / 4, c["carrier"])  # w′ ≤ ¼ (L0 + L1 w^α), by the definition of s0 and r0


def lemma_9_dimension(c: C) -> None:
    """2 exp(−(d − T) a²/(2P²)) ≤ 1/(8 (N + 1) T), and 7/8 + 3/4 − 1 = 5/8 of 2ε is more than ε."""
    at_most(2 * (c["P/√T"] / c["a"]) ** 2, c["d"])
    assert 2 * Fraction(1, 16) == Fraction(1, 8)
    assert (Fraction(7, 8) + Fraction(3, 4) - 1) * 2 > 1


def theorems_1_and_2(c: C) -> None:
    """T/(4p) and T/(2p) in closed form, ⌊T⌋ ≥ T/2."""
    for k, evaluations, name in ((4, 4, "Theorem 1"), (2, 2, "Theorem 2")):
        links = c["share"] * c["R"] / (c["levels"] * k * c["density"]) * c["L̄/X"] / 2
        p = k**2 * c["‖∇M‖²"] * c["1/p"] * c["R"] ** 2
        at_most(1 / c[name], links / (evaluations * p))
    at_most(c["w"] * c["Theorem 1"], c["Theorem 1, ε → 0"])


def theorem_3(c: C) -> None:
    """A9 and B9, the upper bounds: their terms in units of ε, at most 1 with what feeds back."""
    start = 1 / c["4"] + 2 / iv.sqrt(c["256"])  # gap and initial error; noise is 2/8
    reach = 1 / c["A9, γ"]  # L1'γ ≤ η/8 ≤ 1/8, at the scale ε
    at_most(start + 2 / c["8"] + 2 * iv.exp(reach) / c["A9, γ"], 1)  # drift and feedback, as L0' + εL1' = Λ
    at_most(c["4"] * c["8"] ** 2 * c["A9, γ"], c["A9"])
    per_noise = c["8"] ** 2 / c["B9, γ"]  # Λγ/(τQη), and the most that L1'γ is
    bent = iv.exp(per_noise)
    feedback = iv.mpf("2.5") * bent * per_noise
    drift = 2 * bent * c["8"] / c["B9, γ"] + bent * c["8"] / c["B9, γ"] / 2
    at_most(feedback + start + drift + 2 / c["8"], 1)
    at_most(2 * c["4"] * c["B9, γ"], c["B9"])
    at_most(start + 2 / c["8"] + 4 * iv.exp(2 / c["A9, decay"]) / c["A9, decay"], 1)  # steps of 2γ: W1
    at_most(c["4"] * c["8"] ** 2 * c["A9, decay"], 2 * c["A9"])
    bent = iv.exp(2 * c["8"] ** 2 / c["B9, decay"])  # W2: γ/η = 64 (1 − ϑ)/1280, so all is in units of 1 − ϑ
    feedback = 6 * bent * c["8"] ** 2 / c["B9, decay"]
    at_most(feedback + start + 2 / c["8"] + 6 * bent * c["8"] / c["B9, decay"], 1)
    at_most(2 * c["4"] * c["B9, decay"], c["B9, decay, price"])
    reach = 1 / c["E1, γ"]
    at_most(iv.mpf("0.645"), 1 - iv.exp(reach) * (2 * reach + reach / 2))


def theorem_4(c: C) -> None:
    """Every sample in the class, α = 1: λ = 10/L1, one coin, and radial noise in the rare samples only."""
    root = c["Theorem 4, p"] * iv.sqrt(c["‖∇M‖²"])  # √p = this · ε/(bR)
    links = c["share"] * c["R"] / (c["levels"] * 4) / c["R"] / c["Theorem 4, λ"]  # T = ⌊this · L1Δ/ε⌋
    at_most(c["‖∇M‖²"] * 16 / root**2, iv.mpf(1) / 64)
    at_most(1 + iv.mpf(1) / 16, 2)
    at_most((c["∇²f, k = 4"] + c["∇²M, k = 4"]) / c["Theorem 4, λ"], 110)
    at_most(c["∇²M, k = 4"] / c["Theorem 4, λ"] / root, iv.mpf(1) / 8)
    at_most(4 / root * iv.sqrt(c["‖∇M‖²"]), iv.mpf(1) / 8)  # ‖∇M‖/p ≤ bR/(8√p)
    at_most(2 + c["χ′"] * c["share"] * c["R"], 21)
    at_most(4 * c["∂ᵢF"], 92)
    at_most(1 / c["Theorem 4"], links / 2 / (4 * 2 * root**2 * c["R"] ** 2))


def theorem_5(c: C) -> None:
    """Bounded variance: p = 1040 ε²/G², λ = 9.2 G/X_G, T = ⌊Δ/(24ελ)⌋."""
    p = c["Theorem 5, p"]
    at_most(4 * c["∇n"] ** 2 / p, iv.mpf(1) / 2)
    at_most(p / c["Theorem 5, ε"], iv.mpf(1) / 16)
    at_most((2 * c["∇²F"] / 4 + 2 * c["∇²n"]) / iv.sqrt(p), c["Theorem 5, λ"])
    at_most(2 * c["F/T"] * c["Theorem 5, λ"], c["Theorem 5, T"])
    at_most(1 / c["Theorem 5"], 1 / (2 * 2 * c["F/T"] * c["Theorem 5, λ"] * 2 * p))


def theorem_6(c: C) -> None:
    """Only f is smooth: λ = 608 ε/L0, κ = 2ελ, T = ⌊Δ/(33κ)⌋, p = (8.964 ε)²/(BR/2)²."""
    height = 2 * c["Theorem 6, λ"]  # κ L0/ε²
    at_most(c["Theorem 6, T"] * height, c["Theorem 6, L0"])  # T ≥ 1
    at_most(iv.mpf(2) / c["R"], iv.mpf("0.25"))
    at_most(8 / c["Theorem 6, L0"], iv.mpf("0.001"))
    at_most(c["levels"] / c["Theorem 6, T"], iv.mpf("0.728"))
    at_most(2 * c["∇²F"] / c["Theorem 6, λ"], iv.mpf("0.5"))
    mixed = c["χ′"] * 2 * c["∂ᵢF"] * c["R"] / iv.sqrt(c["Theorem 6, T"] * height)  # · ε √(L0/Δ)
    at_most(mixed / iv.sqrt(c["Theorem 6, L0"]), iv.mpf("0.04"))
    bent = c["χ″"] * iv.mpf("0.728") * c["R"] ** 2 / c["Theorem 6, L0"]
    at_most(iv.mpf(2) / 8 + bent, iv.mpf("0.3"))
    at_most(2 * c["∂ₜH"], iv.mpf("8.964"))
    root = iv.mpf("8.964") * 2 * c["R"]  # √p BΔ/ε²
    at_most(root, c["Theorem 6, B"])
    at_most(1 / c["Theorem 6"], 1 / (2 * c["Theorem 6, T"] * height * 2 * root**2))
    at_most(1 / iv.mpf("3.31e9"), 1 / (2 * c["Theorem 6, T"] * height * 2 * root**2))
    at_most(26, (c["∂ᵢF"] / c["∂ₜH"]) ** 2)  # times as large is the p of `ChainOracle`


def theorem_6_again(c: C) -> None:
    """The second derivation: R = Δ/(3ε), λ = 311 ε/L0, T = ⌊Δ/(73κ)⌋, and h'' = L0 where the runway levels off."""
    height, shortest = 2 * c["Theorem 6 again, λ"], c["Theorem 6 again, L0"]
    at_most(c["Theorem 6 again, T"] * height, shortest)  # T ≥ 1
    share = c["levels"] / c["Theorem 6 again, T"]
    at_most(2 / c["Theorem 6 again, R"] + 2 / shortest + share, 1)  # the gap
    chain = 2 * c["∇²F"] / c["Theorem 6 again, λ"]
    bent = c["χ″"] * share * c["Theorem 6 again, R"] ** 2 / shortest
    at_most(bent, chain)
    mixed = c["χ′"] * 2 * c["∂ᵢF"] * c["Theorem 6 again, R"] / iv.sqrt(c["Theorem 6 again, T"] * height)
    at_most(chain + mixed / iv.sqrt(shortest), 1)
    root = 2 * c["∂ₜH"] * 2 * c["Theorem 6 again, R"]
    at_most(root, c["Theorem 6 again, B"])
    at_most(1 / c["Theorem 6 again"], 1 / (2 * c["Theorem 6 again, T"] * height * 2 * root**2))


def theorem_7(c: C) -> None:
    """Every growth: with B_a Δ = 16 εσ, σ = B(Δ/16ε)^h, the closed forms and conditions of Theorems 2 and 6."""
    at_most(c["Theorem 2"] / 16, c["Theorem 7, Theorem 2"])
    at_most(c["Theorem 6"] / 16**2, c["Theorem 7, Theorem 6"])
    at_most(c["E1, k = 2"] / 16, c["Theorem 7, E1"])
    at_most(16 * c["E2, k = 2"], c["Theorem 7, E2"])


def theorem_8(c: C) -> None:
    """Only f smooth, rotated: λ = 636 ε/L0, κ = 4ελ, T = ⌊5Δ/(192κ)⌋, p = 131 (4ε)²/σ², B_aΔ = 16 εσ."""
    at_most(c["∇²f, k = 4"], c["Theorem 8, λ"])
    height = 4 * c["Theorem 8, λ"] * c["levels"] / c["share"]  # T = ⌊L0Δ/(this ε²)⌋
    at_most(height, c["Theorem 8, L0"])
    at_most(2 * height, c["Theorem 8, T"])
    at_most(c["R"] * 4 * c["Theorem 8, λ"] * 9, 4 * c["Theorem 8, L0"])  # λ ≤ R/9
    root = 4 * iv.sqrt(c["‖∇M‖²"]) * 16  # √p B_aΔ/ε²
    at_most(root, c["Theorem 8, B"])
    at_most(c["Theorem 8, T"] * 4 * root**2, c["Theorem 8"])
    at_most(c["Theorem 8"] / 16**2, c["Theorem 8, growth"])


def theorem_4_every_growth(c: C) -> None:
    """√p = 16√131 ε/σ with σ = b(R/2)^h, ‖∇M‖² ≤ 131 (4ε)²; 0.8 ε/λ is the slope of what confines z."""
    root = c["Theorem 4, growth, √p"] * iv.sqrt(c["‖∇M‖²"])
    at_most(16 * c["‖∇M‖²"] / root**2, iv.mpf(1) / 16)  # variance of the links, over σ²
    at_most(4 * iv.sqrt(c["‖∇M‖²"]) / root, iv.mpf(1) / 4)  # ‖∇M‖/p over σ/√p
    at_most(c["∇²M, k = 4"] / c["Theorem 4, λ"] / root, iv.mpf(1) / 4)  # ‖∇²M‖/p over L1 σ/√p
    at_most(c["∇²f, k = 4"] / c["Theorem 4, λ"] / 255, iv.mpf(1) / 4)  # 255 εL1 ≤ L0
    at_most(iv.mpf("0.8") / c["Theorem 4, λ"] / 255, iv.mpf(1) / 16)
    at_most(4 * iv.mpf("0.1") * c["P/√T"], 92)
    height = 4 * c["Theorem 4, λ"] * c["levels"] / c["share"]  # T = ⌊L1Δ/(this ε)⌋
    at_most(2 * height, c["Theorem 4, growth, T"])
    at_most(2 * root**2, c["Theorem 4, growth, p"])  # b² = B²/2
    at_most(c["Theorem 4, growth, T"] * 4 * c["Theorem 4, growth, p"], c["Theorem 4, growth"])
    at_most(c["Theorem 4, growth"] * 16**2, c["Theorem 4"])  # at a = 2


def theorem_9(c: C) -> None:
    """T/2 rounds, T ≥ L0Δ/(2·33·1216 ε²)."""
    at_most(4 * c["Theorem 6, T"] * 2 * c["Theorem 6, λ"], c["Theorem 9"])


CHECKS = (
    lemma_1_functions,
    lemma_1_link,
    lemma_2_bracket,
    lemma_2_noise,
    lemma_3_squashing,
    section_3_runway_and_gate,
    conditions,
    lemma_6_variance,
    lemma_7_curvature,
    lemma_7_class,
    lemma_9_dimension,
    theorems_1_and_2,
    theorem_3,
    theorem_4,
    theorem_5,
    theorem_6,
    theorem_6_again,
    theorem_7,
    theorem_8,
    theorem_4_every_growth,
    theorem_9,
)


def check_all(c: C) -> None:
    for check in CHECKS:
        check(c)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_inequality_of_the_proof_holds(check: Callable[[C], None]) -> None:
    check(intervals(STATED))


def test_the_first_coordinate_that_is_not_open_has_a_slope_below_minus_1() -> None:
    """∂_j F < −1 for the first j with |x_j| < 1: Ψ(1) = 1, Ψ grows, Φ′(t) = e^((1−t²)/2) > 1 for |t| < 1."""
    t = sp.symbols("t", real=True)
    assert sp.exp(1 - 1 / (2 * sp.Integer(1) - 1) ** 2) == 1
    assert sp.solveset(sp.exp((1 - t**2) / 2) > 1, t, sp.S.Reals) == sp.Interval.open(-1, 1)


def test_the_number_of_evaluations_has_the_order_that_is_claimed() -> None:
    """For every growth a = 2h; and what r blocks of 1/r the gap and accuracy multiply it by (Theorem 10)."""
    eps, B, gap, X, k, h, r = sp.symbols("ε B Δ X k h r", positive=True)
    R = gap / (8 * eps)
    felt = B * (R / 2) ** (h - 1)
    scale = 5 * felt * R / (sp.Rational(45, 100) * X)
    p = 1048 * (k * eps) ** 2 / (felt * R) ** 2
    needed = 5 * R / (24 * k * scale) / p
    claimed = X * B * gap ** (1 + h) / eps ** (3 + h)
    assert sp.simplify(sp.powsimp(sp.expand_power_base(needed / claimed, force=True), force=True)).free_symbols <= {
        k,
        h,
    }
    smooth = X * B**2 * gap ** (1 + 2 * h) / eps ** (4 + 2 * h)
    for order, level in ((claimed, sp.sqrt(r)), (smooth, r)):
        in_block = order.subs({X: X / level, B: B / sp.sqrt(r), gap: gap / r, eps: eps / r}, simultaneous=True)
        assert sp.simplify(sp.powsimp(sp.expand_power_base(in_block / order, force=True), force=True) / r) == 1


def test_the_two_sides_are_as_far_apart_as_the_pages_say() -> None:
    """B9 over Theorem 1 for ε → 0: 4480 · 4^(1+α) · 2·10⁹ · 46^α."""
    apart = [4480 * 4 ** (1 + alpha) * float(STATED["Theorem 1"]) * 46**alpha for alpha in (0.25, 0.5, 1)]
    for page in (PAGE, ROOT / "docs/optimal.md"):
        for ratio in apart:
            digits, power = f"{ratio:.1e}".split("e+")
            assert rf"{digits}\cdot 10^{{{int(power)}}}" in page.read_text()


UNSAID = {"levels", "share", "carrier", "1/p"}  # as fractions
ELSEWHERE = {
    "8",
    "4",
    "256",
    "E1, γ",
    *(name for name in STATED if name[:2] in ("A9", "B9")),
}  # paper/proofs/upper_bounds.md


@pytest.mark.parametrize("name", [name for name in STATED if name not in UNSAID and "ε → 0" not in name])
def test_the_page_states_the_number(name: str) -> None:
    digits, _, exponent = str(STATED[name]).partition("e")
    power = exponent if len(exponent) == 1 else f"{{{exponent}}}"
    text = digits.removesuffix(".0") + (rf"\cdot 10^{power}" if exponent else "")
    text = text.removeprefix(r"1\cdot ")
    page = PAGE.with_name("upper_bounds.md") if name in ELSEWHERE else PAGE
    assert re.search(rf"(?<![\d.]){re.escape(text)}(?!\d|\.\d)", page.read_text()), text


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_mutated_constant_fails_a_check(name: str) -> None:
    mutated = intervals(STATED | {name: CONSTANTS[name][1]})
    with pytest.raises(AssertionError):
        check_all(mutated)
