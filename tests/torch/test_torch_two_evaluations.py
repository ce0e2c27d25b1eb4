"""What others do to gradients around NSTORM is right or refused: writes, accumulation, parts of parameters."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, get_total_norm

from gladstorm.torch import NSTORM, norms

LR = 0.1


def parameter() -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))


def evaluate(x: Tensor, sample: float) -> float:
    loss = (x * x).sum() * (1 + sample) / 2 + sample * x.sum()
    loss.backward()
    return loss.item()


def closure_of(x: Tensor, sample: float) -> Callable[[], float]:
    return lambda: evaluate(x, sample)


def gradient(x: Tensor, sample: float) -> Tensor:
    return x.detach() * (1 + sample) + sample


def two_phases(
    x: Tensor, optimizer: NSTORM, sample: float, change: Callable[[Tensor], Any], *, first: bool = False
) -> None:
    """A step with something done to its second gradient, or to its first."""
    with optimizer.previous_point():
        evaluate(x, sample)
        if first:
            change(x)
    evaluate(x, sample)
    if not first:
        change(x)
    optimizer.step()


def nothing(_: Tensor) -> None:
    pass


def grad(x: Tensor) -> Tensor:
    assert x.grad is not None
    return x.grad


def replace(x: Tensor, gradient: Tensor | None) -> None:
    x.grad = gradient


def adapt(x: Tensor) -> None:
    """Adaptive clipping, to a part of the parameter's norm."""
    grad(x).mul_(min(1.0, 0.1 * x.detach().norm().item() / grad(x).norm().item()))


def copy_back(x: Tensor) -> None:
    grad(x).data = grad(x).data * 0.99


WRITES: dict[str, Callable[[Tensor], Any]] = {
    "clipped by norm": lambda x: clip_grad_norm_([x], 1.0),
    "clipped by norm, far below the limit": lambda x: clip_grad_norm_([x], 1e9),
    "clipped by value": lambda x: clip_grad_value_([x], 1.0),
    "clipped adaptively": adapt,
    "multiplied": lambda x: grad(x).mul_(0.999),
    "multiplied by foreach": lambda x: torch._foreach_mul_([grad(x)], 0.5),
    "negated": lambda x: grad(x).neg_(),
    "one entry": lambda x: grad(x)[1:].add_(1e-3),
    "through detach": lambda x: grad(x).detach().mul_(0.5),
    "through data": lambda x: grad(x).data.clamp_(-1, 1),
    "through data, negated": lambda x: grad(x).data.neg_(),
    "through NumPy": lambda x: grad(x).numpy().__imul__(0.5),
    "replaced": lambda x: replace(x, grad(x) * 0.5),
    "replaced inside": copy_back,
    "dropped and given anew": lambda x: replace(x, torch.ones_like(x)),
}


@pytest.mark.parametrize("write", list(WRITES))
@pytest.mark.parametrize("first", [False, True], ids=["second", "first"])
@pytest.mark.parametrize("begins", [0, 1, 3])
def test_any_write_to_a_gradient_between_backward_and_step_is_refused_at_once(
    write: str, first: bool, begins: int
) -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=LR)
    for k in range(begins):
        two_phases(x, optimizer, 0.1 * (-1) ** k, nothing)
    before = x.tolist(), optimizer.state_dict()["state"]
    with pytest.raises(
        RuntimeError, match=r"^NSTORM: gradients must reach step\(\) as backward\(\) made them; got .* 1 "
    ):
        two_phases(x, optimizer, 0.3, WRITES[write], first=first)
    optimizer.zero_grad()  # gives the step up, if it is one still
    assert before == (x.tolist(), optimizer.state_dict()["state"])
    two_phases(x, optimizer, 0.2, nothing)
    assert not x._backward_hooks
    assert not x._post_accumulate_grad_hooks


@pytest.mark.parametrize(
    "write", [write for write in WRITES if not write.startswith(("through data", "through NumPy"))]
)
def test_on_a_device_every_write_that_torch_counts_is_refused(write: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norms, "readable", lambda tensor: False)  # the CPU stands for one
    x = parameter()
    with pytest.raises(RuntimeError, match=r"^NSTORM: gradients must reach step"):
        two_phases(x, NSTORM([x], lr=LR), 0.3, WRITES[write])


@pytest.mark.parametrize("write", list(WRITES))
def test_a_write_between_two_micro_batches_is_refused(write: str) -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=LR)
    with optimizer.previous_point():
        evaluate(x, 0.1)
        evaluate(x, 0.2)
    evaluate(x, 0.1)
    WRITES[write](x)
    evaluate(x, 0.2)
    with pytest.raises(RuntimeError, match=r"^NSTORM: gradients must reach step\(\) as backward\(\) made them"):
        optimizer.step()


def halve_by_hook(x: Tensor) -> Any:
    return x.register_hook(lambda g: g / 2)


def halve_after_accumulation(x: Tensor) -> Any:
    return x.register_post_accumulate_grad_hook(lambda p: replace(p, grad(p) / 2))


@pytest.mark.parametrize("hook", [halve_by_hook, halve_after_accumulation])
def test_what_a_hook_does_belongs_to_backward_and_is_done_at_both_points(hook: Callable[[Tensor], Any]) -> None:
    x, y = parameter(), parameter()
    hooked, halved = NSTORM([x], lr=LR), NSTORM([y], lr=LR)
    hook(x)
    for sample in (0.1, 0.3, -0.2):
        two_phases(x, hooked, sample, nothing)
        with halved.previous_point():
            ((y * y).sum() * (1 + sample) / 4 + sample / 2 * y.sum()).backward()
        ((y * y).sum() * (1 + sample) / 4 + sample / 2 * y.sum()).backward()
        halved.step()
    torch.testing.assert_close(x, y, rtol=1e-14, atol=0)
    torch.testing.assert_close(hooked.state[x]["momentum_buffer"], halved.state[y]["momentum_buffer"])


def cleared(x: Tensor) -> Tensor:
    x.grad = None
    return x


READS: dict[str, Callable[[Tensor], Any]] = {
    "norm": lambda x: get_total_norm([grad(x)]),
    "entries": lambda x: grad(x).numpy().copy(),
    "again, after it was cleared": lambda x: evaluate(cleared(x), 0.2),
    "again, after it was made 0": lambda x: (grad(x).zero_(), evaluate(x, 0.2)),
}


@pytest.mark.parametrize("read", list(READS))
def test_reading_a_gradient_and_computing_it_again_are_not_taken_for_writing(read: str) -> None:
    x, y = parameter(), parameter()
    looked_at, plain = NSTORM([x], lr=LR), NSTORM([y], lr=LR)
    for first in (False, True, False):
        two_phases(x, looked_at, 0.2, READS[read], first=first)
        two_phases(y, plain, 0.2, nothing)
    assert x.tolist() == y.tolist()


def test_a_gradient_that_is_not_finite_or_computed_in_nested_passes_is_not_taken_for_written() -> None:
    model = torch.nn.Linear(2, 2).double()
    x = parameter()
    optimizer = NSTORM([x, *model.parameters()], lr=LR)

    def loss() -> Tensor:
        inner = torch.utils.checkpoint.checkpoint(model, x * 2, use_reentrant=True)
        outer = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=True)
        total: Tensor = model(x + inner).square().sum() + outer.sum()
        return total

    for scale in (1.0, 1.0, float("nan"), 1.0):
        with optimizer.previous_point():
            for _ in range(2):  # micro-batches
                (loss() * scale).backward()
        for _ in range(2):
            (loss() * scale).backward()
        optimizer.step()
    assert optimizer.skipped == 1


def test_another_sample_or_another_scale_at_the_second_evaluation_is_refused_at_the_first_step() -> None:
    for second, scale, refused in ((0.7, 1.0, True), (0.2, 0.25, True), (0.2, 1 + 1e-3, False)):  # as rounding does
        x = parameter()
        optimizer = NSTORM([x], lr=LR)
        with optimizer.previous_point():
            evaluate(x, 0.2)
        ((x * x).sum() * scale * (1 + second) / 2 + scale * second * x.sum()).backward()
        if refused:
            with pytest.raises(RuntimeError, match=r"^NSTORM: both gradients of the first step are taken at one point"):
                optimizer.step()
        else:
            optimizer.step()
        assert len(optimizer.state) == (not refused)


@pytest.mark.parametrize("form", ["closure", "two phases"])
def test_max_grad_norm_clips_the_gradients_of_both_points_each_by_its_own_factor(form: str) -> None:
    x, limit, momentum = parameter(), 4.5, 0.8
    optimizer = NSTORM([x], lr=LR, momentum=momentum, max_grad_norm=limit)

    def clipped(point: Tensor, sample: float) -> Tensor:
        g = gradient(point, sample)
        return g.mul(min(1.0, limit / g.norm().item()))

    at, v = x.detach().clone(), None
    for sample in (0.3, -0.05, 0.2, -0.5, 0.4):
        if form == "closure":
            optimizer.step(closure_of(x, sample))
        else:
            with optimizer.previous_point():
                evaluate(x, sample)
            evaluate(x, sample)
            optimizer.step()
        if v is None:
            v = clipped(at, sample)
        else:
            new = at - LR * v / v.norm()
            v, at = clipped(new, sample) + momentum * (v - clipped(at, sample)), new
        torch.testing.assert_close(x.detach(), at, rtol=0, atol=1e-6)  # torch adds 1e-6 to the norm
        torch.testing.assert_close(optimizer.state[x]["momentum_buffer"], v, rtol=0, atol=1e-5)
    assert {clipped(at, sample).norm().item() < limit - 1e-3 for sample in (0.4, -0.5)} == {True, False}


def test_gradients_accumulated_before_the_closure_are_refused_and_those_a_step_leaves_are_not() -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=LR)
    for sample in (0.1, 0.2):  # no zero_grad between
        optimizer.step(closure_of(x, sample))
    with optimizer.previous_point():
        evaluate(x, 0.3)
    evaluate(x, 0.3)
    optimizer.step()
    optimizer.step(closure_of(x, 0.4))
    optimizer.zero_grad(set_to_none=False)
    optimizer.step(closure_of(x, 0.5))
    for fresh in (False, True):
        if fresh:
            optimizer.zero_grad()
        evaluate(x, 0.6)  # as Lightning does with all micro-batches but the last
        before = x.tolist()
        with pytest.raises(RuntimeError, match=r"^NSTORM: the closure must compute all gradients of a step; got some"):
            optimizer.step(closure_of(x, 0.7))
        assert x.tolist() == before
    optimizer.zero_grad()
    optimizer.step(closure_of(x, 0.7))


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_of_others_that_the_closure_clears_itself_are_nobody_s_loss(to_none: bool) -> None:
    x, y = parameter(), parameter()
    optimizer, plain = NSTORM([x], lr=LR), NSTORM([y], lr=LR)
    for sample in (0.1, 0.3, 0.2):
        evaluate(x, 5.0)  # another optimizer's, or another loss's

        def closure(sample: float = sample) -> float:
            optimizer.zero_grad(set_to_none=to_none)
            return evaluate(x, sample)

        optimizer.step(closure)
        plain.step(closure_of(y, sample))
    assert x.tolist() == y.tolist()


def test_micro_batches_each_in_its_own_two_phases_are_refused_and_all_in_one_are_right() -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=LR)
    with optimizer.previous_point():
        evaluate(x, 0.1)
    evaluate(x, 0.1)
    refused = pytest.raises(RuntimeError, match=r"^NSTORM: step\(\) must come before the next previous_point\(\); got")
    with refused, optimizer.previous_point():
        evaluate(x, 0.2)
    optimizer.zero_grad()  # gives the step up

    for _ in range(2):
        with optimizer.previous_point():
            for sample in (0.1, 0.2):
                evaluate(x, sample)
        for sample in (0.1, 0.2):
            evaluate(x, sample)
        optimizer.step()
    assert optimizer.skipped == 1
    total = gradient(x, 0.1) + gradient(x, 0.2)
    torch.testing.assert_close(optimizer.state[x]["momentum_buffer"], total, rtol=1e-12, atol=0)


def test_a_mean_over_n_init_micro_batches_may_form_the_first_estimate_in_two_phases() -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=LR, n_init=2)
    with optimizer.previous_point():
        evaluate(x, 0.1)
    for sample in (0.1, 0.3):
        evaluate(x, sample)
    optimizer.step()
    torch.testing.assert_close(optimizer.state[x]["momentum_buffer"], gradient(x, 0.1) + gradient(x, 0.3))


def test_a_closure_that_computes_nothing_leaves_its_mini_batch_out() -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=LR)
    no_closure: Any = lambda: None  # noqa: E731 - as Lightning's is, if training_step returns None
    assert optimizer.step(no_closure) is None
    assert not optimizer.state
    optimizer.step(closure_of(x, 0.1))
    before = x.tolist(), optimizer.state[x]["momentum_buffer"].tolist()
    assert optimizer.step(no_closure) is None
    assert before == (x.tolist(), optimizer.state[x]["momentum_buffer"].tolist())
    optimizer.step(closure_of(x, 0.1))
    assert x.tolist() != before[0]


def test_a_closure_that_does_nothing_ends_a_two_phase_step_and_another_is_refused() -> None:
    x, y = parameter(), parameter()
    given, plain = NSTORM([x], lr=LR), NSTORM([y], lr=LR)
    no_closure: Any = lambda: None  # noqa: E731 - Lightning's wrapper always passes one
    for sample in (0.1, 0.3, 0.2):
        with given.previous_point():
            evaluate(x, sample)
        evaluate(x, sample)
        given.step(no_closure)
        two_phases(y, plain, sample, nothing)
    assert x.tolist() == y.tolist()
    with given.previous_point():
        evaluate(x, 0.1)
    evaluate(x, 0.1)
    with pytest.raises(RuntimeError, match=r"^NSTORM: step\(\) must end what previous_point\(\) began; got a closure"):
        given.step(closure_of(x, 0.1))


@pytest.mark.parametrize("by", ["steps", "initialize"])
def test_the_first_estimate_is_the_mean_over_n_init_calls_and_then_the_steps_begin(by: str) -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=LR, n_init=3)
    start = x.detach().clone()
    closures = [closure_of(x, sample) for sample in (0.1, 0.3, 0.8)]
    if by == "initialize":
        optimizer.initialize(closures)
    else:
        for closure in closures:
            optimizer.step(closure)
    mean = gradient(start, 0.4)  # it is affine in the sample
    assert x.tolist() == start.tolist()
    torch.testing.assert_close(optimizer.state[x]["momentum_buffer"], mean)
    optimizer.step(closure_of(x, 0.2))
    torch.testing.assert_close(x.detach(), start - LR * mean / mean.norm())
    resumed = NSTORM([x], lr=LR, n_init=3)
    resumed.load_state_dict(optimizer.state_dict())
    before = x.tolist()
    resumed.zero_grad()
    resumed.step(closure_of(x, 0.2))
    assert x.tolist() != before
