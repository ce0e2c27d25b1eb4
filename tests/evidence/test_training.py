"""The loop in which the networks of all studies are trained: steps, schedule, clipping, and what it counts."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from evidence.training import steps_within, train
from gladstorm.torch import NSTORM

SLOPE = torch.tensor([3.0, 4.0])  # of length 5


class Plane(nn.Module):
    """f(x) = SLOPE · x, from 0."""

    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.zeros(2))

    def forward(self) -> Tensor:
        return SLOPE @ self.x


@pytest.mark.parametrize(("clip", "size"), [(None, 5.0), (2.0, 2.0), (10.0, 5.0)])
def test_steps_follow_the_clipped_gradient_by_the_scheduled_lengths(clip: float | None, size: float) -> None:
    model = Plane()
    factor: Callable[[int], float] = lambda k: 1 - k / 4  # noqa: E731 - as studies write it
    counts = list(train(model, torch.optim.SGD(model.parameters(), 0.1), [model] * 4, factor, clip=clip))
    assert counts == [1, 2, 3, 4]
    travelled = 0.1 * (1 + 0.75 + 0.5 + 0.25) * size
    assert model.x.detach().tolist() == pytest.approx((-travelled * SLOPE / 5).tolist())


def test_nstorm_is_charged_for_both_points_and_takes_half_as_many_steps() -> None:
    model = Plane()
    steps = steps_within(9, "NSTORM")
    counts = list(train(model, NSTORM(model.parameters(), 0.1), [model] * steps, lambda _: 1.0))
    assert counts == [1, 3, 5, 7]  # the first step forms v⁰ from one evaluation
    assert steps_within(9, "SGD") == 9
