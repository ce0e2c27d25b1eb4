"""In the Hugging Face Trainer and in Accelerate the optimizers do what a plain loop does, or say why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

transformers = pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")

from gladstorm.torch import NSGDM, NSTORM, Untuned, by_layer  # noqa: E402
from gladstorm.transformers import EvaluateAverage, TwoPointTrainer  # noqa: E402

LR, BATCH = 0.05, 4
X = torch.randn(48, 4, generator=torch.Generator().manual_seed(0))
DATA = [{"x": x, "labels": x.sum()[None]} for x in X]

pytestmark = pytest.mark.filterwarnings("ignore")  # these libraries' own


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 1)
        self.calls = 0

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        self.calls += 1
        return {"loss": (self.linear(x) - labels).square().mean()}


class InOrder:
    """Batches in the order of the data, so that a plain loop sees the same."""

    def _get_train_sampler(self, *_: Any) -> Any:
        return torch.utils.data.SequentialSampler(DATA)


class Plain(InOrder, transformers.Trainer):  # type: ignore[misc, name-defined]
    pass


class TwoPoint(InOrder, TwoPointTrainer):
    pass


def arguments(folder: Path, steps: int, **options: Any) -> Any:
    quiet = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "save_strategy": "no"}
    own = {"output_dir": str(folder), "max_steps": steps, "per_device_train_batch_size": BATCH}
    return transformers.TrainingArguments(**{**quiet, **own, **options})


def fit(trainer: Any, make: Any, folder: Path, steps: int, resume: bool = False, **options: Any) -> Any:
    model = Network()
    optimizer = make(model)
    both = optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
    made = trainer(model, arguments(folder, steps, **options), train_dataset=DATA, optimizers=both)
    made.train(resume_from_checkpoint=resume)
    return model


def loop(model: Any, optimizer: Any, steps: Any, size: int = BATCH, backward: Any = Tensor.backward) -> None:
    for k in steps:
        x = X[k * size : (k + 1) * size]

        def closure(x: Tensor = x) -> float:
            optimizer.zero_grad()
            loss = model(x, x.sum(1, keepdim=True))["loss"]
            backward(loss)
            return float(loss)

        optimizer.step(closure)


def by_hand(make: Any, steps: int, accumulate: int = 1) -> Network:
    model = Network()
    loop(model, make(model), range(steps), BATCH * accumulate)
    return model


def assert_same(model: torch.nn.Module, other: torch.nn.Module) -> None:
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("accumulate", "steps"), [(1, 8), (4, 3)])
@pytest.mark.parametrize("max_norm", [0.0, 2.0])
def test_the_trainer_s_steps_with_nstorm_are_those_of_a_plain_loop(
    accumulate: int, steps: int, max_norm: float, tmp_path: Path
) -> None:
    def make(model: torch.nn.Module) -> NSTORM:
        return NSTORM(model.parameters(), LR)

    options: dict[str, Any] = {"max_grad_norm": max_norm, "gradient_accumulation_steps": accumulate}
    model = fit(TwoPoint, make, tmp_path, steps, **options)
    alone = by_hand(lambda m: NSTORM(m.parameters(), LR, max_grad_norm=max_norm or None), steps, accumulate)
    assert_same(model, alone)
    assert model.calls == (2 * steps - 1) * accumulate  # v⁰ takes one evaluation


def test_nsgdm_needs_nothing(tmp_path: Path) -> None:
    def make(model: torch.nn.Module) -> NSGDM:
        return NSGDM(model.parameters(), LR)

    model = fit(Plain, make, tmp_path, 4, max_grad_norm=0.0, gradient_accumulation_steps=2)
    assert_same(model, by_hand(make, 4, accumulate=2))


def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(tmp_path: Path) -> None:
    def make(model: torch.nn.Module) -> NSTORM:
        return NSTORM(model.parameters(), LR)

    whole = fit(TwoPoint, make, tmp_path / "whole", 6)
    fit(TwoPoint, make, tmp_path / "part", 3, save_strategy="steps", save_steps=3)
    resumed = fit(TwoPoint, make, tmp_path / "part", 6, resume=True)
    for p, q in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(p, q)


def test_the_plain_trainer_refuses_nstorm(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="NSTORM: step needs a closure"):
        fit(Plain, lambda model: NSTORM(model.parameters(), LR), tmp_path, 2)


def test_nsgdm_may_be_given_as_a_class_with_its_options(tmp_path: Path) -> None:
    model, given = Network(), arguments(tmp_path, 4, max_grad_norm=0.0, lr_scheduler_type="constant")
    Plain(model, given, train_dataset=DATA, optimizer_cls_and_kwargs=(NSGDM, {"lr": LR})).train()
    assert_same(model, by_hand(lambda m: NSGDM(m.parameters(), LR), 4))


@pytest.fixture
def accelerator() -> Any:
    accelerate.state.AcceleratorState._reset_state(True)
    accelerate.state.GradientState._reset_state()
    return accelerate.Accelerator(cpu=True)


def test_accelerate_resumes_to_the_bits_of_an_uninterrupted_run(accelerator: Any, tmp_path: Path) -> None:
    plain = Network()
    model, optimizer = accelerator.prepare(plain, NSTORM(plain.parameters(), LR))

    def train(steps: range) -> list[list[float]]:
        loop(model, optimizer, steps, backward=accelerator.backward)
        return [p.tolist() for p in plain.parameters()]

    train(range(3))
    accelerator.save_state(str(tmp_path))
    whole = train(range(3, 6))
    with torch.no_grad():
        for p in plain.parameters():
            p.zero_()
    optimizer.state.clear()
    accelerator.load_state(str(tmp_path))
    assert train(range(3, 6)) == whole


def test_accelerate_trains_as_a_plain_loop_and_gives_its_average(accelerator: Any) -> None:
    makers = (
        lambda m: NSTORM(m.parameters(), LR),
        lambda m: Untuned(by_layer(m), horizon=4),
        lambda m: Untuned(m.parameters(), horizon=4),
    )
    for make in makers:
        plain = Network()
        model, optimizer = accelerator.prepare(plain, make(plain))
        loop(model, optimizer, range(4), backward=accelerator.backward)
        assert_same(plain, by_hand(make, 4))
    last = plain.linear.weight.tolist()
    with optimizer.optimizer.averaged():  # Accelerate wraps it
        assert plain.linear.weight.tolist() != last


class Saves(Network):
    """A model with the method of transformers' models."""

    def save_pretrained(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        torch.save(self.state_dict(), folder / "model")


def test_the_average_is_evaluated_saved_and_left_in_the_model_and_the_run_resumes_from_its_last_iterate(
    tmp_path: Path,
) -> None:
    def train(folder: Path, steps: int, callbacks: list[Any], resume: bool = False, **options: Any) -> Any:
        model = Saves()
        options |= {"lr_scheduler_type": "constant", "max_grad_norm": 0.0, "per_device_eval_batch_size": 48}
        options |= {"eval_strategy": "steps", "eval_steps": 3, "save_strategy": "steps", "save_steps": 3}
        optimizer, given = Untuned(model.parameters(), horizon=6), arguments(folder, steps, **options)
        data = {"train_dataset": DATA, "eval_dataset": DATA}
        trainer = Plain(model, given, **data, callbacks=callbacks, optimizers=(optimizer, None))
        trainer.train(resume_from_checkpoint=resume)
        losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
        return model, optimizer, losses

    def error(model: Any) -> float:
        with torch.no_grad():
            return float(model(X, X.sum(1, keepdim=True))["loss"])

    plain, optimizer, last = train(tmp_path / "plain", 6, [])
    model, _, losses = train(tmp_path / "average", 6, [EvaluateAverage()])
    with optimizer.averaged():
        assert losses[-1] == pytest.approx(error(plain), rel=1e-5) == pytest.approx(error(model), rel=1e-5)
    assert losses[-1] != pytest.approx(last[-1], rel=1e-3)
    saved = Network()
    saved.load_state_dict(torch.load(tmp_path / "average/checkpoint-3/average/model", weights_only=True))
    assert error(saved) == pytest.approx(losses[0], rel=1e-5)
    train(tmp_path / "part", 3, [EvaluateAverage()])
    resumed, _, _ = train(tmp_path / "part", 6, [EvaluateAverage()], resume=True)
    for p, q in zip(model.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(p, q)
    with pytest.raises(ValueError, match=r"^EvaluateAverage: load_best_model_at_end must be False"):
        train(tmp_path / "best", 3, [EvaluateAverage()], load_best_model_at_end=True)


def test_by_layer_the_trainer_evaluates_saves_and_loads_what_the_method_reports_without_a_callback(
    tmp_path: Path,
) -> None:
    model = Saves()
    when: dict[str, Any] = {"eval_strategy": "steps", "eval_steps": 3, "save_strategy": "steps", "save_steps": 3}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "loss", "per_device_eval_batch_size": 48}
    given = arguments(tmp_path, 6, lr_scheduler_type="constant", max_grad_norm=0.0, **when, **best)
    optimizer = Untuned(by_layer(model), horizon=6)
    trainer = Plain(model, given, train_dataset=DATA, eval_dataset=DATA, optimizers=(optimizer, None))
    trainer.train()
    losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
    assert_same(model, by_hand(lambda m: Untuned(by_layer(m), horizon=6), 6))
    assert losses[-1] == min(losses) == pytest.approx(trainer.evaluate()["eval_loss"], rel=1e-6)


@pytest.mark.filterwarnings("default")
def test_the_trainer_s_own_linear_decay_is_announced(tmp_path: Path) -> None:
    model, given = Network(), arguments(tmp_path, 4)
    trainer = Plain(model, given, train_dataset=DATA, optimizers=(Untuned(model.parameters(), horizon=4), None))
    with pytest.warns(UserWarning, match="Untuned: a scheduler has changed lr from 1 to 0.75"):
        trainer.train()
