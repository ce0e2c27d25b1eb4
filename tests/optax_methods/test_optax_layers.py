"""A norm for each leaf: step by step as by hand in float64, inside other transformations, by names and shapes."""

import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from gladstorm.core.equations import newton_schulz
from gladstorm.methods.norms import Columns, Euclid, Layers, NewtonSchulz, Rows, Sign, Spectral, Stacked, StepNorm
from gladstorm.optax import averaged, by_layer, nsgdm, nstorm, untuned
from gladstorm.torch import NSGDM, Untuned
from optax_walks import assert_close, walk

RNG = np.random.default_rng(0)
PARAMS = {
    "conv": {"kernel": RNG.normal(size=(3, 3, 2, 5)), "bias": RNG.normal(size=5)},
    "dense": {"kernel": RNG.normal(size=(4, 8))},
    "head": {"kernel": RNG.normal(size=(8, 1))},
    "token_embedding": {"embedding": RNG.normal(size=(6, 4))},
}
GAMMA, MOMENTUM, DECAY = 0.1, 0.7, 0.05


@pytest.fixture(autouse=True)
def _double() -> Any:
    with jax.enable_x64(True):
        yield


def by_hand(name: str, v: np.ndarray) -> Any:
    """The unit step of a leaf times its length, for weights that are inputs × outputs."""
    if "bias" in name or "embedding" in name:
        return np.sign(v) / (1 if "embedding" in name else 4)
    matrix = v.reshape(-1, v.shape[-1])
    inputs, outputs = matrix.shape
    return (max(1.0, outputs / inputs) ** 0.5 * newton_schulz(matrix, np)).reshape(v.shape)


def sample_gradient(p: Any, sample: Any, xp: Any) -> Any:
    return p * (1 + sample) + xp.sin(3 * p) + sample


@pytest.mark.parametrize("recursion", ["nsgdm", "nstorm", "untuned"])
def test_every_step_by_layer_is_that_by_hand_with_decay_as_a_radius(recursion: str) -> None:
    samples, momentum, lengths = RNG.normal(size=6), MOMENTUM, [GAMMA] * 6
    if recursion == "untuned":  # over four steps, and two more
        optimizer = untuned(4, learning_rate=5.0, layers=by_layer, weight_decay=DECAY)
        momentum, lengths = 0.9, [0.1, 0.075, 0.05, 0.025, 0.1 / 5, 0.1 / 6]
    else:
        make = {"nsgdm": nsgdm, "nstorm": nstorm}[recursion]
        optimizer = make(GAMMA, MOMENTUM, norm=by_layer, weight_decay=DECAY)
    at = lambda params, sample: jax.tree.map(lambda p: sample_gradient(p, sample, jnp), params)  # noqa: E731
    visited, states = walk(optimizer, jax.tree.map(jnp.asarray, PARAMS), samples, at=at)
    leaves, structure = jax.tree.flatten_with_path(PARAMS)
    ends = []
    for path, x in leaves:
        v = previous = None
        for sample, gamma in zip(samples, lengths, strict=True):
            g = sample_gradient(x, sample, np)
            if v is None:
                v = g
            elif recursion == "nstorm":
                v = g + MOMENTUM * (v - sample_gradient(previous, sample, np))
            else:
                v = momentum * v + (1 - momentum) * g
            previous, x = x, x - gamma * (by_hand(jax.tree_util.keystr(path), v) + DECAY * x)
        ends.append(x)
    assert_close(visited[-1], jax.tree.unflatten(structure, ends), atol=1e-12)
    assert int(states[-1].skipped) == 0


TORCHED = {"conv": (5, 2, 3, 3), "W": (6, 4), "narrow": (3, 7), "bias": (5,), "embedding": (6, 4)}  # outputs first


@pytest.mark.parametrize("name", ["nsgdm", "untuned"])
def test_optax_and_torch_agree_step_by_step_also_past_the_horizon(name: str) -> None:
    start = {name: RNG.normal(size=shape) for name, shape in TORCHED.items()}
    samples, layers = RNG.normal(size=8), partial(by_layer, inputs_first=False)
    theirs = {name: torch.nn.Parameter(torch.tensor(x)) for name, x in start.items()}
    signs: dict[str, Any] = {"params": [theirs["bias"]], "norm": "sign", "scale": 0.25}
    table: dict[str, Any] = {"params": [theirs["embedding"]], "norm": "sign"}
    matrices: dict[str, Any] = {"params": [theirs[name] for name in ("conv", "W", "narrow")], "norm": "spectral"}
    optimizer: Any
    if name == "nsgdm":
        ours = nsgdm(GAMMA, MOMENTUM, weight_decay=DECAY, norm=layers)
        optimizer = NSGDM([matrices, table, signs], lr=GAMMA, momentum=MOMENTUM, weight_decay=DECAY)
    else:
        ours = untuned(6, learning_rate=lambda k: jnp.where(k < 9, 2.0, 0.0), weight_decay=DECAY, layers=layers)
        optimizer = Untuned([matrices, table, signs], lr=2.0, horizon=6, weight_decay=DECAY)
    at = lambda params, sample: jax.tree.map(lambda p: sample_gradient(p, sample, jnp), params)  # noqa: E731
    visited, states = walk(ours, jax.tree.map(jnp.asarray, start), samples, at=at)
    for sample, point in zip(samples, visited, strict=True):
        for p in theirs.values():
            p.grad = sample_gradient(p.detach(), float(sample), torch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's says that the horizon has passed
            optimizer.step()
        assert_close(point, {name: p.detach().numpy() for name, p in theirs.items()}, atol=1e-12)
    assert_close(averaged(states[-1], visited[-1]), visited[-1], atol=0)


def one_update(optimizer: Any, params: Any, grads: Any) -> Any:
    return optimizer.update(grads, optimizer.init(params), params)[0]


def test_a_leaf_is_treated_alike_inside_other_transformations() -> None:
    params, whole = jax.tree.map(jnp.asarray, PARAMS), nsgdm(GAMMA, norm=by_layer)
    expected = one_update(whole, params, params)
    labels = {name: "ours" if name == "dense" else "frozen" for name in params}
    parted = optax.multi_transform({"ours": whole, "frozen": optax.set_to_zero()}, labels)
    got = one_update(parted, params, params)
    assert_close(got["dense"], expected["dense"], atol=0)
    assert not np.any(got["head"]["kernel"])
    masked = optax.masked(whole, {name: name == "conv" for name in params})
    got = one_update(masked, params, params)
    assert_close(got["conv"], expected["conv"], atol=0)
    assert_close(got["head"], params["head"], atol=0)  # masked leaves pass


@pytest.mark.parametrize(
    ("path", "shape", "norm"),
    [
        ("layers.0.kernel", (3, 4), NewtonSchulz(leading=-1, inputs_first=True)),
        ("layers.0.conv.kernel", (3, 3, 4, 5), NewtonSchulz(leading=-1, inputs_first=True)),
        ("attention.query.kernel", (8, 2, 4), NewtonSchulz(leading=1, inputs_first=True)),
        ("attention.out.kernel", (2, 4, 8), NewtonSchulz(leading=-1, inputs_first=True)),
        ("attention.query.bias", (2, 4), Stacked(Sign())),
        ("embed.embedding", (9, 4), Sign()),
        ("norm.scale", (4,), Sign()),
    ],
)
def test_the_choice_knows_matrices_by_name_and_shape(path: str, shape: tuple[int, ...], norm: StepNorm) -> None:
    assert by_layer(path, np.zeros(shape)) == norm
    wide = norm._matrix(jnp.zeros(shape)).shape if isinstance(norm, NewtonSchulz) else None
    assert wide in (None, (4, 3), (5, 36), (8, 8))


@pytest.mark.parametrize("norm", [Euclid(), Sign(), Spectral(), Rows(), Columns(), Layers(), Stacked(Rows())], ids=str)
def test_one_norm_is_that_of_the_whole_tree(norm: StepNorm) -> None:
    params = {"a": jnp.asarray(RNG.normal(size=(2, 3, 4))), "b": jnp.asarray(RNG.normal(size=(4, 2)))}
    update = one_update(nsgdm(GAMMA, norm=norm), params, params)
    assert float(norm.length(update)) == pytest.approx(GAMMA, rel=1e-6)
    assert_close(update, jax.tree.map(lambda unit: -GAMMA * unit, norm.unit(params)), atol=1e-7)


def test_a_leaf_that_is_not_finite_stays_and_is_counted_while_others_move() -> None:
    params, optimizer = jax.tree.map(jnp.asarray, PARAMS), nsgdm(GAMMA, norm=by_layer)
    bad = {**params, "dense": {"kernel": params["dense"]["kernel"].at[0, 0].set(jnp.nan)}}
    updates, state = optimizer.update(bad, optimizer.init(params), params)
    assert not np.any(updates["dense"]["kernel"])
    assert np.all(np.isfinite(updates["conv"]["kernel"]))
    assert np.any(updates["conv"]["kernel"])
    assert int(state.skipped) == 1


@pytest.mark.parametrize("norm", ["spectral", 3])
def test_a_bad_norm_gets_one_sentence(norm: Any) -> None:
    with pytest.raises(ValueError, match=r"nsgdm: norm must be one of global, tensor, a norm .*by_layer; got norm="):
        nsgdm(GAMMA, norm=norm)
    with pytest.raises(ValueError, match="nsgdm: axis_name must be left out unless norm is one of global, tensor"):
        nsgdm(GAMMA, norm=by_layer, axis_name="shards")
