"""Run Optax's own tests of optimizers with all of `gladstorm.optax` in the place of Optax's.

    git clone --depth 1 --branch v0.2.8 https://github.com/google-deepmind/optax
    python .ci/optaxs_own_tests.py optax

The checkout must be of the Optax that is installed. Nothing is copied: the tests are read from there, and the lists of
optimizers they run over are ours. What cannot apply is skipped, each with its reason.
"""

from __future__ import annotations

import ast
import os
import sys
import types
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"  # for the tests of sharding, before JAX starts

import jax
import optax
from optax._src import alias

sys.path.extend(str(Path(__file__).parents[1] / folder) for folder in ("", "tests"))
from gladstorm.optax import untuned_per_coordinate
from handover.optax_contrib._nsgdm import nsgdm as handed_over
from optimizers import OPTAX, has_option, optax_optimizer

SECOND_GRADIENT = "update is called under jit without grad_fn or prev_grads, which NSTORM needs"
REFUSED = "it puts MultiSteps around NSTORM, which is refused: every_k accumulates"
# Learning rates are those that a constant step needs in the test of optimization, as Optax chooses them for its own.
UNTUNED = [name for name, make in OPTAX.items() if has_option(make, "horizon")]
UNDER_TEST: list[dict[str, Any]] = [
    {"opt_name": "handed_over", "opt_kwargs": {"learning_rate": 5e-3}},
    *({"opt_name": name, "opt_kwargs": {"learning_rate": 2e-3}} for name in OPTAX if name not in (*UNTUNED, "nigt")),
    {"opt_name": "nsgdm", "opt_kwargs": {"learning_rate": 5e-3, "momentum": 0.5}},
    {"opt_name": "nigt", "opt_kwargs": {"learning_rate": 2e-3, "momentum": 0.5}},  # else it ends 9 steps ahead of x
    {"opt_name": "untuned_per_coordinate", "opt_kwargs": {"horizon": 10_000}},
    *({"opt_name": name, "opt_kwargs": options} for name in UNTUNED for options in ({}, {"horizon": 10_000})),
]
NOT_WRAPPED = {"wrapper_name": None, "wrapper_kwargs": None}
IN_CONTRIB = tuple({**each, **NOT_WRAPPED} for each in UNDER_TEST)
MODULES: dict[str, dict[str, Any]] = {
    "_src/alias_test.py": {"_OPTIMIZERS_UNDER_TEST": tuple(UNDER_TEST)},
    "contrib/_common_test.py": {"_MAIN_OPTIMIZERS_UNDER_TEST": IN_CONTRIB, "_ALL_OPTIMIZERS_UNDER_TEST": IN_CONTRIB},
    "_src/sharding_test.py": {"OPTIMIZERS": {name: optax_optimizer(name, 1.0) for name in OPTAX}},
}
CLASSES = ("AliasTest", "ContribTest", "ShardingTest")
NOT_OURS = (
    "test_explicit_dtype",
    "test_microbatch_with_explicit_sharding",
)  # of Optax's optimizers by name, or of none
NOT_APPLICABLE = {
    "test_optimization": SECOND_GRADIENT,
    "test_optimizers_accept_extra_args": SECOND_GRADIENT,
    "test_optimizers_can_be_wrapped_in_inject_hyperparams": SECOND_GRADIENT,
    "test_preserve_dtype": SECOND_GRADIENT,
    "test_state_shape_dtype_shard_stability": SECOND_GRADIENT,
    "test_gradient_accumulation": REFUSED,
    "test_optimizers": SECOND_GRADIENT,
    "test_optimizers_accept_learning_rate_schedule": SECOND_GRADIENT,
    "test_state_sharding_type_preserved_with_jit": SECOND_GRADIENT,
}  # to NSTORM


def tests_in(path: Path, lists: dict[str, Any]) -> types.ModuleType:
    """The module of tests, with these lists in the place of its own: they are set right before its first class."""
    tree = ast.parse(path.read_text("utf-8"))
    first = next(i for i, node in enumerate(tree.body) if isinstance(node, ast.ClassDef))
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    for part in (tree.body[:first], tree.body[first:]):
        exec(compile(ast.Module(part, []), str(path), "exec"), vars(module))
        vars(module).update(lists)
    return module


def main() -> None:
    """Run them, and count what was skipped by its reason."""
    checkout = Path(sys.argv[1]) / "optax"
    jax.__version__ = "1.0"  # the tests of sharding compare it as text, and take 0.10 for older than 0.7.2
    others = {"untuned_per_coordinate": untuned_per_coordinate, "handed_over": handed_over}
    for name, make in {**OPTAX, **others}.items():
        setattr(alias, name, make)
    suite = unittest.TestSuite()
    for path, lists in MODULES.items():
        module = tests_in(checkout / path, lists)
        for kind in (found for name in CLASSES if (found := vars(module).get(name))):
            for test in unittest.defaultTestLoader.loadTestsFromTestCase(kind):
                suite.addTest(applicable(test))
    result = unittest.TextTestRunner().run(suite)
    sys.stderr.write(f"Optax {optax.__version__}\n")
    for why, count in Counter(why for _, why in result.skipped).most_common():
        sys.stderr.write(f"{count} skipped: {why}\n")
    sys.exit(not result.wasSuccessful())


def applicable(test: Any) -> Any:
    """The test, skipped where it cannot apply."""
    name = test._testMethodName
    why = next((why for known, why in NOT_APPLICABLE.items() if name.startswith(known)), None)
    if name.startswith(NOT_OURS):
        why = "it is about Optax's own optimizers"
    elif "nstorm" not in f"{test.id()} {test.shortDescription()}":
        why = None
    if why is not None:
        setattr(type(test), name, unittest.skip(why)(getattr(type(test), name)))
    return test


if __name__ == "__main__":
    main()
