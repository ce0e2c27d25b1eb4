"""Bad input to the torch optimizers gets one sentence, and leaves parameters and state as they were."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from gladstorm.torch import NSGDM, NSTORM, NoiseProbe, by_layer

NAN, INF = float("nan"), float("inf")


def parameter() -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor([3.0, 4.0]))


CASES: list[tuple[dict[str, Any], str]] = [
    *(({"lr": bad}, "lr must be one number, finite and ≥ 0; got lr=") for bad in (-1.0, NAN, INF, "fast", None)),
    ({"lr": torch.tensor(-1.0)}, r"lr must be one number, finite and ≥ 0; got lr=-1\.0"),
    *(({"lr": bad}, r"lr must be one number, .* got lr=\[1") for bad in (torch.ones(2), [1, 2])),
    *(
        ({"momentum": bad}, r"momentum must be one number in \[0, 1\); got momentum=")
        for bad in (-0.1, 1.0, 1.5, NAN, "x")
    ),
    *(
        ({"weight_decay": bad}, "weight_decay must be one number, finite and ≥ 0; got weight_decay=")
        for bad in (-0.1, NAN)
    ),
    *(
        ({"norm": bad}, "norm must be one of global, group, tensor, spectral, rows, columns, sign; got norm=")
        for bad in ("layer", 2, None)
    ),
    *(({"norm": norm}, f"norm='{norm}' must be for real tensors of two") for norm in ("spectral", "rows", "columns")),
    *(({"scale": bad}, "scale must be one number, finite and > 0; got scale=") for bad in (0.0, -1.0, NAN)),
    *(({"stack": bad}, "stack must be a whole number ≥ 1; got stack=") for bad in (0, 1.5)),
]


@pytest.mark.parametrize("kind", [NSGDM, NSTORM])
@pytest.mark.parametrize(("arguments", "sentence"), CASES, ids=range(len(CASES)))
def test_an_option_is_refused_for_the_optimizer_and_for_a_group(
    kind: type[NSGDM | NSTORM], arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=f"^{kind.__name__}: {sentence}") as error:
        kind([parameter()], **{"lr": 0.1, **arguments})
    assert "\n" not in str(error.value)
    optimizer = kind([parameter()], lr=0.1)
    with pytest.raises(ValueError, match=f"^{kind.__name__}: {sentence}"):
        optimizer.add_param_group({"params": [parameter()], **arguments})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize("kind", [NSGDM, NSTORM])
def test_parameters_must_be_some_and_be_listed(kind: type[NSGDM | NSTORM]) -> None:
    nothing: list[Tensor] = []
    with pytest.raises(
        ValueError, match=rf"^{kind.__name__}: params must hold at least one tensor; got params=\[\]\.$"
    ):
        kind(nothing, lr=0.1)
    with pytest.raises(TypeError, match="should be an iterable of Tensors or dicts"):
        kind(parameter(), lr=0.1)
    with pytest.raises(TypeError, match="param_group must be a dict"):
        kind([parameter()], lr=0.1).add_param_group([parameter()])  # type: ignore[arg-type]  # the point of the test


@pytest.mark.parametrize("bad", [0, -3, 1.5, NAN, [1, 2]])
def test_n_init_is_a_count(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"^NSTORM: n_init must be a whole number ≥ 1; got n_init="):
        NSTORM([parameter()], lr=0.1, n_init=bad)


def good(x: Tensor) -> Callable[[], float]:
    def closure() -> float:
        loss = (x * x).sum()
        loss.backward()
        return loss.item()

    return closure


def no_loss(x: Tensor) -> Callable[[], Any]:
    return lambda: (x * x).sum().backward()


def no_gradient(x: Tensor) -> Callable[[], float]:
    return lambda: float((x.detach() * x.detach()).sum())


def sparse(x: Tensor) -> Callable[[], float]:
    def closure() -> float:
        x.grad = torch.ones(2).to_sparse()
        return 0.0

    return closure


def unlucky(x: Tensor) -> Callable[[], float]:
    def closure() -> float:
        raise ZeroDivisionError("unlucky")

    return closure


BAD = [
    (no_loss, ValueError, "NSTORM: the closure must return the loss; got None"),
    (no_gradient, ValueError, r"NSTORM: an evaluation must compute gradients, by loss\.backward\(\); got none"),
    (sparse, ValueError, r"NSTORM: gradients must be dense; got torch.sparse_coo\. Give the embedding sparse=False"),
    (unlucky, ZeroDivisionError, "unlucky"),
]


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(("bad", "kind", "sentence"), BAD)
def test_a_closure_that_fails_leaves_parameters_and_estimate_untouched(
    begun: bool, bad: Callable[[Tensor], Callable[[], Any]], kind: type[Exception], sentence: str
) -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=0.1)
    if begun:
        optimizer.step(good(x))
    before = x.tolist(), {p: state["momentum_buffer"].tolist() for p, state in optimizer.state.items()}
    with pytest.raises(kind, match=sentence):
        optimizer.step(bad(x))
    if not begun:
        with pytest.raises(kind, match=sentence):
            optimizer.initialize([good(x), bad(x)])
    assert before == (x.tolist(), {p: state["momentum_buffer"].tolist() for p, state in optimizer.state.items()})


def test_a_failure_at_the_new_point_drops_the_estimate_and_the_next_call_forms_a_new_one() -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=0.1)
    optimizer.step(good(x))
    turns = iter([good(x), unlucky(x)])
    with pytest.raises(ZeroDivisionError):
        optimizer.step(lambda: next(turns)())
    assert not optimizer.state
    moved = x.tolist()
    optimizer.step(good(x))
    assert x.tolist() == moved
    assert optimizer.state[x]["momentum_buffer"].tolist() == pytest.approx([2 * value for value in moved])


def test_nsgdm_refuses_sparse_gradients_before_it_moves_anything() -> None:
    x, y = parameter(), parameter()
    optimizer = NSGDM([x, y], lr=0.1)
    x.grad, y.grad = torch.ones(2), torch.ones(2).to_sparse()
    with pytest.raises(ValueError, match=r"NSGDM: gradients must be dense; got torch.sparse_coo"):
        optimizer.step()
    assert x.tolist() == [3.0, 4.0]
    assert not optimizer.state


def test_nstorm_says_what_it_lacks() -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=0.1, n_init=5)
    with pytest.raises(RuntimeError, match=r"^NSTORM: step needs a closure, .*; got none"):
        optimizer.step()
    with pytest.raises(ValueError, match=r"^NSTORM: closures must hold at least one closure; got none"):
        optimizer.initialize([])
    assert not optimizer.state


def test_a_model_in_place_of_parameters_and_parameters_in_place_of_a_model_are_named() -> None:
    model: Any = torch.nn.Linear(3, 4)
    with pytest.raises(
        ValueError, match=r"NSGDM: params must be by_layer\(model\) or model\.parameters\(\); got a model"
    ):
        NSGDM(model, lr=0.1)
    with pytest.raises(ValueError, match=r"by_layer: model must be a torch\.nn\.Module, .*; got a generator"):
        by_layer(model.parameters())
    with pytest.raises(ValueError, match="NoiseProbe: give it a model or an optimizer; got a generator"):
        NoiseProbe(model.parameters())
