"""In numpyro's SVI the methods do what a loop by hand does."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm.optax import nsgdm, nstorm

numpyro = pytest.importorskip("numpyro")
from numpyro.distributions import Normal  # noqa: E402
from numpyro.infer import SVI, Trace_ELBO  # noqa: E402

from gladstorm.numpyro import TwoPoint  # noqa: E402

LR, MOMENTUM, STEPS = 0.05, 0.7, 6
DATA = jnp.asarray(np.random.default_rng(0).normal(2.0, 1.0, 20))


def model(data: Any) -> None:
    z = numpyro.sample("z", Normal(0.0, 5.0))
    with numpyro.plate("all", len(DATA), subsample_size=4) as some:  # which ones, the step's key decides
        numpyro.sample("data", Normal(z, 1.0), obs=data[some])


def guide(data: Any) -> None:
    scale = numpyro.param("scale", 0.5, constraint=numpyro.distributions.constraints.positive)
    numpyro.sample("z", Normal(numpyro.param("mean", 0.3), scale))


def trained(optimizer: Any, stable: bool = False, forward: bool = False, data: Any = None) -> Any:
    """The last parameters, the losses of every step and how many steps the optimizer counts."""
    svi = SVI(model, guide, optimizer, Trace_ELBO())
    state = svi.init(jax.random.key(1), DATA)
    step = jax.jit(
        lambda state, data: (svi.stable_update if stable else svi.update)(
            state, data, forward_mode_differentiation=forward
        )
    )
    losses = []
    for each in [DATA] * STEPS if data is None else data:
        state, loss = step(state, each)
        losses.append(float(loss))
    return {name: float(value) for name, value in svi.get_params(state).items()}, losses, int(state.optim_state[0])


def by_hand(queries: int) -> tuple[dict[str, float], list[float]]:
    """v = g(x) + (1 − η)(v − g(previous)) with two queries, (1 − η) v + η g(x) with one; x unconstrained."""

    @jax.jit
    def evaluated(x: Any, key: Any) -> Any:
        def loss(x: Any) -> Any:
            return Trace_ELBO().loss(key, {"mean": x[0], "scale": jnp.exp(x[1])}, model, guide, DATA)

        return jax.value_and_grad(loss)(x)

    rng, losses = jax.random.split(jax.random.key(1), 3)[0], []  # as SVI.init takes it
    x = previous = np.array([0.3, np.log(0.5)], np.float32)
    v: Any = None
    for _ in range(STEPS):
        rng, key = jax.random.split(rng)
        loss, g = evaluated(x, key)
        losses.append(float(loss))
        if v is None:
            v = np.asarray(g)
        elif queries == 2:
            v = g + MOMENTUM * (v - evaluated(previous, key)[1])
        else:
            v = MOMENTUM * v + (1 - MOMENTUM) * g
        previous, x = x, x - LR * v / np.linalg.norm(v)
    return {"mean": float(x[0]), "scale": float(np.exp(x[1]))}, losses


@pytest.mark.parametrize(
    ("optimizer", "queries"), [(TwoPoint(nstorm(LR, MOMENTUM)), 2), (nsgdm(LR, MOMENTUM), 1)], ids=["nstorm", "nsgdm"]
)
def test_a_run_of_svi_is_the_recursion_with_the_step_s_key_at_every_point(optimizer: Any, queries: int) -> None:
    params, losses, _ = trained(optimizer)
    wanted, expected = by_hand(queries)
    assert params == pytest.approx(wanted, rel=1e-5)
    assert losses == pytest.approx(expected, rel=1e-5)
    assert len(set(losses)) == STEPS  # subsamples differ from step to step


@pytest.mark.parametrize("optimizer", [TwoPoint(nstorm(LR)), nsgdm(LR)], ids=["nstorm", "nsgdm"])
def test_svi_resumed_from_its_saved_state_has_the_bits_of_an_uninterrupted_run(optimizer: Any) -> None:
    svi = SVI(model, guide, optimizer, Trace_ELBO())
    step = jax.jit(lambda state: svi.update(state, DATA)[0])
    half = step(step(svi.init(jax.random.key(1), DATA)))
    saved: list[Any] = [jax.random.key_data(a) if _is_key(a) else np.asarray(a) for a in jax.tree.leaves(half)]
    fresh, structure = jax.tree.flatten(svi.init(jax.random.key(1), DATA))
    loaded = [jax.random.wrap_key_data(a) if _is_key(b) else a for a, b in zip(saved, fresh, strict=True)]
    pairs = [svi.get_params(step(step(state))) for state in (half, jax.tree.unflatten(structure, loaded))]
    assert pairs[0] == pairs[1]
    assert pairs[0] != svi.get_params(half)


def _is_key(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def test_forward_mode_and_an_optimizer_that_ignores_the_second_point_change_nothing() -> None:
    for ours, other in [
        ((TwoPoint(nstorm(LR)), False, True), (TwoPoint(nstorm(LR)),)),
        ((TwoPoint(nsgdm(LR)),), (nsgdm(LR),)),
    ]:
        (params, losses, _), (like, others, _) = trained(*ours), trained(*other)
        assert losses == pytest.approx(others, rel=1e-5)
        assert params == pytest.approx(like, rel=1e-5)


def test_a_stable_update_leaves_the_state_of_a_step_that_is_not_finite_and_goes_on() -> None:
    broken = [DATA, DATA, DATA * jnp.nan, DATA]
    params, losses, steps = trained(TwoPoint(nstorm(LR)), stable=True, data=broken)
    assert np.isnan(losses).tolist() == [False, False, True, False]
    assert np.isfinite(list(params.values())).all()
    assert steps == 3
    params, _, steps = trained(TwoPoint(nstorm(LR)), data=broken)  # NSTORM itself skips the step, and counts it
    assert np.isfinite(list(params.values())).all()
    assert steps == 4


def test_nstorm_by_itself_is_told_what_it_lacks_and_numpyro_s_optimizers_are_refused() -> None:
    with pytest.raises(ValueError, match="nstorm: grad_fn or prev_grads must be given"):
        trained(nstorm(LR))
    with pytest.raises(TypeError, match=r"TwoPoint: transformation must be Optax's, .* got one of type Adam"):
        TwoPoint(numpyro.optim.Adam(0.1))


def test_the_page_s_example_runs() -> None:
    page = Path(__file__).parent.parent.parent / "docs/numpyro.md"
    done = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert (done.failed, done.attempted > 5) == (0, True)
