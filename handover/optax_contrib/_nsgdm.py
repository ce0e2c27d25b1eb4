"""Normalized SGD with momentum, in the norm of each layer (NSGDM).

References:
  Cutkosky and Mehta, `Momentum Improves Normalized SGD
  <https://arxiv.org/abs/2002.03305>`_, 2020.

  Bernstein and Newhouse, `Old Optimizer, New Norm: An Anthology
  <https://arxiv.org/abs/2409.20325>`_, 2024.
"""

from collections.abc import Callable
import re
from typing import Any, NamedTuple, Optional, Union

import jax
import jax.numpy as jnp
from optax._src import base
from optax._src import combine
from optax._src import numerics
from optax._src import transform
from optax.contrib import _muon
import optax.tree

_TABLES = re.compile('emb|pos|token|table')
_VECTORS = re.compile('bias|gamma|scale|gain')
_PROJECTIONS = re.compile('query|key|value')


class LayerStep(NamedTuple):
  """How a leaf of the parameters moves in a step of unit length.

  Attributes:
    dimension_numbers: the axes of a matrix, which moves along its orthogonal
      factor; ``None`` for a leaf that moves along the signs of its entries.
    scale: the length of the leaf's step.
  """

  dimension_numbers: Optional[_muon.MuonDimensionNumbers] = None
  scale: jax.typing.ArrayLike = 1.0


LayerStepFn = Callable[[str, jax.Array], LayerStep]


def layer_step(path: str, leaf: jax.Array) -> LayerStep:
  """Chooses the unit step of a leaf by its name and shape.

  Kernels, whose last axis holds the outputs as in Flax and Haiku, are matrices.
  Leaves whose names speak of embeddings, positions or tokens, biases and gains,
  and all vectors, take steps by signs, those of vectors a quarter as long.

  Args:
    path: the leaf's name, such as ``layers.0.kernel``.
    leaf: the leaf.

  Returns:
    The corresponding :class:`optax.contrib.LayerStep`.
  """
  name = path.lower()
  shape = leaf.shape
  is_vector = _VECTORS.search(name) and not _TABLES.search(name)
  if leaf.ndim > 1 and not is_vector and not _TABLES.search(name):
    # Flax's attention has kernels of features x (heads x features of a head).
    inputs = (
      1 if leaf.ndim == 3 and _PROJECTIONS.search(name) else leaf.ndim - 1
    )
    fan_in, fan_out = tuple(range(inputs)), tuple(range(inputs, leaf.ndim))
    return LayerStep(_muon.MuonDimensionNumbers(fan_in, fan_out))
  if is_vector and leaf.ndim > 1:
    shape = shape[1:]  # one for each head, as biases of Flax's attention are
  is_table = sum(side > 1 for side in shape) > 1
  return LayerStep(None, 1.0 if is_table else 0.25)


def _orthogonal_factor(
  x: jax.Array, dimension_numbers: _muon.MuonDimensionNumbers
) -> jax.Array:
  """The orthogonal factor of a matrix, times sqrt(max(1, fan_out / fan_in))."""
  spec = jax.typeof(x).sharding.spec
  if any(spec):  # explicit sharding, where axes that are cut cannot be reshaped
    x = jax.sharding.reshard(x, jax.P(*[None] * x.ndim))
  largest = jnp.max(jnp.abs(x))
  x = x / jnp.where(largest == 0, 1, largest)  # or squares could underflow
  shape = _muon._get_shape_products(x, dimension_numbers)
  factor = _muon.orthogonalize_via_newton_schulz(
    x,
    jnp.asarray(_muon._DEFAULT_NS_COEFFS, x.dtype),
    ns_steps=5 if min(shape) > 1 else 0,  # a single row is only normalized
    eps=float(jnp.finfo(x.dtype).tiny),
    dimension_numbers=dimension_numbers,
  )
  factor = _muon._scale_update_for_width_transfer(factor, dimension_numbers)
  return jax.sharding.reshard(factor, spec) if any(spec) else factor


def scale_by_layer_norm(
  layer_step_fn: Optional[LayerStepFn] = None,
) -> base.GradientTransformation:
  """Replaces each leaf by its unit step, whatever its size.

  See :func:`optax.contrib.nsgdm` for more details.

  Args:
    layer_step_fn: chooses the unit step of a leaf by its name and the leaf;
      ``None`` is :func:`optax.contrib.layer_step`.

  Returns:
    The corresponding :class:`optax.GradientTransformation`.
  """
  choose = layer_step if layer_step_fn is None else layer_step_fn

  def unit_step(path, x):
    name = jax.tree_util.keystr(path, simple=True, separator='.')
    dimension_numbers, scale = choose(name, x)
    if dimension_numbers is None:
      return scale * jnp.sign(x)
    return scale * _orthogonal_factor(x, dimension_numbers)

  def update_fn(updates, state, params=None):
    del params
    return jax.tree.map_with_path(unit_step, updates), state

  return base.GradientTransformation(base.init_empty_state, update_fn)


class NsgdmState(NamedTuple):
  """State for NSGDM."""

  count: jax.Array
  average: base.Updates


def scale_by_nsgdm(
  momentum: jax.typing.ArrayLike = 0.9,
  layer_step_fn: Optional[LayerStepFn] = None,
  average_dtype: Optional[jax.typing.DTypeLike] = None,
) -> base.GradientTransformation:
  """Averages the updates and replaces each leaf by the unit step along it.

  See :func:`optax.contrib.nsgdm` for more details.

  Args:
    momentum: the weight of the old average.
    layer_step_fn: chooses the unit step of a leaf by its name and the leaf;
      ``None`` is :func:`optax.contrib.layer_step`.
    average_dtype: the dtype of the average; ``None`` is that of the parameters.

  Returns:
    The corresponding :class:`optax.GradientTransformation`.
  """
  normalize = scale_by_layer_norm(layer_step_fn)

  def init_fn(params):
    average = optax.tree.zeros_like(params, dtype=average_dtype)
    return NsgdmState(count=jnp.zeros([], jnp.int32), average=average)

  def update_fn(updates, state, params=None):
    del params
    # The average starts at the first update: no bias, hence no correction.
    weight = jnp.where(state.count == 0, 0.0, momentum)
    average = jax.tree.map(
      lambda v, g: (weight * v + (1 - weight) * g).astype(v.dtype),
      state.average,
      updates,
    )
    unit_steps, _ = normalize.update(average, base.EmptyState())
    unit_steps = jax.tree.map(
      lambda d, g: d.astype(g.dtype), unit_steps, updates
    )
    count = numerics.safe_increment(state.count)
    return unit_steps, NsgdmState(count=count, average=average)

  return base.GradientTransformation(init_fn, update_fn)


def nsgdm(
  learning_rate: base.ScalarOrSchedule,
  momentum: jax.typing.ArrayLike = 0.9,
  weight_decay: jax.typing.ArrayLike = 0.0,
  weight_decay_mask: Optional[Union[Any, Callable[[base.Params], Any]]] = None,
  *,
  layer_step_fn: Optional[LayerStepFn] = None,
  average_dtype: Optional[jax.typing.DTypeLike] = None,
) -> base.GradientTransformation:
  r"""Normalized SGD with momentum, in the norm of each layer (NSGDM).

  Gradients are averaged, and each layer then moves a given distance along its
  average, whatever its size:

  .. math::

    \begin{align*}
      v_t &= \mu v_{t-1} + (1 - \mu) g_t, \quad v_0 = g_0 \\
      x_{t+1} &= x_t - \gamma_t \left( s\, d(v_t) + \lambda x_t \right)
    \end{align*}

  The unit step :math:`d(v)` of a matrix :math:`v = U \Sigma V^\top` from
  :math:`n` inputs to :math:`m` outputs is :math:`\sqrt{\max(1, m/n)}\, U
  V^\top`, by Newton-Schulz as in :func:`optax.contrib.muon`, with :math:`s =
  1`. All else takes steps by signs, with :math:`s = 1` for tables such as
  embeddings and :math:`s = 1/4` for vectors. So one learning rate serves all
  layers, and the state is one number per parameter. A linear decay from 0.02 to
  0 is a good start for networks.

  Args:
    learning_rate: the length of a step, either fixed or evolving along
      iterations with a scheduler, see :func:`optax.scale_by_learning_rate`.
    momentum: the weight :math:`\mu` of the old average.
    weight_decay: strength :math:`\lambda` of the weight decay, which is
      multiplied with the learning rate, as in :func:`optax.adamw`.
    weight_decay_mask: a tree with same structure as (or a prefix of) the params
      PyTree, or a Callable that returns such a pytree given the params/updates.
      The leaves should be booleans, `True` for leaves/subtrees you want to
      apply the weight decay to, and `False` for those you want to skip.
    layer_step_fn: chooses the unit step of a leaf by its name and the leaf;
      ``None`` is :func:`optax.contrib.layer_step`.
    average_dtype: the dtype of the average; ``None`` is that of the parameters.
      Use ``jnp.float32`` for parameters in half precision.

  Returns:
    The corresponding :class:`optax.GradientTransformation`.

  Examples:
    >>> import optax
    >>> from optax import contrib
    >>> import jax
    >>> import jax.numpy as jnp
    >>> def f(params): return jnp.sum((params['kernel'] - 1) ** 2)
    >>> solver = contrib.nsgdm(learning_rate=0.1)
    >>> params = {'kernel': jnp.zeros((3, 2))}
    >>> print('Objective function: ', f(params))
    Objective function:  6.0
    >>> opt_state = solver.init(params)
    >>> for _ in range(3):
    ...  grad = jax.grad(f)(params)
    ...  updates, opt_state = solver.update(grad, opt_state, params)
    ...  params = optax.apply_updates(params, updates)
    ...  print('Objective function: ', f(params))
    Objective function:  5.66...
    Objective function:  5.33...
    Objective function:  5.02...

  References:
    Cutkosky and Mehta, `Momentum Improves Normalized SGD
    <https://arxiv.org/abs/2002.03305>`_, 2020.

    Bernstein and Newhouse, `Old Optimizer, New Norm: An Anthology
    <https://arxiv.org/abs/2409.20325>`_, 2024.

    Jordan et al., `Muon: An optimizer for hidden layers in neural networks
    <https://kellerjordan.github.io/posts/muon>`_, 2024.

  .. seealso:: :func:`optax.contrib.muon`, which gives what is no hidden matrix
    to AdamW.
  """
  return combine.chain(
    scale_by_nsgdm(momentum, layer_step_fn, average_dtype),
    transform.add_decayed_weights(weight_decay, weight_decay_mask),
    transform.scale_by_learning_rate(learning_rate),
  )
