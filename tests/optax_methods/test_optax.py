"""The Optax transformations obey the paper's laws and Optax's."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gladstorm import theory
from gladstorm.optax import from_theory, nsgdm, nstorm
from optax_walks import assert_close, gradient, length, samples, walk
from optimizers import OPTAX_FORMS, optax_optimizer

BOTH = pytest.mark.parametrize("factory", [nsgdm, nstorm], ids=["nsgdm", "nstorm"])
LR = 0.05
ALL = pytest.mark.parametrize("name", OPTAX_FORMS)

PARAMS = {
    "real": jnp.arange(6.0).reshape(2, 3),
    "complex": jnp.array([1 + 2j, -3j]),
    "half": jnp.ones(3, jnp.bfloat16),
    "scalar": jnp.array(2.0),
    "nested": [(jnp.ones(2),), None],
    "empty": jnp.zeros((0, 4)),
}


# The methods


@BOTH
def test_an_update_has_the_length_of_the_learning_rate_over_the_whole_tree(factory: Any) -> None:
    optimizer = factory(LR)
    state = optimizer.init(PARAMS)

    @jax.jit
    def call(state: Any, sample: Any) -> Any:
        grads = gradient(PARAMS, sample)
        return optimizer.update(grads, state, PARAMS, prev_grads=grads)

    for sample in samples(5):
        updates, state = call(state, sample)
        assert length(updates) == pytest.approx(LR, rel=1e-2)  # bfloat16 has 8 bits
        exact = {name: updates[name] for name in updates if name != "half"}
        wanted = {name: state.estimate[name] for name in exact}
        assert length(exact) == pytest.approx(LR * length(wanted) / length(state.estimate), rel=1e-5)


@BOTH
def test_a_zero_estimate_moves_nothing(factory: Any) -> None:
    optimizer = factory(LR)
    params = {"a": jnp.ones(2), "b": jnp.ones(3)}
    state = optimizer.init(params)
    updates, _ = optimizer.update(jax.tree.map(jnp.zeros_like, params), state, params)
    assert [leaf.tolist() for leaf in jax.tree.leaves(updates)] == [[0.0] * 2, [0.0] * 3]


def test_grad_fn_is_asked_at_the_previous_parameters_where_prev_grads_are_taken() -> None:
    optimizer = nstorm(LR)
    params = jnp.array([1.0, 2.0])
    state = by_value = optimizer.init(params)
    for sample in samples(4):
        grads = gradient(params, sample)
        asked: list[Any] = []
        updates, state = optimizer.update(
            grads, state, params, grad_fn=lambda p, sample=sample, asked=asked: asked.append(p) or gradient(p, sample)
        )
        assert asked[0].tolist() == by_value.previous.tolist()
        same, by_value = optimizer.update(grads, by_value, params, prev_grads=gradient(by_value.previous, sample))
        assert updates.tolist() == same.tolist()
        assert by_value.previous.tolist() == params.tolist()
        params = optax.apply_updates(params, updates)


@BOTH
def test_schedules_are_read_at_the_number_of_updates_made(factory: Any) -> None:
    def rate(k: Any) -> Any:
        return 0.1 / (1.0 + k)

    def momentum(k: Any) -> Any:
        return 1 - 1 / (1.0 + k)

    @jax.jit
    def fixed(k: Any, params: Any, state: Any, sample: Any) -> Any:
        """One update with the numbers of step k, whatever the state's own count."""
        grad_fn = partial(gradient, sample=sample)
        optimizer = factory(rate(k), momentum(k))
        updates, state = optimizer.update(grad_fn(params), state, params, grad_fn=grad_fn)
        return optax.apply_updates(params, updates), state

    point = jnp.array([1.0, -2.0])
    scheduled, _ = walk(factory(rate, momentum), point, samples(4))
    state = factory(LR).init(point)
    for k, sample in enumerate(samples(4)):
        point, state = fixed(k, point, state, sample)
        assert_close(scheduled[k], point)


# Accumulation


@pytest.mark.parametrize("k", [3, 4])
def test_every_k_calls_of_nstorm_are_one_update_with_the_means_at_both_points(k: int) -> None:
    params, micro = jnp.array([1.0, -2.0]), samples(5 * k).reshape(5, k)

    def mean(params: Any, sample: Any) -> Any:
        return jnp.mean(jax.vmap(partial(gradient, params))(sample), axis=0)

    whole, whole_states = walk(nstorm(LR, 0.7), params, micro, at=mean)
    parts, states = walk(nstorm(LR, 0.7, every_k=k), params, micro.ravel())
    assert_close(parts[k - 1 :: k], whole)
    for start in range(0, 4 * k, k):  # between updates nothing moves
        assert {tuple(point.tolist()) for point in parts[start + k - 1 : start + 2 * k - 1]} == {
            tuple(parts[start + k - 1].tolist())
        }
    assert_close(states[-1].estimate, whole_states[-1].estimate, atol=1e-5)
    assert (int(states[-1].count), int(states[-1].micro_step)) == (5, 0)


def test_the_first_estimate_is_the_mean_over_n_init_batches() -> None:
    params, grads = jnp.zeros(2), jnp.array([[1.0, 0.0], [3.0, 0.0], [5.0, 8.0], [7.0, 0.0]])
    optimizer = nstorm(LR, n_init=2, every_k=2)
    state = optimizer.init(params)
    for g in grads:
        assert int(state.count) == 0
        updates, state = optimizer.update(g, state, params)
    assert state.estimate.tolist() == [4.0, 2.0]
    assert length(updates) == pytest.approx(LR)
    for g in grads[:2]:
        assert int(state.count) == 1
        updates, state = optimizer.update(g, state, params, prev_grads=g)
    assert int(state.count) == 2


def test_every_k_may_be_a_schedule() -> None:
    _, states = walk(nstorm(LR, every_k=lambda count: 1 + count), jnp.ones(2), samples(1 + 2 + 3 + 1))
    assert (int(states[-1].count), int(states[-1].micro_step)) == (3, 1)


def test_multi_steps_around_nsgdm_takes_the_mean_gradient() -> None:
    params, micro = jnp.array([1.0, -2.0]), samples(6)
    parts, _ = walk(optax.MultiSteps(nsgdm(LR), 2), params, micro)
    whole, _ = walk(nsgdm(LR), params, micro.reshape(3, 2).mean(axis=1))  # this gradient is affine in the sample
    assert_close(parts[1::2], whole)


# What Optax's users rely on


@ALL
def test_dtypes_and_structure_are_kept_and_estimates_have_single_precision_at_least(name: str) -> None:
    optimizer = optax_optimizer(name, LR)
    state = optimizer.init(PARAMS)
    updates, after = optimizer.update(gradient(PARAMS, 0.5), state, PARAMS)
    for new, old in [(updates, PARAMS), (after, state)]:
        assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), new) == jax.tree.map(
            lambda leaf: (leaf.shape, leaf.dtype), old
        )
    estimate = state.motion if name == "untuned" else optax.tree_utils.tree_get(state, "estimate")
    types = {"real": "float32", "half": "float32", "complex": "complex64"}
    assert {leaf: estimate[leaf].dtype.name for leaf in types} == types
    single = jax.tree.map(lambda p: jnp.ones_like(p, jnp.float32), {"half": PARAMS["half"]})
    updates, _ = optimizer.update(single, optimizer.init({"half": PARAMS["half"]}), {"half": PARAMS["half"]})
    assert updates["half"].dtype == jnp.bfloat16


@BOTH
def test_the_norm_of_half_precision_gradients_does_not_overflow(factory: Any) -> None:
    params = jnp.zeros(10_000, jnp.float16)
    optimizer = factory(1.0)
    updates, _ = optimizer.update(jnp.full_like(params, 6e4), optimizer.init(params), params)
    assert updates.dtype == jnp.float16
    assert length(updates) == pytest.approx(1.0, rel=1e-3)


@BOTH
def test_a_chain_an_empty_tree_and_unknown_extra_arguments_are_fine(factory: Any) -> None:
    optimizer = optax.chain(factory(LR), optax.scale(2.0))
    params = jnp.array([3.0, 4.0])
    updates, _ = optimizer.update(params, optimizer.init(params), params, value=1.0, grad_fn=lambda p: p)
    np.testing.assert_allclose(updates, [-0.06, -0.08], rtol=1e-6)
    updates, _ = factory(LR).update(params, factory(LR).init(params), params, value=1.0)
    assert factory(LR).update({}, factory(LR).init({}), {})[0] == {}
    assert isinstance(factory(LR), optax.GradientTransformationExtraArgs)


@BOTH
def test_hyperparameters_can_be_injected_changed_and_scheduled_from_zero(factory: Any) -> None:
    params = jnp.array([3.0, 4.0])
    optimizer = optax.inject_hyperparams(factory)(learning_rate=LR, momentum=0.5)
    state = optimizer.init(params)
    update = jax.jit(partial(optimizer.update, grad_fn=lambda p: p))
    for rate in (0.5, 0.25):
        state.hyperparams["learning_rate"] = jnp.array(rate)
        updates, state = update(params, state, params)
        assert length(updates) == pytest.approx(rate)
    warm = optax.inject_hyperparams(factory)(optax.linear_schedule(0.0, 1.0, 4))
    state = warm.init(params)
    for expected in (0.0, 0.25, 0.5):
        updates, state = warm.update(params, state, params, grad_fn=lambda p: p)
        assert length(updates) == pytest.approx(expected)


@ALL
@pytest.mark.parametrize("scalar", [2.0, jnp.asarray(2.0), np.float32(2.0)], ids=["float", "weak", "numpy"])
def test_a_second_call_does_not_trace_again(name: str, scalar: Any) -> None:
    optimizer, traces = optax_optimizer(name, LR), []

    @jax.jit
    def call(params: Any, state: Any) -> Any:
        traces.append(1)
        updates, state = optimizer.update(params, state, params, grad_fn=lambda p: p)
        return optax.apply_updates(params, updates), state

    params = {"tree": PARAMS["real"]}
    state = optimizer.init(params)
    for _ in range(3):
        params, state = call(params, state)
    assert len(traces) == 1
    state = before = optimizer.init(scalar)
    for _ in range(2):
        _, state = optimizer.update(scalar, state, scalar, grad_fn=lambda p: p)
        assert jax.tree.map(jax.typeof, state) == jax.tree.map(jax.typeof, before)


@ALL
def test_a_whole_run_can_be_scanned(name: str) -> None:
    optimizer = optax_optimizer(name, LR)
    start = {"a": jnp.array([1.0, -2.0])}

    def call(carry: Any, sample: Any) -> Any:
        params, state = carry
        grad_fn = partial(gradient, sample=sample)
        updates, state = optimizer.update(grad_fn(params), state, params, grad_fn=grad_fn)
        return (optax.apply_updates(params, updates), state), None

    (scanned, _), _ = jax.jit(partial(jax.lax.scan, call))((start, optimizer.init(start)), samples(8))
    assert_close(scanned, walk(optimizer, start, samples(8))[0][-1])


@ALL
def test_init_takes_shapes_for_arrays(name: str) -> None:
    init, shapes = optax_optimizer(name, LR).init, jax.eval_shape(lambda: PARAMS)
    concrete = jax.tree.map(jax.typeof, init(PARAMS))
    assert jax.tree.map(lambda s: (s.shape, s.dtype), jax.eval_shape(init, shapes)) == jax.tree.map(
        lambda s: (s.shape, s.dtype), concrete
    )
    assert jax.tree.map(jax.typeof, init(shapes)) == concrete


@ALL
def test_state_lies_where_the_parameters_lie(name: str) -> None:
    mesh = Mesh(np.array(jax.devices()[:2]), ("d",))
    sharding = NamedSharding(mesh, PartitionSpec("d"))
    params, optimizer = jax.device_put(jnp.arange(8.0), sharding), optax_optimizer(name, LR)
    visited, states = walk(optimizer, params, samples(3))
    for tree in (optimizer.init(params), states[-1]):
        leaves = [leaf for leaf in jax.tree.leaves(tree) if leaf.shape == params.shape]
        count = {"nstorm": 2, "nigt": 2, "nmars": 2, "untuned": 4}.get(name, 1)
        assert len(leaves) == count  # the rest are numbers
        assert all(leaf.sharding.is_equivalent_to(sharding, 1) for leaf in leaves)
    assert_close(visited, walk(optimizer, jnp.arange(8.0), samples(3))[0], atol=1e-5)


@ALL
def test_parameters_and_state_can_be_donated_together_from_the_start(name: str) -> None:
    optimizer = optax_optimizer(name, LR)

    @partial(jax.jit, donate_argnums=(0, 1))
    def call(params: Any, state: Any) -> Any:
        updates, state = optimizer.update(params, state, params, grad_fn=lambda p: p)
        return optax.apply_updates(params, updates), state

    params = jnp.array([3.0, 4.0])
    state = optimizer.init(params)
    for _ in range(3):
        params, state = call(params, state)
    if name in ("nsgdm", "nstorm"):
        np.testing.assert_allclose(params, np.array([3.0, 4.0]) * (1 - 3 * LR / 5), rtol=1e-6)


@ALL
def test_a_run_resumed_from_its_saved_state_gives_the_same_bits(name: str) -> None:
    optimizer, params = optax_optimizer(name, LR), jnp.array([1.0, -2.0])
    whole, states = walk(optimizer, params, samples(6))
    half, before = walk(optimizer, params, samples(6)[:3])
    rest, after = walk(optimizer, half[-1], samples(6)[3:], state=jax.tree.map(np.array, before[-1]))
    assert [p.tolist() for p in half + rest] == [p.tolist() for p in whole]
    assert_close(after[-1], states[-1], atol=0)


SIGNS = np.array([[1.0, -0.5, 0.25], [-0.5, 1.0, 1.0], [1.0, 1.0, -0.5]])


@ALL
@pytest.mark.parametrize("kind", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize("jit", [False, True])
def test_f_times_a_constant_changes_nothing_and_no_size_of_gradients_makes_numbers_that_are_not_finite(
    name: str, kind: str, jit: bool
) -> None:
    with jax.enable_x64(kind == "float64"):
        x, optimizer, limits = jnp.array([1.0, -2.0, 0.5], kind), optax_optimizer(name, LR), jnp.finfo(kind)

        def at_size(size: float) -> Any:
            return walk(optimizer, x, jnp.asarray(size * SIGNS, kind), at=lambda _, sample: sample, jit=jit)

        usual, _ = at_size(1.0)
        for size in (1e-45, 1e-39, 1e-35, 1e-30, 1e30, 1e37, 3e38, 1e45):
            if size > float(limits.max):
                continue
            points, states = at_size(size)
            assert all(np.isfinite(np.asarray(leaf, float)).all() for leaf in jax.tree.leaves((points, states))), size
            if size < float(limits.tiny):  # XLA takes these for 0
                assert_close(points[-1], x, atol=0)
            elif size < 1e38 or kind == "float64":
                assert int(optax.tree_utils.tree_get(states[-1], "skipped")) == 0
                assert_close(points, usual, atol=4 * float(limits.eps))
            elif name not in ("nstorm", "nmars"):  # ‖v‖ overflows; theirs is a v that does, and is skipped
                assert int(optax.tree_utils.tree_get(states[-1], "skipped")) == 0
                assert_close(points, usual, atol=0.01)


# Theory


@pytest.mark.parametrize("factory", [nsgdm, nstorm], ids=["nsgdm", "nstorm"])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("B", "G"), [(0.3, 1.7), (0.0, 1.7), (0.0, 0.0)])
def test_from_theory_is_the_plan_s_schedule(factory: Any, alpha: float, B: float, G: float) -> None:
    name = {nsgdm: "nsgdm", nstorm: "nstorm"}[factory]
    constants: dict[str, Any] = {"L0": 1.5, "L1": 0.25, "L": 2.0, "gap": 3.0}
    plan = theory.plan(name, horizon=40, alpha=alpha, B=B, G=G, gamma0=0.09, **constants)
    eta, gamma, n_init, _ = plan.statement.schedule(40)
    optimizer = from_theory(factory, horizon=40, alpha=alpha, B=B, G=G, gamma0=0.09)
    grads, nothing = jnp.array([3.0, 4.0]), jnp.zeros(2)
    state = optimizer.init(grads)
    for call in range(n_init):
        assert int(state.count) == 0, f"v⁰ was ready after {call} of {n_init} batches"
        updates, state = optimizer.update(grads, state, grads)
    assert length(updates) == pytest.approx(gamma, rel=1e-6)
    _, state = optimizer.update(nothing, state, grads, prev_grads=nothing)  # leaves (1 − η) v
    np.testing.assert_allclose(state.estimate, (1 - eta) * grads, rtol=1e-5, atol=1e-6)


# Wrong use


NSGDM: Any = nsgdm
NSTORM: Any = nstorm
RATE = "nsgdm: learning_rate must be a schedule or a number, finite and ≥ 0; got learning_rate="
MOMENTUM = r"nsgdm: momentum must be a schedule or a number in \[0, 1\); got momentum="


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *(
            (partial(NSGDM, value), RATE)
            for value in (-1.0, float("nan"), float("inf"), True, None, [0.1], jnp.ones(2))
        ),
        *((partial(NSGDM, LR, value), MOMENTUM) for value in (1, 1.0, -0.1, float("nan"), False, "high")),
        *((partial(NSTORM, LR, every_k=value), "nstorm: every_k must be a sched") for value in (0, 1.5, None, True)),
        *((partial(NSTORM, LR, n_init=value), "nstorm: n_init must be a whole") for value in (0, 2.5, 2**31)),
        (partial(from_theory, nsgdm, horizon=0, alpha=0, gamma0=1.0, G=1.0), "nsgdm: horizon must be a whole number"),
        (partial(from_theory, nstorm, horizon=9, alpha=2, gamma0=1.0, G=1.0), "problem: alpha must be in"),
        (partial(from_theory, nstorm, horizon=9, alpha=0, gamma0=-1.0, G=1.0), "nstorm: gamma0 must be finite and > 0"),
    ],
)
def test_a_wrong_number_is_refused_in_a_sentence(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_nstorm_says_what_it_needs() -> None:
    optimizer, params = nstorm(LR), jnp.ones(2)
    state = optimizer.init(params)
    with pytest.raises(ValueError, match=r"nstorm: grad_fn or prev_grads must be given .* under jax\.jit; got neither"):
        jax.jit(optimizer.update)(params, state, params)
    _, state = optimizer.update(params, state, params)
    with pytest.raises(ValueError, match=r"nstorm: grad_fn or prev_grads must be given .* got neither"):
        optimizer.update(params, state, params)
    with pytest.raises(ValueError, match="nstorm: params must be given to update; got params=None"):
        optimizer.update(params, state, prev_grads=params)
