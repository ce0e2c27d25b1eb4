"""NSGDM and NSTORM as Optax transformations. γ is `learning_rate` and 1 − η is `momentum`; both may be schedules.

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

An update has length `learning_rate`, or is 0 if the estimate is 0. Estimates are kept in float32 at least; updates have
the dtypes of the parameters. If the estimate is not finite, the update is 0, even its weight decay, `state.skipped`
counts one more, and the next gradient starts a new estimate, as in torch. In the state of a chain,
`optax.tree_utils.tree_get(state, "skipped")` reads the count. Both transformations have these options:

learning_rate: γ ≥ 0, the length of an update without its weight decay.
momentum: 1 − η in [0, 1), the weight of the old estimate.
weight_decay: a number ≥ 0. The update also has −learning_rate · weight_decay · params, as in torch and `optax.adamw`.
norm: "global", the paper's method, has one norm over the whole tree; "tensor" gives each leaf a step of its own length.
    For one norm per group of parameters, use `optax.multi_transform` with a transformation for each label.
axis_name: inside `jax.shard_map` or `jax.pmap`, the axis or axes that every leaf is cut along, so that the norm is that
    of the whole tree. `jax.shard_map` requires it; `axis_name=()` is for devices that train separate models. Under
    `jax.jit` it is not needed.

`steered` has no number to tune: it finds the length of its updates itself; `averaged` reads the average that it may
keep. `diagnose` measures whether the noise of a loss grows at all; `read_noise` measures it inside a training step.
"""

from gladstorm.core.extras import needing_extras

with needing_extras("gladstorm.optax"):
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
