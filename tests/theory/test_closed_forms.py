"""Proofs of the closed forms A9 and B9, under decay too, and of (E_1), by intervals: what is left suffices."""

import pytest
from mpmath import iv
from test_lower_bound_proof import C, at_most, intervals

CONSTANTS: dict[str, tuple[str | float, str]] = {  # what is stated, and one that is not enough
    "A9, η": ("8", "4"),
    "A9": ("2048", "2047"),
    "B9, γ": ("560", "540"),
    "B9": ("4480", "4479"),
    "decay, γ": ("16", "8"),
    "decay, A9": ("4096", "4095"),
    "decay, B9, γ": ("1280", "1260"),
    "decay, B9": ("10240", "10239"),
    "E1, γ": ("8", "7.5"),
}
RIGHT = {name: stated for name, (stated, _) in CONSTANTS.items()}


def closed_forms(c: C) -> None:
    """A9, B9, their forms under decay, and (E_1): the sum of the terms is at most what is left of the gradient."""
    eighth, quarter = iv.mpf(1) / 8, iv.mpf(1) / 4
    noise = 2 / c["A9, η"]  # 2 √η Q in units of ε
    at_most(noise, quarter)
    growth = iv.exp(eighth)
    at_most(quarter + eighth + growth / 4 + noise, iv.mpf("0.91"))
    at_most(c["A9, η"] ** 3 * 4, c["A9"])
    step, first = c["B9, γ"], iv.exp(c["A9, η"] ** 2 / c["B9, γ"])
    feedback, drift = iv.mpf("2.5") * first * 64 / step, iv.mpf("2.5") * first * 8 / step
    at_most(iv.mpf("0.625") + drift + feedback, iv.mpf("0.99"))
    at_most(8 * step, c["B9"])
    at_most(4 * 8 / 2 / c["decay, γ"] / 4, quarter)  # 4γ/η = ε'/(4Λ)
    at_most(c["A9, η"] ** 2 * c["decay, γ"] * 4, c["decay, A9"])
    slow = c["decay, B9, γ"]
    at_most(iv.mpf("0.625") + 432 * iv.exp(2 * 64 / slow) / slow, iv.mpf("0.9985"))
    at_most(8 * slow, c["decay, B9"])
    reach = 1 / c["E1, γ"]
    at_most(iv.mpf("0.645"), 1 - iv.exp(reach) * (2 * reach + reach / 2))


def test_the_terms_add_up_to_no_more_than_is_left_of_the_gradient() -> None:
    closed_forms(intervals(RIGHT))


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_wrong_constant_of_a_closed_form_fails(name: str) -> None:
    with pytest.raises(AssertionError):
        closed_forms(intervals(RIGHT | {name: CONSTANTS[name][1]}))
