"""Conventions of torch.optim: defaults, checkpoints of any origin, gradients that are not finite, habits."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gladstorm.torch import NSGDM, NSTORM
from gladstorm.torch.momentum import NormalizedOptimizer
from gladstorm.torch.untuned_step import BUFFERS
from optimizers import TORCH, UNTUNED

Optimizer = NSGDM | NSTORM
BOTH = pytest.mark.parametrize("kind", [NSGDM, NSTORM])
NAN, INF = float("nan"), float("inf")
LR = 0.1


def parameters() -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(torch.tensor(values)) for values in ([3.0, 4.0], [1.0])]


def closure_of(params: list[torch.nn.Parameter], sample: float) -> Callable[[], float]:
    def closure() -> float:
        for p in params:
            p.grad = (p.detach() ** 3 + 1) * sample
        return 0.0

    return closure


def values(params: list[torch.nn.Parameter]) -> list[Any]:
    return [p.tolist() for p in params]


# Gradients that are not finite


@pytest.mark.parametrize("norm", ["global", "tensor"])
@pytest.mark.parametrize("bad", [NAN, INF])
@BOTH
def test_a_gradient_that_is_not_finite_is_skipped_counted_and_soon_forgotten(
    kind: type[Optimizer], bad: float, norm: str, where: str
) -> None:
    params = parameters()
    options: dict[str, Any] = {"weight_decay": 0.05} if where == "CPU" else {"skip_nonfinite": True}
    optimizer = kind(params, LR, norm=norm, **options)
    for _ in range(3):
        optimizer.step(closure_of(params, 1.0))
    before = values(params)
    optimizer.step(closure_of(params, bad))
    if kind is NSGDM:
        assert values(params) == before  # weight decay waits too
    else:
        before = values(params)  # it moved by the last good estimate, and has a bad one now
        optimizer.step(closure_of(params, 1.0))
        assert values(params) == before
    assert optimizer.skipped == (1 if norm == "global" else 2)
    if where == "CPU" and kind is NSGDM:
        assert not optimizer.state
    for _ in range(2):
        optimizer.step(closure_of(params, 1.0))
    assert values(params) != before
    assert optimizer.skipped == (1 if norm == "global" else 2)
    assert all(p.isfinite().all() and optimizer.state[p]["momentum_buffer"].isfinite().all() for p in params)


# Checkpoints


@BOTH
def test_a_checkpoint_without_some_options_takes_the_defaults(kind: type[Optimizer]) -> None:
    params = parameters()
    optimizer = kind(params, LR, norm="tensor")
    optimizer.step(closure_of(params, 1.0))
    saved = optimizer.state_dict()
    for group in saved["param_groups"]:
        for key in ("scale", "maximize"):
            del group[key]
    optimizer.load_state_dict(saved)
    optimizer.step(closure_of(params, 1.0))
    assert optimizer.param_groups[0]["norm"] == "tensor"


TORCHS_OWN = [
    kind
    for kind in vars(torch.optim).values()
    if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer
]


def test_the_checkpoint_of_another_optimizer_is_refused_and_changes_nothing() -> None:
    others: list[Any] = [*TORCHS_OWN, *TORCH]
    assert len(TORCHS_OWN) > 10
    for other in others:
        matrix = [torch.nn.Parameter(torch.ones(2, 2))]  # one, since LBFGS and Muon ask for it
        saving = other(matrix)
        for stepped in (False, True):
            if stepped and other is not torch.optim.SparseAdam:
                saving.step(closure_of(matrix, 1.0))
            for kind in TORCH:
                optimizer = kind(matrix, lr=0.5)
                before = copy.deepcopy(optimizer.state_dict())
                if other is kind or (issubclass(other, NormalizedOptimizer) and issubclass(kind, NormalizedOptimizer)):
                    optimizer.load_state_dict(saving.state_dict())
                    continue
                sentence = (
                    f"^{kind.__name__}: state_dict must be one of {kind.__name__}'s; got another optimizer's, with "
                )
                with pytest.raises(ValueError, match=sentence):
                    optimizer.load_state_dict(saving.state_dict())
                assert optimizer.state_dict() == before


@pytest.mark.filterwarnings("ignore:Untuned. a scheduler has changed lr")
@pytest.mark.parametrize("kind", TORCH)
def test_a_checkpoint_may_have_options_of_the_user_s_own_and_of_schedulers(kind: Any) -> None:
    def made() -> Any:
        params = parameters()
        return params, kind([{"params": params, "betas": (0.9, 0.99), "name": "all"}], lr=0.5)

    params, optimizer = made()
    torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=9, cycle_momentum=False)
    optimizer.step(closure_of(params, 1.0))
    _, resumed = made()
    resumed.load_state_dict(optimizer.state_dict())
    assert resumed.param_groups[0]["max_lr"] == 0.5


@pytest.mark.parametrize("kind", TORCH)
@pytest.mark.parametrize("bad", [NAN, INF])
def test_a_saved_state_that_is_not_finite_is_refused_or_skipped_and_counted(kind: Any, bad: float) -> None:
    def trained() -> tuple[Any, Any]:
        params = parameters()
        optimizer = kind(params)
        for _ in range(3):
            optimizer.step(closure_of(params, 1.0))
        return params, optimizer

    names = set(next(iter(trained()[1].state.values())))
    if kind in UNTUNED:
        assert names == {*BUFFERS, "numbers"}
    for name in names - {"iterate"}:
        params, optimizer = trained()
        saved = copy.deepcopy(optimizer.state_dict())
        saved["state"][0][name].view(-1)[-1] = bad  # one entry of several
        if kind in UNTUNED:
            with pytest.raises(
                ValueError, match=f"^{kind.__name__}: a saved state must be finite; got a {name} that is not"
            ):
                optimizer.load_state_dict(saved)
            continue
        optimizer.load_state_dict(saved)
        for _ in range(3):
            optimizer.step(closure_of(params, 1.0))
        assert optimizer.skipped == 1
        assert all(p.isfinite().all() and optimizer.state[p][name].isfinite().all() for p in params)


# Conventions


@BOTH
def test_an_optimizer_can_be_made_without_a_learning_rate_and_with_one_of_zero(kind: type[Optimizer]) -> None:
    params = parameters()
    assert kind(params).defaults["lr"] == 0.01
    still = kind(params, lr=0.0)
    before = values(params)
    for sample in (1.0, 2.0, 3.0):
        still.step(closure_of(params, sample))
    assert values(params) == before
    if kind is NSGDM:
        v = still.state[params[1]]["momentum_buffer"]
        assert v.item() == pytest.approx(2 * (0.9 * (0.9 + 0.1 * 2) + 0.1 * 3))  # it averages all the same
    params = parameters()
    warm = kind(params, lr=0.3)
    schedule = torch.optim.lr_scheduler.LambdaLR(warm, lambda k: k / 3)
    for _ in range(3):
        warm.step(closure_of(params, 1.0))
        schedule.step()
    assert values(params) != before


@BOTH
def test_a_weight_decay_from_adamw_is_announced_and_a_modest_one_is_not(kind: type[Optimizer]) -> None:
    with pytest.warns(UserWarning, match=rf"^{kind.__name__}: lr · weight_decay = 0\.03 is the part .* AdamW"):
        kind(parameters(), lr=0.3, weight_decay=0.1)
    groups = [{"params": [p], "weight_decay": decay} for p, decay in zip(parameters(), (0.0, 0.5), strict=True)]
    with pytest.warns(UserWarning, match=r"lr · weight_decay = 0\.15"):
        kind(groups, lr=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(parameters(), lr=0.3, weight_decay=0.01)


def test_a_warning_points_at_the_line_that_made_the_optimizer() -> None:
    with pytest.warns(UserWarning, match="AdamW") as made:
        NSGDM(parameters(), lr=0.3, weight_decay=0.5)
    assert [each.filename for each in made] == [__file__]


def test_what_others_keep_in_the_state_stays_there() -> None:
    params = parameters()
    optimizer = NSGDM(params, LR)
    optimizer.step(closure_of(params, 1.0))
    optimizer.state[params[0]]["old_p"] = torch.ones(2)  # as sharpness-aware wrappers do
    state: Any = optimizer.state
    state["step"] = 3  # and LookSAM
    optimizer.step(closure_of(params, NAN))
    assert optimizer.state[params[0]]["old_p"].tolist() == [1.0, 1.0]
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step(closure_of(params, 1.0))
    assert optimizer.state[params[0]]["momentum_buffer"].shape == (2,)
