"""Run pytorch_optimizer's own tests of optimizers with all of `gladstorm.torch` in the place of its own.

    git clone --depth 1 https://github.com/kozistr/pytorch_optimizer
    python .ci/pytorch_optimizers_own_tests.py pytorch_optimizer

Nothing is copied: the tests are read from the checkout, and the list of optimizers they run over is ours. What cannot
apply is skipped, each with its reason.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from gladstorm.torch import NMARS, NSGDM
from optimizers import TORCH, UNTUNED, by_shape


def without_foreach(kind: Any) -> Any:
    """The optimizer, with the option that the tests give to all of theirs, and that ours have no use for."""

    def begin(self: Any, params: Any, foreach: bool = False, **options: Any) -> None:  # noqa: ARG001 - that option
        kind.__init__(self, params, **options)

    return type(kind.__name__, (kind,), {"__init__": begin})


ALL = {kind: without_foreach(kind) for kind in TORCH}
TUNED = [ALL[kind] for kind in TORCH if kind not in UNTUNED]
UNDER_TEST: list[tuple[Any, dict[str, Any], int]] = [
    *((kind, {"lr": 0.5}, 20) for kind in TUNED),
    *((ALL[kind], options, 40) for kind in UNTUNED for options in ({}, {"horizon": 40})),
    *((kind, {"lr": 0.5, "weight_decay": 1e-3, "momentum": 0.5}, 20) for kind in TUNED if not kind.needs_closure),
    *((ALL[kind], {"lr": 0.5, "norm": "tensor"}, 20) for kind in (NMARS, NSGDM)),  # NIGT's parameters are ahead by 9 lr
    *((without_foreach(by_shape(kind)), {"lr": 0.5}, 20) for kind in TORCH if kind not in UNTUNED),
    *((without_foreach(by_shape(kind)), {"horizon": 40, "lr": 25.0}, 40) for kind in UNTUNED),  # a length of 0.5
]
NEED_CLOSURE = [kind.__name__ for kind in TORCH if kind.needs_closure]
FILES = ("test_optimizers.py", "test_gradients.py")
NO_CLOSURE = "step() is called without a closure, which NSTORM evaluates twice"
OWN_BASE = "it calls init_group, a method of that library's own base class"
GIVEN = "gradients are given or none, and the closure computes none: NSTORM takes that for a forgotten backward()"


def reason(name: str) -> str | None:
    """Why a test cannot apply, if it cannot."""
    if name.startswith("test_init_group"):
        return OWN_BASE
    if not any(kind in name for kind in NEED_CLOSURE):
        return None
    return GIVEN if name.startswith("test_closure") else NO_CLOSURE


class Ours:
    """Of all tests those that run over the list of optimizers."""

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave the others out, and skip what cannot apply."""
        kept = [item for item in items if any(kind.__name__ in item.name for kind, *_ in UNDER_TEST)]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
        for item in items:
            if why := reason(item.name):
                item.add_marker(pytest.mark.skip(reason=why))


def main() -> None:
    """Run them."""
    checkout = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(checkout))
    from tests import constants  # type: ignore[import-not-found]  # pytorch_optimizer's

    constants.OPTIMIZERS[:] = UNDER_TEST
    constants.COMPLEX_OPTIMIZERS |= frozenset(kind.__name__.lower() for kind, *_ in UNDER_TEST)
    files = [str(checkout / "tests" / file) for file in FILES]
    sys.exit(pytest.main([*files, f"--rootdir={checkout}", "-p", "no:cacheprovider", "-rsf", "-q"], plugins=[Ours()]))


if __name__ == "__main__":
    main()
