"""Tests for normalized SGD with momentum in `_nsgdm.py`."""

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np
from optax._src import test_utils
from optax._src import update
from optax.contrib import _nsgdm

_SHAPES = {
  'layers': [{'kernel': (6, 4), 'bias': (4,)}, {'kernel': (3, 3, 2, 5)}],
  'embedding': (7, 3),
  'query': {'kernel': (6, 2, 4), 'bias': (2, 4)},
  'norm': {'scale': (6,)},
}


def _random_tree(seed, scale=1.0):
  leaves, tree = jax.tree.flatten(_SHAPES, is_leaf=lambda x: type(x) is tuple)
  keys = jax.random.split(jax.random.key(seed), len(leaves))
  arrays = map(jax.random.normal, keys, leaves)
  return jax.tree.unflatten(tree, [scale * x for x in arrays])


def _matrix(x, inputs):
  return np.reshape(x, (np.prod(x.shape[:inputs]), -1))


class NsgdmTest(parameterized.TestCase):
  @parameterized.parameters(1.0, 1e-12, 1e12)
  def test_steps_have_the_given_length_whatever_the_gradients(self, scale):
    params = _random_tree(0)
    solver = _nsgdm.nsgdm(learning_rate=0.1)
    grads = _random_tree(1, scale)
    updates, _ = solver.update(grads, solver.init(params), params)

    with self.subTest('Matrices move along their orthogonal factor.'):
      for leaf, gradient, inputs in (
        (updates['layers'][0]['kernel'], grads['layers'][0]['kernel'], 1),
        (updates['layers'][1]['kernel'], grads['layers'][1]['kernel'], 3),
        (updates['query']['kernel'], grads['query']['kernel'], 1),
      ):
        u, _, vt = np.linalg.svd(_matrix(gradient, inputs), full_matrices=False)
        step = _matrix(leaf, inputs)
        fan_in, fan_out = step.shape
        length = 0.1 * np.sqrt(max(1, fan_out / fan_in))
        singular = -np.diagonal(u.T @ step @ vt.T) / length
        self.assertBetween(singular.min(), 0.65, 1.25)
        self.assertBetween(singular.max(), 0.65, 1.25)

    with self.subTest('All else moves along its signs.'):
      for leaf, gradient, length in (
        (updates['embedding'], grads['embedding'], 0.1),
        (updates['layers'][0]['bias'], grads['layers'][0]['bias'], 0.025),
        (updates['query']['bias'], grads['query']['bias'], 0.025),
        (updates['norm']['scale'], grads['norm']['scale'], 0.025),
      ):
        np.testing.assert_allclose(leaf, -length * np.sign(gradient), rtol=1e-6)

  def test_the_average_starts_at_the_first_gradient(self):
    solver = _nsgdm.scale_by_nsgdm(momentum=0.75)
    first, second = _random_tree(1), _random_tree(2)
    _, state = solver.update(first, solver.init(first))
    test_utils.assert_trees_all_close(state.average, first)
    _, state = solver.update(second, state)
    expected = jax.tree.map(lambda a, b: 0.75 * a + 0.25 * b, first, second)
    test_utils.assert_trees_all_close(state.average, expected, rtol=1e-6)

  def test_a_zero_gradient_moves_nothing(self):
    params = _random_tree(0)
    zeros = jax.tree.map(jnp.zeros_like, params)
    solver = _nsgdm.nsgdm(learning_rate=0.1)
    updates, _ = solver.update(zeros, solver.init(params), params)
    test_utils.assert_trees_all_equal(updates, zeros)

  def test_weight_decay_is_decoupled_and_masked(self):
    params, grads = _random_tree(0), _random_tree(1)
    mask = jax.tree.map(lambda x: x.ndim > 1, params)
    updates = {}
    for decay in (0.0, 0.5):
      solver = _nsgdm.nsgdm(0.1, weight_decay=decay, weight_decay_mask=mask)
      updates[decay], _ = solver.update(grads, solver.init(params), params)
    expected = jax.tree.map(
      lambda u, x, m: u - 0.05 * x if m else u, updates[0.0], params, mask
    )
    test_utils.assert_trees_all_close(updates[0.5], expected, atol=1e-6)

  def test_a_layer_step_of_ones_own(self):
    def signs_only(path, leaf):
      del leaf
      return _nsgdm.LayerStep(None, 2.0 if path == 'norm.scale' else 1.0)

    params, grads = _random_tree(0), _random_tree(1)
    solver = _nsgdm.nsgdm(0.1, layer_step_fn=signs_only)
    updates, _ = solver.update(grads, solver.init(params), params)
    expected = jax.tree.map(lambda g: -0.1 * jnp.sign(g), grads)
    expected['norm']['scale'] *= 2
    test_utils.assert_trees_all_close(updates, expected, rtol=1e-6)

  def test_half_precision_keeps_its_average_in_float32(self):
    params = jax.tree.map(lambda x: x.astype(jnp.bfloat16), _random_tree(0))
    solver = _nsgdm.nsgdm(0.1, average_dtype=jnp.float32)
    updates, state = solver.update(params, solver.init(params), params)
    for leaf in jax.tree.leaves(state[0].average):
      self.assertEqual(leaf.dtype, jnp.float32)
    for leaf in jax.tree.leaves(update.apply_updates(params, updates)):
      self.assertEqual(leaf.dtype, jnp.bfloat16)


if __name__ == '__main__':
  absltest.main()
