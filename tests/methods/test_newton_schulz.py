"""Newton–Schulz against the singular value decomposition, in NumPy, JAX and torch."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from gladstorm.core.equations import NEWTON_SCHULZ, newton_schulz, spectral_length

LIBRARIES: dict[str, tuple[Any, Any]] = {
    "numpy": (np, np.asarray),
    "jax": (jnp, jnp.asarray),
    "torch": (torch, torch.tensor),
}
SHAPES = ((4, 4), (3, 7), (7, 3), (2, 6, 3), (2, 2, 3, 5))


def computed(v: np.ndarray, library: str, steps: int = 5) -> np.ndarray:
    xp, array = LIBRARIES[library]
    with jax.enable_x64(True):
        return np.asarray(newton_schulz(array(v), xp, steps))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("steps", range(6))
def test_each_singular_value_goes_through_the_polynomial_and_vectors_stay(
    shape: tuple[int, ...], steps: int, library: str
) -> None:
    v = np.random.default_rng(0).standard_normal(shape)
    u, sigma, vt = np.linalg.svd(v, full_matrices=False)
    sigma = sigma / np.linalg.norm(v, axis=(-2, -1))[..., None]
    for _ in range(steps):
        sigma = sum(c * sigma**power for c, power in zip(NEWTON_SCHULZ, (1, 3, 5), strict=True))
    np.testing.assert_allclose(computed(v, library, steps), (u * sigma[..., None, :]) @ vt, rtol=0, atol=1e-12)


def test_five_steps_take_all_singular_values_that_matter_near_one() -> None:
    """Those from ‖v‖_F/500 on end in [0.68, 1.21]: a step has θ₁ = ⟨v, d⟩/‖v‖_* ≥ 0.68 and length θ₂ ≤ 1.21."""
    sigma = np.geomspace(1 / 500, 1, 100_000)
    rest = np.sqrt(1 - sigma**2)  # one 2 × 2 matrix of norm 1 for each of them
    ends = computed(np.einsum("si,ij->sij", np.stack([sigma, rest], 1), np.eye(2)), "numpy")[:, 0, 0]
    assert 0.68 < ends.min() < 0.69
    assert 1.20 < ends.max() < 1.21


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_scale_does_not_matter_and_zero_stays_zero_also_beside_others(library: str) -> None:
    v = np.random.default_rng(1).standard_normal((3, 4))
    stack = np.stack([v, 1e-200 * v, 0 * v, 1e200 * v])
    unit = computed(v, "numpy")
    np.testing.assert_allclose(computed(stack, library), [unit, unit, 0 * v, unit], rtol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (3, 1, 4)])
def test_a_matrix_of_one_row_or_column_is_normalized_exactly(shape: tuple[int, ...], library: str) -> None:
    v = np.random.default_rng(2).standard_normal(shape)
    expected = v / np.linalg.norm(v, axis=(-2, -1), keepdims=True)
    np.testing.assert_allclose(computed(v, library), expected, rtol=1e-14)


def test_the_spectral_length_is_one_for_wide_matrices_and_grows_with_the_outputs_of_tall_ones() -> None:
    assert [spectral_length(*shape) for shape in ((3, 3), (3, 12), (12, 3), (9, 1))] == [1, 1, 2, 3]
