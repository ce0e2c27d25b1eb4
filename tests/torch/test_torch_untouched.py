"""What others do to gradients around NSTORM is right or refused: clipping, accumulation, parts of parameters."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from gladstorm.torch import NSTORM
from gladstorm.torch.untouched import ClippingWatch

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


def two_phases(x: Tensor, optimizer: NSTORM, sample: float, change: Callable[[Tensor], Any]) -> None:
    """A step with something done to its second gradient."""
    with optimizer.previous_point():
        evaluate(x, sample)
    evaluate(x, sample)
    change(x)
    optimizer.step()


def clip_norm(x: Tensor) -> Any:
    return clip_grad_norm_([x], 1.0)


def clip_value(x: Tensor) -> Any:
    return clip_grad_value_([x], 1.0)


def measure(x: Tensor) -> Any:
    return clip_grad_norm_([x], float("inf"))  # it multiplies by 1


@pytest.mark.parametrize("clip", [clip_norm, clip_value])
def test_clipping_between_backward_and_step_is_refused_at_the_first_step(clip: Callable[[Tensor], Any]) -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=LR)
    with pytest.raises(RuntimeError, match=r"^NSTORM: both gradients of the first step .* NSTORM\(max_grad_norm=…\)"):
        two_phases(x, optimizer, 0.2, clip)
    assert x.tolist() == [3.0, 4.0]
    assert not optimizer.state


@pytest.mark.parametrize("clip", [clip_norm, clip_value])
def test_clipping_that_begins_later_is_refused_once_three_steps_show_it(clip: Callable[[Tensor], Any]) -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=LR)
    for sample, change in ((0.1, measure), (0.3, measure), (0.2, clip), (0.4, clip)):
        two_phases(x, optimizer, sample, change)
    before = x.tolist()
    with pytest.raises(RuntimeError, match=r"^NSTORM: gradients must reach step\(\) as .* clipped in between, to 1"):
        two_phases(x, optimizer, 0.5, clip)
    assert x.tolist() == before


@pytest.mark.parametrize("clip", [clip_grad_norm_, clip_grad_value_])
def test_clipping_that_cuts_a_gradient_now_and_then_is_refused_the_second_time(clip: Callable[..., Any]) -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=LR)
    cut = {2: 1.5, 6: 2.5}  # the others have a norm of about 5 and entries below 5
    for k in range(6):
        two_phases(x, optimizer, cut.get(k, 0.02 * (-1) ** k), lambda x: clip([x], 6.0))
    with pytest.raises(
        RuntimeError, match=r"^NSTORM: gradients must reach step\(\) as .* to (6|8\.485) more than once"
    ):
        two_phases(x, optimizer, cut[6], lambda x: clip([x], 6.0))


def test_two_gradients_of_one_size_among_many_are_not_taken_for_clipped() -> None:
    watch, draws = ClippingWatch(), np.random.default_rng(2)
    first = 1 + 0.1 * draws.standard_normal((30_000, 2))
    second = first * (1 + 0.01 * draws.standard_normal((30_000, 2)))
    apart = np.abs(np.diff(second, axis=0)) / second[1:]
    assert (apart < 5e-6).any()  # by chance
    for before, after in zip(first.tolist(), second.tolist(), strict=True):
        watch.compare("NSTORM", (before[0], before[1]), (after[0], after[1]))


def test_measuring_gradients_between_backward_and_step_is_not_taken_for_clipping() -> None:
    x, y = parameter(), parameter()
    looked_at, plain = NSTORM([x], lr=LR), NSTORM([y], lr=LR)
    for sample in (0.1, 0.3, 0.2, 0.2, -0.4):
        two_phases(x, looked_at, sample, measure)
        two_phases(y, plain, sample, lambda _: None)
    assert x.tolist() == y.tolist()


def test_another_sample_or_another_scale_at_the_second_evaluation_is_refused_at_the_first_step() -> None:
    for second, scale in ((0.7, 1.0), (0.2, 0.25)):
        x = parameter()
        optimizer = NSTORM([x], lr=LR)
        with optimizer.previous_point():
            evaluate(x, 0.2)
        evaluate(x, second)
        assert x.grad is not None
        x.grad = x.grad * scale  # a new tensor: nobody can see that it was written
        with pytest.raises(RuntimeError, match=r"^NSTORM: both gradients of the first step are taken at one point"):
            optimizer.step()
        assert not optimizer.state


def test_rounding_between_the_two_evaluations_is_not_taken_for_clipping() -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=LR)
    with optimizer.previous_point():
        evaluate(x, 0.2)
    evaluate(x, 0.2)
    assert x.grad is not None
    x.grad = x.grad * (1 + 1e-3)
    optimizer.step()
    assert len(optimizer.state) == 1


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
    nothing: Any = lambda: None  # noqa: E731 - as Lightning's is, if training_step returns None
    assert optimizer.step(nothing) is None
    assert not optimizer.state
    optimizer.step(closure_of(x, 0.1))
    before = x.tolist(), optimizer.state[x]["momentum_buffer"].tolist()
    assert optimizer.step(nothing) is None
    assert before == (x.tolist(), optimizer.state[x]["momentum_buffer"].tolist())
    optimizer.step(closure_of(x, 0.1))
    assert x.tolist() != before[0]


def test_a_closure_that_does_nothing_ends_a_two_phase_step_and_another_is_refused() -> None:
    x, y = parameter(), parameter()
    given, plain = NSTORM([x], lr=LR), NSTORM([y], lr=LR)
    nothing: Any = lambda: None  # noqa: E731 - Lightning's wrapper always passes one
    for sample in (0.1, 0.3, 0.2):
        with given.previous_point():
            evaluate(x, sample)
        evaluate(x, sample)
        given.step(nothing)
        two_phases(y, plain, sample, lambda _: None)
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
