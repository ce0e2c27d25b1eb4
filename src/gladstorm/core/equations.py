"""The equations that simulator, Optax and torch share: of estimators, of unit steps of matrices, of the untuned method.

Each is a pure function of numbers or arrays of any library. Where more than arithmetic is needed, `xp` is the library:
`numpy`, `jax.numpy` or `torch`, or `Floats`. Neither JAX nor torch is imported here. `k` counts the gradients before
the newest, and `horizon` is K, the number of steps of the run.
"""

import math
import operator
from collections.abc import Sequence
from typing import Any

# The untuned method, whose equations are in the docstring of `methods.steps.Untuned`.
FIRST = 0.01  # ρ: the first length is ρ(1 + ‖x⁰‖)
RECENT = 4.0  # the usual size of v is that of about the last k/4 steps
WIDTH, WIDENING = 2.0, 0.25  # v is cut at WIDTH (k + 1)^WIDENING times its usual size
GROWTH = 8.0  # r grows at most by 1 + GROWTH/√(K(k + 1)) in step k
FASTEST = 4.0  # the most that one step may count on the clock
DECAY = 0.4  # a: at τ = 1 steps are K^a times shorter
SHARE = 0.5  # β, the share of a step in the mean of recent ones
AVERAGED = 6.0  # the degree of the average x̄, as `PolynomialAverage` counts it

# The untuned method by layer: normalized momentum in the norm of each layer, whose first length suits all networks.
LAYER_LENGTH, LAYER_MOMENTUM = 0.02, 0.9

# The odd polynomial σ → aσ + bσ³ + cσ⁵ that one step of Newton–Schulz takes each singular value through. These
# coefficients (Jordan et al., Muon, 2024) bring small ones up fast: in five steps, all above ‖v‖_F/500 to 0.68–1.21.
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5
SIGN_SCALE = 0.25  # of a step by signs along a vector, where a step of a matrix or a table has unit length


class Floats:
    """A library for Python's own numbers, as far as equations ask for one."""

    sqrt, isfinite, isinf, maximum, minimum = math.sqrt, math.isfinite, math.isinf, max, min
    asarray, logical_not = list, operator.not_

    @staticmethod
    def where(condition: bool, this: float, other: float) -> float:
        """One number where the condition holds, or else the other."""
        return this if condition else other

    @staticmethod
    def argmax(conditions: list[bool]) -> int:
        """The number of the first condition that holds."""
        return conditions.index(True)


def noise_and_gradient2(m: Any, within: Any, total2: Any) -> tuple[Any, Any]:
    """The variance of a group's gradient and ‖∇f‖², unbiased, from Σ‖g_i‖² over m groups and ‖Σ g_i‖²."""
    across = (total2 - within) / (m * (m - 1))
    return within / m - across, across


def sign_scale(shape: Sequence[int]) -> float:
    """The length of a step by signs beside one of a matrix: 1 for a table such as an embedding, 1/4 for a vector."""
    return 1.0 if sum(side > 1 for side in shape) > 1 else SIGN_SCALE


def momentum(v: Any, g: Any, eta: Any) -> Any:
    """(1 − η) v + η g: the mean of gradients, the newest with weight η."""
    return (1 - eta) * v + eta * g


def storm(v: Any, g: Any, stale: Any, eta: Any) -> Any:
    """g + (1 − η)(v − g'): g and g' = `stale` are one sample's gradients at the new and the previous point."""
    return g + (1 - eta) * (v - stale)


def lead(step: Any, eta: Any) -> Any:
    """(1 − η)/η (x − x⁻): how far beyond x, after a step from x⁻, implicit gradient transport looks."""
    return (1 - eta) / eta * step


def mars_corrected(g: Any, stale: Any, eta: Any, scale: Any) -> Any:
    """g + s (1 − η)/η (g − g'): the gradient that MARS averages, before it is cut."""
    return g + scale * (1 - eta) / eta * (g - stale)


def cut(size: Any, longest: Any, xp: Any) -> Any:
    """min{1, c/‖v‖}: the factor that cuts v, whose length is `size`, to the length c; 1 where v is 0."""
    return xp.where(size > longest, longest / xp.where(size == 0, 1.0, size), 1.0)


def usual_size(usual: Any, size: Any, k: Any, xp: Any) -> Any:
    """s + (min{‖v‖, cs} − s) 4/(k + 4), and ‖v‖ at first: the usual size of v, where `size` is ‖v‖."""
    renewed = usual + (xp.minimum(size, _widest(k) * usual) - usual) * RECENT / (k + RECENT)
    return xp.where(usual == 0, size, renewed)


def relative_size(size: Any, usual: Any, k: Any, xp: Any) -> Any:
    """‖u‖ = min{‖v‖/s, c}: the size of v by its usual one, cut where it is much larger."""
    return xp.minimum(size / xp.where(usual == 0, 1.0, usual), _widest(k))


def _widest(k: Any) -> Any:
    """c = 2(k + 1)^¼."""
    return WIDTH * (k + 1) ** WIDENING


def farthest(r: Any, way: Any, k: Any, horizon: Any, xp: Any, growth: float = GROWTH) -> Any:
    """max{r, min{‖x̄ − x⁰‖, (1 + 8/√(K(k + 1))) r}}: how far the run has come, where `way` is ‖x̄ − x⁰‖."""
    return xp.maximum(r, xp.minimum(way, r * (1 + growth / xp.sqrt(horizon * (k + 1)))))


def clock(tau: Any, z: Any, k: Any, horizon: Any, xp: Any) -> Any:
    """τ + φ max{(1 − τ)/(K − k), 1/K}, φ = z⁻⁴ if z > 1, else ½/z but at least 1 and at most 4."""
    counts = xp.clip(0.5 / xp.clip(z, 0.5 / FASTEST, None), 1.0, FASTEST) * xp.clip(z, 1.0, None) ** -4
    return tau + counts * xp.clip((1 - tau) / xp.clip(horizon - k, 1.0, None), 1 / horizon, None)


def shortened(tau: Any, horizon: Any, decay: Any = DECAY) -> Any:
    """K^{−aτ}: the factor of the step's length at time τ."""
    return horizon ** (-decay * tau)


def average_weight(k: Any) -> Any:
    """w = 7/(k + 8): the weight of the newest point in x̄."""
    return (AVERAGED + 1) / (k + AVERAGED + 2)


def agreement(off: Any, spread: Any, xp: Any) -> Any:
    """z = ‖x − x̄‖²/V: 1 if steps are as good as random; `off` is ‖x − x̄‖ and `spread` is √V."""
    return (off / xp.where(spread == 0, 1.0, spread)) ** 2


def add_product(beta: Any, z: Any, alpha: Any, x: Any, y: Any) -> Any:
    """βz + α xy for matrices."""
    return beta * z + alpha * (x @ y)


def newton_schulz(v: Any, xp: Any, steps: int = NEWTON_SCHULZ_STEPS, add_product: Any = add_product) -> Any:
    """UVᵀ, nearly, of each matrix v = UΣVᵀ of a stack (the last two dimensions); 0 where a matrix is 0.

    Each singular value ends where `NEWTON_SCHULZ` takes σ/‖v‖_F in so many steps, whatever the scale of v. A matrix of
    one row or column is v/‖v‖, exactly. A library that has βz + α xy as one kernel may give it.
    """
    if v.shape[-2] > v.shape[-1]:  # the shorter side makes the smaller products
        return newton_schulz(v.swapaxes(-2, -1), xp, steps, add_product).swapaxes(-2, -1)
    a, b, c = NEWTON_SCHULZ
    x = normalized(v, (-2, -1), xp)
    for _ in range(steps if v.shape[-2] > 1 else 0):
        gram = x @ x.swapaxes(-2, -1)
        x = add_product(a, x, 1, add_product(b, gram, c, gram, gram), x)
    return x


def normalized(v: Any, axis: Any, xp: Any) -> Any:
    """v/‖v‖ with the Euclidean norm along these axes, at any scale; 0 where v is 0."""
    scaled = _over(xp.amax(xp.abs(v), axis=axis, keepdims=True), v, xp)  # or squares would leave the range
    return _over(xp.linalg.vector_norm(scaled, axis=axis, keepdims=True), scaled, xp)


def _over(size: Any, v: Any, xp: Any) -> Any:
    return v / xp.where(size == 0, 1.0, size)


def spectral_length(rows: int, columns: int) -> float:
    """√max{1, m/n}: the spectral length of a unit step of an m × n matrix, from n numbers to m.

    The root mean square of its entries is then that at which torch draws weights, about 1/√n.
    """
    return math.sqrt(max(1.0, rows / columns))


def layer_length(k: Any, horizon: Any, xp: Any) -> Any:
    """γ = 0.02 max{1 − k/K, 1/(k + 1)}: the length of a step by layer, which falls linearly until the horizon."""
    return LAYER_LENGTH * xp.maximum(1 - k / horizon, 1 / (k + 1))
