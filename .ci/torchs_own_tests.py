"""Run PyTorch's own tests of optimizers with all of `gladstorm.torch` in the place of PyTorch's.

    git clone --depth 1 --branch v2.13.0 https://github.com/pytorch/pytorch
    pip install expecttest
    python .ci/torchs_own_tests.py pytorch

The checkout must be of the torch that is installed. What cannot apply is skipped, each with its reason.
"""

from __future__ import annotations

import sys
import unittest
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal import common_optimizers
from torch.testing._internal.common_optimizers import ErrorOptimizerInput, OptimizerInfo, OptimizerInput
from torch.testing._internal.opinfo.core import DecorateInfo

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from optimizers import TORCH, UNTUNED, options_of

GIVEN = "gradients are given, and the closure computes none: NSTORM takes that for a forgotten backward()"
NO_CLOSURE = "step() is called without a closure, which NSTORM evaluates twice"
NOT_APPLICABLE = {
    "test_deepcopy_copies_all_public_attrs": GIVEN,
    "test_grads_are_never_inplaced_into": GIVEN,
    "test_load_nontensor_step": GIVEN,
    "test_non_empty_state": GIVEN,
    "test_step_all_hooks": GIVEN,
    "test_step_is_noop_for_zero_grads": GIVEN,
    "test_step_is_noop_when_params_have_no_grad": GIVEN,
    "test_step_post_hook": GIVEN,
    "test_step_pre_hook": GIVEN,
    "test_param_groups_lr": NO_CLOSURE,
    "test_param_groups_weight_decay": NO_CLOSURE,
    "test_second_order_optims_return_consistent_types": "it gives options of LBFGS to whatever takes a closure",
}  # to NSTORM; all applies to the others


OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "non-default lr": {"lr": 1e-3},
    "tensor lr": {"lr": torch.tensor(1e-3)},
    "non-zero weight_decay": {"weight_decay": 0.1},
    "momentum": {"momentum": 0.5},
    "maximize": {"maximize": True},
    "maximize with weight_decay": {"weight_decay": 0.1, "maximize": True},
    "a norm for each group": {"norm": "group"},  # not each tensor: two real ones must move as a complex one does
}
UNTUNED_OPTIONS: dict[str, dict[str, Any]] = {"horizon": {"horizon": 200}}


def inputs(kind: Any, device: Any, dtype: Any = None) -> list[OptimizerInput]:  # noqa: ARG001 - as PyTorch calls it
    """Options to construct an optimizer with, of those that it has."""
    known = set(options_of(kind))
    options = {what: given for what, given in OPTIONS.items() if given.keys() <= known}
    options |= UNTUNED_OPTIONS if kind in UNTUNED else {}
    nothing: Any = None  # the tests have parameters of their own
    return [OptimizerInput(params=nothing, kwargs={**given}, desc=what) for what, given in options.items()]


def error_inputs(device: Any, dtype: Any) -> list[ErrorOptimizerInput]:
    """PyTorch's, but the sentence about lr is our own."""
    theirs = common_optimizers.get_error_inputs_for_all_optims(device, dtype)
    kept = [given for given in theirs if "lr must be" not in given.error_regex]
    param = torch.nn.Parameter(torch.zeros(1, device=device, dtype=dtype))
    lr = OptimizerInput(params=[param], kwargs={"lr": torch.tensor([1e-3, 1e-3])}, desc="lr of two entries")
    return [*kept, ErrorOptimizerInput(lr, error_type=ValueError, error_regex="lr must be")]


def info(kind: Any) -> OptimizerInfo:
    """What PyTorch's tests want to know of an optimizer."""
    return OptimizerInfo(
        kind,
        optim_inputs_func=partial(inputs, kind),
        optim_error_inputs_func=error_inputs,
        supported_impls=(),
        not_og_supported_flags=("maximize",),
        step_requires_closure=kind.needs_closure,
        skips=[DecorateInfo(unittest.skip(why), "TestOptimRenewed", test) for test, why in NOT_APPLICABLE.items()]
        if kind.needs_closure
        else (),
    )


def main() -> None:
    """Run them, and count what was skipped by its reason."""
    checkout = Path(sys.argv[1])
    sys.path.insert(0, str(checkout / "test"))
    common_optimizers.optim_db[:] = [info(kind) for kind in TORCH]
    import test_optim  # type: ignore[import-not-found]  # PyTorch's, with ours in its decorators

    suite = unittest.defaultTestLoader.loadTestsFromTestCase(test_optim.TestOptimRenewedCPU)
    result = unittest.TextTestRunner().run(suite)
    for why, count in Counter(why for _, why in result.skipped).most_common():
        sys.stderr.write(f"{count} skipped: {why}\n")
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
