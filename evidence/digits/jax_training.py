"""A training loop in JAX: networks written by hand, BatchNorm's statistics as state, a whole run in one `scan`.

Every optimizer is called in the same way; NSTORM calls `grad_fn` for the same mini-batch, dropout mask and noise at its
previous parameters.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from scipy.special import logsumexp

from evidence.training import steps_within
from gladstorm.optax import averaged, nsgdm, nstorm, untuned

from .setting import CLIP, DROPOUT, MOMENTUM, Arm, B, G, Outcome, digits, factor, mini_batches

Array = jax.Array
Tree = Any  # parameters, or the state of a network
Schedule = Callable[[Array], Array]

OPTIMIZERS: dict[str, Callable[[Schedule, int], optax.GradientTransformation]] = {
    "NSGDM": lambda lr, _: nsgdm(lr, MOMENTUM),
    "NSTORM": lambda lr, _: nstorm(lr, MOMENTUM),
    "Untuned": lambda lr, steps: untuned(steps, learning_rate=lr),
    "SGD": lambda lr, _: optax.sgd(lr, MOMENTUM),
    "SGD + clipping": lambda lr, _: optax.chain(optax.clip_by_global_norm(CLIP), optax.sgd(lr, MOMENTUM)),
    "Adam": lambda lr, _: optax.adam(lr, MOMENTUM, 0.999),
}


class MLP:
    """64 → 64 → 10 with BatchNorm and dropout; the state is BatchNorm's running mean and variance."""

    @staticmethod
    def init(generator: np.random.Generator) -> tuple[Tree, Tree]:
        """Parameters and state."""
        zeros, ones = np.zeros(64, np.float32), np.ones(64, np.float32)
        params = {
            "hidden": layer(generator, 64, 64),
            "norm": {"scale": ones, "shift": zeros},
            "out": layer(generator, 64, 10),
        }
        return params, {"mean": zeros, "variance": ones}

    @staticmethod
    def apply(params: Tree, state: Tree, images: Array, key: Array | None) -> tuple[Array, Tree]:
        """Logits and the new state: in training with the key of its dropout mask, else with None."""
        hidden = images @ params["hidden"]["weight"] + params["hidden"]["bias"]
        hidden, state = batch_norm(params["norm"], state, hidden, training=key is not None)
        hidden = jax.nn.relu(hidden)
        if key is not None:
            mask = jax.random.bernoulli(key, 1 - DROPOUT, hidden.shape)
            hidden = jnp.where(mask, hidden / (1 - DROPOUT), 0)
        return hidden @ params["out"]["weight"] + params["out"]["bias"], state


class Conv:
    """Two 3 × 3 convolutions of 8 and 16 channels, each pooled, and a linear layer; no state."""

    @staticmethod
    def init(generator: np.random.Generator) -> tuple[Tree, Tree]:
        """Parameters and state."""
        first, second, out = (layer(generator, *sizes) for sizes in ((9, 8), (72, 16), (64, 10)))
        return {"first": first, "second": second, "out": out}, {}

    @staticmethod
    def apply(params: Tree, state: Tree, images: Array, _key: Array | None) -> tuple[Array, Tree]:
        """Logits and the state, the same in training or not."""
        x = images.reshape(-1, 8, 8, 1)
        for layer in (params["first"], params["second"]):
            x = max_pool(jax.nn.relu(patches(x) @ layer["weight"] + layer["bias"]))
        return x.reshape(len(x), -1) @ params["out"]["weight"] + params["out"]["bias"], state


NETWORKS: dict[str, type[MLP] | type[Conv]] = {"MLP": MLP, "conv": Conv}


def layer(generator: np.random.Generator, inputs: int, outputs: int) -> Tree:
    """A layer's first weights and biases, uniform as torch draws them; in NumPy, where nothing is compiled for it."""
    bound = inputs**-0.5
    weight, bias = (generator.uniform(-bound, bound, shape) for shape in ((inputs, outputs), (outputs,)))
    return {"weight": weight.astype(np.float32), "bias": bias.astype(np.float32)}


def batch_norm(params: Tree, state: Tree, x: Array, *, training: bool) -> tuple[Array, Tree]:
    """Normalized by the batch's own moments in training, by the running ones otherwise; torch's constants."""
    if training:
        moments = {"mean": x.mean(0), "variance": x.var(0)}
        unbiased = {"mean": moments["mean"], "variance": moments["variance"] * len(x) / (len(x) - 1)}
        state = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, state, unbiased)
    else:
        moments = state
    normalized = (x - moments["mean"]) / jnp.sqrt(moments["variance"] + 1e-5)
    return params["scale"] * normalized + params["shift"], state


def patches(x: Array) -> Array:
    """The 3 × 3 surroundings of every pixel, side by side: a convolution is then a matrix product."""
    _, height, width, _ = x.shape
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return jnp.concatenate([padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)], axis=-1)


def max_pool(x: Array) -> Array:
    """Over squares of 2 × 2."""
    n, height, width, channels = x.shape
    return x.reshape(n, height // 2, 2, width // 2, 2, channels).max((2, 4))


def bg_noise(params: Tree, start: Tree, key: Array) -> Array:
    """½ B ρ ‖x − x⁰‖² + G u·x with ρ = ±1 and u ~ N(0, I/d): what adds B ρ (x − x⁰) + G u to the gradient."""
    of_rho, of_u = jax.random.split(key)
    x, x0 = (ravel_pytree(tree)[0] for tree in (params, start))
    u = jax.random.normal(of_u, x.shape) / x.size**0.5
    noise: Array = B / 2 * jax.random.rademacher(of_rho, ()) * jnp.sum((x - x0) ** 2) + G * (u @ x)
    return noise


def train(arm: Arm, runs: Sequence[tuple[float, int]], evaluations: int) -> list[Outcome]:
    """One run for each (lr, seed)."""
    steps = steps_within(evaluations, arm.method)
    program, evaluated = compiled(arm, steps)
    apply = jax.jit(NETWORKS[arm.network].apply)

    def accuracy_and_loss(params: Tree, state: Tree, images: Any, labels: Any) -> tuple[float, float]:
        logits = np.asarray(apply(params, state, images, None)[0], np.float64)
        losses = logsumexp(logits, axis=1) - logits[np.arange(len(labels)), labels]
        return 100 * float(np.mean(np.argmax(logits, 1) == labels)), float(losses.mean())

    outcomes = []
    for lr, seed in runs:
        start, state, keys = beginning(arm, seed, steps)
        params, state = program(lr, start, state, keys, mini_batches(seed, steps), *digits().train)
        pairs = zip(jax.tree.leaves(params), jax.tree.leaves(start), strict=True)
        distance = math.hypot(*(np.linalg.norm(np.asarray(x) - x0) for x, x0 in pairs))
        validation, loss = accuracy_and_loss(params, state, *digits().validation)
        test, _ = accuracy_and_loss(params, state, *digits().test)
        outcomes.append(Outcome(validation, loss, test, distance, evaluated))
    return outcomes


def beginning(arm: Arm, seed: int, steps: int) -> tuple[Tree, Tree, Array]:
    """First parameters and state, and two keys for each step: of its dropout mask and of its noise."""
    of_weights = np.random.default_rng([seed, 1])  # not the stream that orders the images
    return *NETWORKS[arm.network].init(of_weights), jax.random.split(jax.random.key(seed), (steps, 2))


@cache
def compiled(arm: Arm, steps: int) -> tuple[Callable[..., Any], int]:
    """All steps of a run as one program, and how many gradients it evaluates."""
    network = NETWORKS[arm.network]
    traced = 0  # evaluations of a gradient in one step

    def run(
        lr: Array, start: Tree, state: Tree, keys: Array, batches: Array, images: Array, labels: Array
    ) -> tuple[Tree, Tree]:
        optimizer = optax.with_extra_args_support(
            OPTIMIZERS[arm.method](lambda k: lr * factor(arm.method, k, steps), steps)
        )

        def step(carry: Tree, sample: tuple[Array, Array]) -> tuple[Tree, None]:
            nonlocal traced
            traced = 0
            params, state, optimizer_state = carry
            (of_dropout, of_noise), batch = sample  # the two keys are an array

            @partial(jax.grad, has_aux=True)
            def gradient(params: Tree) -> tuple[Array, Tree]:
                """Gradient of this sample, at any point; and the network's state after it."""
                nonlocal traced
                traced += 1
                logits, state_after = network.apply(params, state, images[batch], of_dropout)
                loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels[batch]).mean()
                return loss + (bg_noise(params, start, of_noise) if arm.noise == "BG" else 0), state_after

            grads, state_after = gradient(params)
            updates, optimizer_state = optimizer.update(
                grads, optimizer_state, params, grad_fn=lambda params: gradient(params)[0]
            )
            return (optax.apply_updates(params, updates), state_after, optimizer_state), None

        (params, state, at_end), _ = jax.lax.scan(step, (start, state, optimizer.init(start)), (keys, batches))
        return averaged(at_end, params) if arm.method == "Untuned" else params, state

    program = jax.jit(run).lower(1.0, *beginning(arm, 0, steps), mini_batches(0, steps), *digits().train).compile()
    return program, traced * steps
