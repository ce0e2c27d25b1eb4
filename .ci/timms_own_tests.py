"""Run timm's own tests of optimizers with all of `gladstorm.torch` registered beside timm's.

    git clone --depth 1 https://github.com/huggingface/pytorch-image-models
    pip install timm expecttest
    python .ci/timms_own_tests.py pytorch-image-models

timm and torchvision must be of the torch that is installed. The tests are read from the checkout: the one over all
registered optimizers, and the templates that the tests of single optimizers are made of. What cannot apply is left out.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import timm  # type: ignore[import-not-found]  # an image library, which the project does not need
from timm.optim._optim_factory import OptimInfo, default_registry  # type: ignore[import-not-found]

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from optimizers import TORCH, by_shape, options_of

KINDS: dict[str, Any] = {kind.__name__.lower(): kind for kind in (*TORCH, *map(by_shape, TORCH))}
NOT_APPLICABLE = {
    (name, "model"): "step() is called without a closure" for name, kind in KINDS.items() if kind.needs_closure
}


def main() -> None:
    """Run them and count."""
    for name, kind in KINDS.items():
        default_registry.register(OptimInfo(name, kind, has_eps=False, has_momentum="momentum" in options_of(kind)))
    tests = tests_of(Path(sys.argv[1]) / "tests" / "test_optim.py")
    create = tests.create_optimizer_v2
    templates: dict[str, Callable[[str], None]] = {
        "factory": tests.test_optim_factory,
        "weight decay": lambda name: tests._test_basic_cases(
            lambda weight, bias: create([weight, bias], name, lr=3e-3, weight_decay=0.1)
        ),
        "rosenbrock": lambda name: tests._test_rosenbrock(lambda params: create(params, name, lr=1e-3)),
        "model": lambda name: tests._test_model(name, {"lr": 1e-3}),
    }
    counts = {"passed": 0, "failed": 0, "left out": 0}
    for name in KINDS:
        for what, test in templates.items():
            if why := NOT_APPLICABLE.get((name, what)):
                counts["left out"] += 1
                sys.stderr.write(f"{name}, {what}: left out; {why}\n")
                continue
            try:
                test(name)
                counts["passed"] += 1
            except Exception:
                counts["failed"] += 1
                sys.stderr.write(f"{name}, {what}: failed\n{traceback.format_exc()}")
    sys.stderr.write(f"timm {timm.__version__}: {counts}\n")
    sys.exit(counts["failed"] > 0)


def tests_of(path: Path) -> Any:
    """The module of tests."""
    spec = importlib.util.spec_from_file_location("timms_test_optim", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
