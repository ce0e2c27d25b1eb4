"""Noise in the norm of the optimizer: lengths and duals are those of exact norms, and probes measure what they say."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gladstorm.diagnosis import Probes, diagnose
from gladstorm.diagnosis.probes import EUCLID, LAYERS
from gladstorm.theory import plan
from gladstorm.torch import NSGDM, NoiseProbe, by_layer, trial
from gladstorm.torch import diagnose as diagnose_model
from gladstorm.torch.step_norms import LayerNorms, WholeNorm

GENERATOR = torch.Generator()
SCALE = 0.5


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order() -> None:
    GENERATOR.manual_seed(0)


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=GENERATOR)


def norms(*shapes: tuple[int, ...], norm: str, stack: int = 1) -> LayerNorms:
    params = [nn.Parameter(drawn(*shape)) for shape in shapes]
    return LayerNorms([{"params": params, "norm": norm, "scale": SCALE, "stack": stack}])


def exact(x: Tensor, norm: str) -> tuple[float, float]:
    """The norm of a matrix whose unit ball has the unit steps of this name, and its dual, by singular values."""
    if norm == "spectral":
        length = math.sqrt(max(1, x.shape[0] / x.shape[1]))
        values = torch.linalg.svdvals(x)
        return float(values.max()) / length, length * float(values.sum())
    if norm == "sign":
        return float(x.abs().max()), float(x.abs().sum())
    sizes = x.norm(dim=1 if norm == "rows" else 0)
    return float(sizes.max()), float(sizes.sum())


@pytest.mark.parametrize("norm", ["spectral", "sign", "rows", "columns"])
@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (1, 5), (5, 1)])
def test_lengths_and_duals_are_those_of_exact_norms_and_of_layers(norm: str, shape: tuple[int, int]) -> None:
    both = norms(shape, (4, 4), norm=norm)
    xs, slack = [drawn(*shape), drawn(4, 4)], 0.4 if norm == "spectral" else 1e-9
    lengths, duals = zip(*(exact(x, norm) for x in xs), strict=True)
    assert both.length(xs) == pytest.approx(max(lengths) / SCALE, rel=0.03 if norm == "spectral" else 1e-9)
    assert both.dual(xs) == pytest.approx(SCALE * sum(duals), rel=slack)
    assert both.length(both.unit(xs)) == pytest.approx(1, rel=slack)
    assert both.length([0 * x for x in xs]) == both.dual([0 * x for x in xs]) == 0
    stacked = norms((2 * shape[0], shape[1]), norm=norm, stack=2)  # two matrices of one tensor are two layers
    two = [drawn(*shape), drawn(*shape)]
    assert stacked.length([torch.cat(two)]) == pytest.approx(norms(shape, shape, norm=norm).length(two))
    assert stacked.dual([torch.cat(two)]) == pytest.approx(norms(shape, shape, norm=norm).dual(two))


@pytest.mark.parametrize("groups", [2, 5])
@pytest.mark.parametrize("norm", ["spectral", "sign"])
def test_the_variance_is_that_of_normal_noise_in_the_dual_norm_for_any_number_of_groups(norm: str, groups: int) -> None:
    of, spread = norms((5, 8), (3,) if norm == "sign" else (3, 2), norm=norm), 10.0 ** torch.linspace(-1, 1, 8)
    samples, shapes = 4, [p.shape for p in of.params]

    def noise() -> list[Tensor]:
        return [drawn(*shape) * (spread if shape == (5, 8) else 1.0) for shape in shapes]

    expected = np.mean([of.dual(noise()) ** 2 for _ in range(1200)])
    found = [of.measure([[z / 2 for z in noise()] for _ in range(groups)], samples)[0] for _ in range(600)]
    assert np.mean(found) == pytest.approx(expected, rel=0.05)


def test_the_gradient_is_no_longer_than_it_is_and_as_long_without_noise() -> None:
    of = norms((6, 9), norm="sign")
    gradient = drawn(6, 9)
    truth = of.dual([gradient])
    agreed = []
    for size in (0.0, 0.3, 3.0):
        found = [of.measure([[gradient + size * drawn(6, 9)] for _ in range(2)], 1)[1] for _ in range(400)]
        agreed.append(np.mean(np.sign(found) * np.sqrt(np.abs(found))))
    assert agreed[0] == pytest.approx(truth)
    assert agreed[0] > agreed[1] > 0.9 * truth > agreed[2] > 0.1 * truth
    apart = of.measure([[gradient], [-gradient]], 1)[1]
    assert apart == pytest.approx(-(truth**2))  # groups that disagree


def test_the_norm_over_everything_is_euclidean_and_without_bias() -> None:
    of, gradient = WholeNorm([nn.Parameter(drawn(4))]), torch.tensor([1.0, 2.0, 2.0, 0.0], dtype=torch.float64)
    found = [of.measure([[gradient + drawn(4)] for _ in range(3)], 7) for _ in range(4000)]
    assert np.mean(found, axis=0) == pytest.approx([7 * 4, 9], rel=0.04)
    assert [of.length([gradient]), of.length(of.unit([gradient]))] == pytest.approx([3, 1])


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()


def loss_of(model: nn.Module, batch: Tensor) -> Tensor:
    loss: Tensor = (model(batch[:, :3])[:, 0] - batch[:, 3]).square().mean()
    return loss


def test_a_look_measures_in_the_norms_of_the_layers_and_tells_each_of_them() -> None:
    model, read = network(), list[dict[str, float]]()
    probe = NoiseProbe(model, every=1, norms=by_layer, max_norm=1.0, on_reading=read.append)
    of, data = LayerNorms(by_layer(model)), drawn(3, 24, 4)
    names: dict[Tensor, str] = {p: name for name, p in model.named_parameters()}
    rows = []
    for batch in data:
        probe.look(loss_of, batch)
        A, B = (torch.autograd.grad(loss_of(model, part), of.params) for part in (batch[:6], batch[6:12]))
        rows.append(of.layers([A, B], 6))
        with torch.no_grad():
            for p, unit in zip(of.params, of.unit(of.params), strict=True):
                p.sub_(0.1 * unit)
    probes = probe.probes
    assert probes.noise == pytest.approx(np.array([row[0] for row in rows]))
    assert probes.gradient2 == pytest.approx(np.array([row[1] for row in rows]))
    assert probes.distance[1] == pytest.approx(0.1, rel=0.25)  # one step, as long as Newton–Schulz makes it
    assert np.isnan(probes.first).all()
    assert math.isnan(read[-1]["clip/bias"])
    layers = probe.layers()
    assert {*layers} == {*names.values()}
    for p, row in zip(of.params, rows[-1][2], strict=True):
        layer = layers[names[p]]
        assert layer == pytest.approx(row)
        assert layer.critical_batch == (pytest.approx(row[0] / row[2]) if row[2] > 0 else math.inf)
        assert layer.tau == pytest.approx(math.sqrt(row[0] / row[1]))
    with pytest.raises(ValueError, match="layers needs a look with norms"):
        NoiseProbe(network()).layers()
    with pytest.raises(ValueError, match="norms needs a model"):
        NoiseProbe(torch.optim.SGD(model.parameters()), norms=by_layer)
    with pytest.raises(ValueError, match="norms of all groups must be of spectral, rows, columns, sign; got 'global'"):
        NoiseProbe(model, norms=lambda model: [{"params": model.parameters()}])


@pytest.mark.parametrize("count", [2, 3, 4])
def test_hooks_measure_one_half_of_a_step_s_micro_batches_against_the_other_in_the_norms_of_the_optimizer(
    count: int,
) -> None:
    model, data = network(), drawn(2, count, 6, 4)
    optimizer = NSGDM(by_layer(model, {"*": {"norm": "sign", "scale": 0.25}}), lr=0.01)
    probe, every = NoiseProbe(optimizer, every=1, samples=6), list(model.parameters())
    gradients, starts = [], []
    for micro_batches in data:
        starts.append([p.detach().clone() for p in every])
        unheard = copy.deepcopy(model)
        losses = [loss_of(unheard, batch) for batch in micro_batches]
        gradients.append([torch.autograd.grad(loss, list(unheard.parameters())) for loss in losses])
        optimizer.zero_grad()
        for batch in micro_batches:
            (loss_of(model, batch) / count).backward()
        optimizer.step()
    scales = [0.25] * len(every)
    for step, of_step in enumerate(gradients):
        A, B = (
            [sum(column) / len(half) for column in zip(*half, strict=True)] for half in (of_step[::2], of_step[1::2])
        )
        apart = sum(s * float((a - b).abs().sum()) for s, a, b in zip(scales, A, B, strict=True))
        share = 1 / len(of_step[::2]) + 1 / len(of_step[1::2])  # of one micro-batch's variance, that A − B has
        assert probe.probes.noise[step] == pytest.approx(6 * apart**2 / share)
        agreed = [s * float(a.sign().flatten() @ b.flatten()) for s, a, b in zip(scales, A, B, strict=True)]
        agreed += [s * float(b.sign().flatten() @ a.flatten()) for s, a, b in zip(scales, A, B, strict=True)]
        assert probe.probes.gradient2[step] == pytest.approx(np.sign(sum(agreed)) * (sum(agreed) / 2) ** 2)
        away = max(float((p - q).abs().max()) / 0.25 for p, q in zip(starts[step], starts[0], strict=True))
        assert probe.probes.distance[step] == pytest.approx(away)
    assert probe.probes.norm == LAYERS
    assert {*probe.layers()} == {name for name, _ in model.named_parameters()}


def test_the_norm_is_the_optimizer_s_where_every_group_has_one_and_else_euclidean() -> None:
    batch, tables = drawn(24, 4), []
    for norms in (by_layer, NSGDM(by_layer(network())), None, torch.optim.SGD(network().parameters())):
        model = network()
        of_model: Any = norms
        if isinstance(norms, torch.optim.Optimizer):
            groups: Any = by_layer(model) if isinstance(norms, NSGDM) else model.parameters()
            of_model = type(norms)(groups)
        probe = NoiseProbe(model, every=1, norms=of_model)
        probe.look(loss_of, batch)
        tables.append(probe.probes)
    assert [table.norm for table in tables] == [LAYERS, LAYERS, EUCLID, EUCLID]
    assert tables[0].noise == tables[1].noise != tables[2].noise == tables[3].noise
    mixed = network()
    groups = [{"params": mixed[0].parameters(), "norm": "sign"}, {"params": mixed[2].parameters()}]
    of_both = NSGDM(groups)
    assert isinstance(NoiseProbe(of_both)._norm, WholeNorm)
    assert isinstance(NoiseProbe(mixed, norms=of_both)._norm, WholeNorm)


def test_the_table_says_in_which_norm_it_is(tmp_path: Any) -> None:
    probe = NoiseProbe(network(), every=1, norms=by_layer)
    probe.look(loss_of, drawn(24, 4))
    probe.save(tmp_path / "run.parquet")
    again = Probes.load(tmp_path / "run.parquet")
    assert again.norm == LAYERS
    assert "an upper end" in again.remarks[-1]


class Grows(nn.Module):
    """½‖x‖² with noise of variance 1 + 4 r^a in every entry, r the distance from the start in the largest entry."""

    def __init__(self, power: float) -> None:
        super().__init__()
        self.x, self.power = nn.Parameter(torch.full((30,), 0.1, dtype=torch.float64)), power
        self.start = self.x.detach().clone()

    def noisy(self, batch: Tensor) -> Tensor:
        r = (self.x - self.start).abs().max().detach() / SCALE
        noise = (batch.mean(dim=0) * (1 + 4 * r**self.power) ** 0.5) @ self.x
        return self.x @ self.x / 2 + noise


def signs(model: nn.Module) -> list[dict[str, Any]]:
    return [{"params": list(model.parameters()), "norm": "sign", "scale": SCALE}]


@pytest.mark.parametrize("power", [1.0, 2.0, 4.0])
def test_growth_of_any_power_is_found_in_the_norm_of_the_optimizer_and_planned_with(power: float) -> None:
    def loss(model: Grows, batch: Tensor) -> Tensor:
        return model.noisy(batch)

    report = diagnose_model(loss, Grows(power), list(drawn(200, 32, 30)), 200, radius=2.0, norms=signs)  # type: ignore[arg-type]
    unit = (SCALE * 30) ** 2 * (2 / math.pi + (1 - 2 / math.pi) / 30)  # E (s Σ|z|)², of 30 standard normal entries
    found = report.findings["power"]
    assert found.is_estimated
    assert (found.low or 0) <= power <= (found.high or 0)
    assert report.findings["G"].estimate == pytest.approx(unit**0.5, rel=0.25)
    if power == 2.0:
        assert report.findings["B"].estimate == pytest.approx(2 * unit**0.5, rel=0.05)
    assert (report.growth == 2.0) == (power == 2.0)
    constants = report.constants(batch=4)
    assert constants["growth"] == report.growth
    ready = report.plan("nsgdm", samples=4, alpha=0, gap=1.0, horizon=10_000)
    assert ready.as_dict() == plan("nsgdm", alpha=0, gap=1.0, horizon=10_000, **constants).as_dict()
    assert ready.statement.problem.growth == report.growth
    assert "For SGD, norm must be euclid: its steps are not normalized." in report.recommend(9, gap=1.0, alpha=0).why
    assert "‖_*" in ready.statement.problem.measure
    advice = report.recommend(10_000, gap=1.0, alpha=0, batch=4)
    assert advice.gamma is not None
    assert "the smallest of 2 bounds on E‖∇f(x̂)‖_* for" in advice.why
    assert "This is no guarantee" in advice.why  # L and ℓ may be too small
    assert "by_layer(model)" in advice.actions["torch"]
    assert "norm=gladstorm.optax.by_layer" in advice.actions["optax"]


def test_a_layer_alone_is_diagnosed_by_its_group_and_the_others_stay() -> None:
    model = network()
    still = {name: p.clone() for name, p in model.named_parameters()}

    def watched(model: nn.Module, batch: Tensor) -> Tensor:
        assert all(torch.equal(p, still[name]) for name, p in model.named_parameters() if name != "0.weight")
        return loss_of(model, batch)

    first: Any = lambda model: [{"params": [model[0].weight], "norm": "spectral"}]  # noqa: E731
    report = diagnose_model(watched, model, list(drawn(16, 24, 4)), 16, radius=0.5, norms=first)
    assert set(report.probes.distance) == {0.0, 0.125, 0.25, 0.5}
    tried = trial(loss_of, model, drawn(20, 24, 4), norms=by_layer)(0.02)
    assert tried[1] < tried[0]


def test_constants_of_a_table_are_upper_ends_with_the_power_where_it_is_not_two() -> None:
    """V = 1 + r⁴/4 without an error: G = 1 and B = ½ at a = 4, for a mini-batch of 4 half of either."""
    from test_intervals import designed

    report = diagnose(designed(lambda s: 1 + s**4 / 4, radius=4.0, budget=96))
    constants = report.constants(batch=4)
    assert report.growth == pytest.approx(4.0, rel=0.1)
    assert (constants["G"], constants["B"]) == pytest.approx((0.5, 0.25), rel=0.15)
    assert constants["L0"] == pytest.approx(1.0)
    assert constants["L"] == pytest.approx((1 + 1 / 4) ** 0.5)
    assert "norm" not in constants
    with pytest.raises(ValueError, match="constants: B must be known"):
        diagnose(designed(lambda s: 1 + s**2 / 100, radius=1.0)).constants()
