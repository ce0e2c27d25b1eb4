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

`nsgdm` explains the options, and what becomes of gradients that are not finite. `nigt` and `nmars` are one-gradient
relatives of `nstorm`. In the state of a chain,
`optax.tree_utils.tree_get(state, "skipped")` reads how many updates were skipped.

`untuned` has no number to tune: it finds the length of its updates itself; `averaged` reads the average that it keeps.
`diagnose` measures whether the noise of a loss grows at all; `read_noise` measures it inside a training step.
`scale_batch` gives an optimizer's arguments for larger batches, `auto_batch` lets them grow by themselves, and
`from_theory` makes an optimizer with its theorem's numbers.
"""

from gladstorm.core.extras import needing_extras

with needing_extras("gladstorm.optax"):
    import optax  # noqa: F401 - Optax itself, not this package

from gladstorm.optax.auto_batch import AutoBatchState, auto_batch, read_batch
from gladstorm.optax.diagnosis import diagnose, trial
from gladstorm.optax.from_theory import from_theory
from gladstorm.optax.layers import by_layer
from gladstorm.optax.noise import Reading, probes_of, read_noise
from gladstorm.optax.nsgdm import NsgdmState, nsgdm
from gladstorm.optax.nstorm import NstormState, nstorm
from gladstorm.optax.one_gradient import NigtState, NmarsState, nigt, nmars
from gladstorm.optax.scale_batch import scale_batch
from gladstorm.optax.untuned import averaged, untuned, untuned_per_coordinate

__all__ = [
    "AutoBatchState",
    "NigtState",
    "NmarsState",
    "NsgdmState",
    "NstormState",
    "Reading",
    "auto_batch",
    "averaged",
    "by_layer",
    "diagnose",
    "from_theory",
    "nigt",
    "nmars",
    "nsgdm",
    "nstorm",
    "probes_of",
    "read_batch",
    "read_noise",
    "scale_batch",
    "trial",
    "untuned",
    "untuned_per_coordinate",
]
