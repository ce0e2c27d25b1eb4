"""The norm of each leaf of a tree of parameters, by its name and its shape."""

import re
from typing import Any

from gladstorm.methods.norms import NewtonSchulz, Sign, Stacked, StepNorm

TABLES = re.compile("emb|pos|token|table")  # names of what is no matrix, whatever its shape
VECTORS = re.compile("bias|gamma|scale|gain")  # and of vectors: one for each head of Flax's attention, as a bias has
PROJECTIONS = re.compile("query|key|value")  # kernels of Flax's attention: features × (heads × features of a head)


def by_layer(path: str, leaf: Any, *, inputs_first: bool = True) -> StepNorm:
    """Choose a norm as `gladstorm.torch.by_layer` does: spectral for weights and kernels, signs for all else.

    Embeddings, positions, biases and gains, as their names say, and vectors take steps by signs, those of vectors a
    quarter as long. Use it as `nsgdm(0.02, norm=by_layer)`; 0.02 with a linear decay to 0 is a good start for most
    networks. A function of your own may treat some leaves otherwise and leave the rest to this one, and return
    `Stacked(norm)` for layers that `nn.scan` has stacked along a first axis, and for experts. In
    `optax.inject_hyperparams` a norm is one of the `static_args`.

    Args:
        path: The leaf's name, such as layers.0.kernel.
        leaf: The leaf.
        inputs_first: Whether weights are inputs × outputs, and kernels end with the outputs, as in Flax and Haiku. For
            Equinox, whose weights lie as torch's: `partial(by_layer, inputs_first=False)`.

    >>> import jax.numpy as jnp
    >>> by_layer("dense.kernel", jnp.zeros((8, 4))), by_layer("dense.bias", jnp.zeros(4))
    (NewtonSchulz(leading=-1, inputs_first=True, steps=5), Sign())
    """
    name = path.lower()
    if leaf.ndim < 2 or not leaf.size or TABLES.search(name):
        return Sign()
    if VECTORS.search(name):
        return Stacked(Sign())
    projects = not inputs_first or (leaf.ndim == 3 and PROJECTIONS.search(name))
    return NewtonSchulz(leading=1 if projects else -1, inputs_first=inputs_first)
