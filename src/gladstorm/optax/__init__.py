"""NSGDM and NSTORM as Optax transformations: γ is `learning_rate`, 1 − η is `momentum`, and both may be schedules.

>>> import jax, jax.numpy as jnp, optax
>>> from functools import partial
>>> grads_on = jax.grad(lambda params, sample: jnp.sum((params - sample) ** 2))
>>> optimizer = nstorm(learning_rate=0.1, momentum=0.9)
>>> params = jnp.zeros(2)
>>> state = optimizer.init(params)
>>> for sample in jnp.ones((30, 2)):
...     grad_fn = partial(grads_on, sample=sample)  # this sample, at any point
...     updates, state = optimizer.update(grad_fn(params), state, params, grad_fn=grad_fn)
...     params = optax.apply_updates(params, updates)
>>> bool(jnp.linalg.norm(params - 1) < 0.1)
True

0/0 = 0: an update has length `learning_rate`, or is 0 where the estimate is. Estimates are kept in float32 at least;
updates have the dtypes of the parameters.

weight_decay: decoupled, as in torch and in `optax.adamw`: the update also has −learning_rate · weight_decay · params.
norm: "global", one norm over the whole tree, is the paper's method; "tensor" gives each leaf a step of its own length.
    `optax.multi_transform` with a transformation for each label has a norm for each label, torch's norm="group".
axis_name: inside `jax.shard_map` or `jax.pmap`, the axis or axes every leaf is cut along, so that the norm is that of
    the whole tree. Under `jax.jit` arrays know their parts, and nothing is needed. Inside `jax.shard_map` it may
    not be left out; `axis_name=()` is for devices that train models of their own.

`steered` has no number to tune: it finds the length of its updates itself, and `averaged` reads an average it may keep.
`diagnose` tells whether the noise of a loss grows at all; `read_noise` measures it inside a training step.
"""

from gladstorm.foundation.extras import needing

with needing("optax", "Optax"):
    import optax  # noqa: F401 - Optax itself, not this package

from gladstorm.optax.diagnosis import diagnose
from gladstorm.optax.nsgdm import NsgdmState, nsgdm
from gladstorm.optax.nstorm import NstormState, nstorm
from gladstorm.optax.reading import Reading, probes_of, read_noise
from gladstorm.optax.steered import SteeredState, averaged, steered

__all__ = [
    "NsgdmState",
    "NstormState",
    "Reading",
    "SteeredState",
    "averaged",
    "diagnose",
    "nsgdm",
    "nstorm",
    "probes_of",
    "read_noise",
    "steered",
]
