"""What every oracle of the folder promises, found by its file and built from its fields' rules: nothing here names one.

Statistical tests use a fixed seed. A two-sided test at level 1e-6 fails a correct oracle for one seed in a million.
"""

import dataclasses
import inspect
import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gladstorm import nstorm
from gladstorm.core.parts import Number, in_float64, leaf, part
from gladstorm.core.rules import NON_NEGATIVE, POSITIVE, PROBABILITY
from gladstorm.problems import objectives, oracles
from gladstorm.simulation.validation import _first_steps

Said = Callable[..., tuple[int, str, str]]

LEVEL = 1e-6
DRAWS, AT_ONCE = 20_000, 400  # by one program, whether all are asked for or few
NUMBERS = {NON_NEGATIVE.words: 0.7, POSITIVE.words: 0.3, PROBABILITY.words: 0.2}  # an example of each rule
# By dimension, problems of which every oracle takes the first it can be drawn from.
# Examples and states: laws do not need all of them.
FEWER = {
    "temporal-differences": "temporal-differences:4",
}
OWN = ("noisy-runway",)  # whose numbers decide the dimension
NOISY = [FEWER.get(name, name) for name in objectives.registry() if objectives.own_oracle(name)]  # by themselves
PROBLEMS: dict[int, list[Any]] = {
    1: [
        objectives.named("cauchy", dim=1, start=0.5),
        objectives.named("phase-retrieval:20", dim=1, start=1.0),
        *(objectives.named(name, dim=None if name in OWN else 1) for name in NOISY),
    ],
    3: [
        objectives.named("double-well", dim=3, start=0.5),
        objectives.named("phase-retrieval:20", dim=3, start=1.0),
        *(objectives.named(name, dim=None if name in OWN else 3) for name in NOISY),
    ],
}


def oracle_of(name: str, dim: int = 3, **numbers: float) -> Any:
    cls: Any = oracles.registry()[name]
    fields = [field for field in dataclasses.fields(cls) if field.name != "objective"]
    given = {field.name: NUMBERS[field.metadata["rule"].words] for field in fields if field.metadata} | numbers
    rejected = (cls.incompatible(problem) for problem in PROBLEMS[dim])
    fitting = next(problem for problem, why in zip(PROBLEMS[dim], rejected, strict=True) if why is None)
    return cls(fitting, **given)


def place(oracle: Any) -> np.ndarray:
    """A point away from x⁰; on a chain not so far that nothing is hidden."""
    start = np.asarray(oracle.objective.start)
    unit = 0.2 * float(oracle.objective.scale) if hasattr(oracle.objective, "scale") else 2.0
    return start + unit * np.linspace(1.0, -0.6, start.size)


@jax.jit
def _noise(oracle: Any, x: Any, b: Any, keys: Any) -> Any:
    point = oracle.at(x)
    one: Any = jax.vmap(lambda key: oracle.grad(point, oracle.batch(oracle.draw(key), b)) - oracle.exact(point))
    return one(keys), oracle.variance(point)


def noise(oracle: Any, b: int = 1, draws: int = DRAWS) -> tuple[np.ndarray, Any]:
    """The errors of independent batch means of b samples, and the variance the oracle states for a single one."""
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(0), draws).reshape(-1, AT_ONCE)
        found = [_noise(oracle, place(oracle), jnp.asarray(b), each) for each in keys]
        errors, variance = np.concatenate([np.asarray(errors) for errors, _ in found]), found[0][1]
        return errors, None if variance is None else float(variance)


def require_law(oracle: Any, b: int) -> None:
    """Unbiased, and of the stated variance divided by the batch."""
    errors, variance = noise(oracle, b)
    dim = errors.shape[1]
    standard_error = errors.std(axis=0, ddof=1) / np.sqrt(DRAWS)
    rounding = 1e-12 * (1 + np.abs(errors).max())
    assert np.all(np.abs(errors.mean(axis=0)) <= stats.norm.isf(LEVEL / (2 * dim)) * standard_error + rounding)
    if variance is not None:
        squared = b * np.sum(errors**2, axis=1)
        allowed = stats.norm.isf(LEVEL / 2) * squared.std(ddof=1) / np.sqrt(DRAWS)
        assert abs(squared.mean() - variance) <= allowed + 1e-12 * variance
        assert variance > 0  # or nothing has been tested


NAMES = list(oracles.registry())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("b", [1, 7])
def test_a_batch_mean_is_unbiased_with_the_stated_variance_divided_by_the_batch(name: str, b: int) -> None:
    require_law(oracle_of(name), b)


@pytest.mark.parametrize("name", NAMES)
def test_the_law_holds_in_one_dimension(name: str) -> None:
    require_law(oracle_of(name, dim=1), 2)


@pytest.mark.parametrize("growth", [0.0, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("name", [name for name in NAMES if issubclass(oracles.registry()[name], oracles.ExactBg0)])
def test_the_variance_is_that_of_the_growth_and_theorems_about_bg0_take_no_other(name: str, growth: float) -> None:
    oracle = oracle_of(name, B=0.7, G=1.3, growth=growth)
    x = place(oracle)
    with jax.enable_x64(True):
        stated = float(oracle.variance(oracle.at(jnp.asarray(x))))  # in one column ‖·‖_op is the Euclidean norm
    assert stated == pytest.approx(0.49 * np.linalg.norm(x - oracle.objective.start) ** growth + 1.69)
    require_law(oracle, 300 if growth == 2 else 1)  # of so many coins the law is computed in another way
    assert (oracle.bg0 is None) == (growth != 2)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if "B" in inspect.signature(oracles.registry()[name]).parameters]
)
def test_without_growth_the_variance_is_that_at_the_start(name: str) -> None:
    oracle = oracle_of(name, B=0.0)
    require_law(oracle, 1)
    with jax.enable_x64(True):
        at_start = float(oracle.variance(oracle.at(jnp.asarray(oracle.objective.start))))
    assert noise(oracle)[1] == pytest.approx(at_start, rel=1e-12)
    assert at_start == pytest.approx(oracle.G**2)


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_the_same_at_two_points(name: str) -> None:
    oracle = oracle_of(name)
    x = place(oracle)

    @jax.jit
    def close_by(oracle: Any, x: Any, y: Any, keys: Any) -> Any:
        def one(key: Any) -> Any:
            sample = oracle.batch(oracle.draw(key), jnp.ones((), int))
            return oracle.grad(oracle.at(y), sample) - oracle.grad(oracle.at(x), sample)

        return jax.vmap(one)(keys)

    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(0), 100)
        moved = np.asarray(close_by(oracle, x, x + 1e-9 * (1 + np.abs(x)), keys))
    errors = noise(oracle)[0]
    assert np.abs(moved).max() <= 1e-6 * np.abs(errors).max()  # two samples would differ by as much as the noise


@pytest.mark.parametrize("name", NAMES)
def test_large_batches_have_little_noise_and_the_largest_has_none(name: str) -> None:
    oracle = oracle_of(name)
    if oracle.largest is None:
        few = AT_ONCE  # some oracles draw every sample of a batch
        assert np.abs(noise(oracle, 1000, few)[0]).max() < 0.1 * np.abs(noise(oracle, 1, few)[0]).max()
    else:
        assert np.abs(noise(oracle, oracle.largest)[0]).max() <= 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_methods_run_on_every_oracle_and_texts_name_it(name: str) -> None:
    oracle = oracle_of(name)
    fields = [field for field in dataclasses.fields(oracle) if field.metadata]
    numbers, objective = {field.name: getattr(oracle, field.name) for field in fields}, oracle.objective
    in_order = [str(numbers[field.name]) for field in fields if not field.kw_only]
    text = f"{name}({', '.join(f'{field}={number}' for field, number in numbers.items())})" if numbers else name
    named: Any = oracles.named(text, objective)
    assert {field: getattr(named, field) for field in numbers} == numbers
    assert (type(named), named.objective) == (type(oracle), objective)
    short: Any = oracles.named(f"{name}:{','.join(in_order)}", objective)
    assert [str(getattr(short, field.name)) for field in fields if not field.kw_only] == in_order
    with jax.enable_x64(True):
        _first_steps.trace(in_float64(named), in_float64(nstorm(1e-3, 0.5)))  # abstractly: compiling takes seconds


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("bg0", "oracle: must be one of blum-gladyshev, finite-sum, .*; got 'bg0'"),
        ("skewed", r"oracle: skewed needs q, as in skewed\(q=0.1\); got none"),
        ("skewed(p=0.1)", "oracle: skewed takes B, G, q, growth; got 'p'"),
        ("finite-sum(B=1)", "oracle: finite-sum takes no arguments; got 'B'"),
        ("full-rank(B=[1,2])", "oracle: B of full-rank must be one number; got"),
        ("full-rank(B=x)", "oracle: B of full-rank must be one number; got"),
        ("full-rank:1,2,3", "oracle: full-rank takes B, G, growth; got too many positional arguments"),
        (
            "full-rank + skewed",
            r"oracle: must be NAME",
        ),
        ("full-rank(objective=1)", "oracle: full-rank takes B, G, growth; got 'objective'"),
        (
            "finite-sum",
            "FiniteSum: the objective must be a mean of losses, such as dro or matrix-sensing or .*; got Cauchy",
        ),
    ],
)
def test_a_bad_text_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as error:
        oracles.named(text, objectives.named("cauchy"), {"B": 0.5, "G": 1.0})
    assert "\n" not in str(error.value)


@part
class UniformCube(oracles.Oracle):
    """Noise of bounded variance, uniform on a cube."""

    objective: Any
    width: Number = leaf(POSITIVE)

    def draw(self, key: Any) -> Any:
        return jax.random.uniform(key, self.objective.start.shape, jnp.result_type(float)) - 0.5

    def batch(self, noise: Any, size: Any) -> Any:
        return noise / jnp.sqrt(size)

    def grad(self, point: Any, sample: Any) -> Any:
        return point.grad + self.width * sample


def test_a_new_class_is_found_by_the_command_line(gladstorm: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracles, "UniformCube", UniformCube, raising=False)  # as an import there does
    assert "uniform-cube" in oracles.registry()
    command = "simulate --objective cauchy --method sgd(gamma=0.1) --steps 5 --seeds 2 --json --oracle".split()
    code, out, err = gladstorm(*command, "uniform-cube(width=0.5)")
    assert code == 0, err
    config = json.loads(out)["config"]
    assert (config["oracle_text"], config["B"], config["G"]) == ("uniform-cube(width=0.5)", None, None)
    assert config["oracle"]["width"] == 0.5


def test_the_oracle_s_own_numbers_are_what_methods_and_batch_rules_are_told(gladstorm: Said) -> None:
    command = "simulate --objective cauchy --start 1 --steps 3 --seeds 1 --json --method".split()
    command += [method := "sgd(gamma=0.1,batch=grow_with_distance(sigma2=0.01))", "--oracle"]
    code, out, err = gladstorm(*command, "full-rank(B=0,G=0.5)")
    assert code == 0, err
    report = json.loads(out)
    assert (report["config"]["B"], report["config"]["G"]) == (0, 0.5)
    assert report["methods"][method]["max_batch"] == 25  # G²/σ²
    code, _, err = gladstorm(*command, "finite-sum", "--objective", "dro:5", "--dim", "2")
    assert (code, err.count("\n")) == (2, 1)
    assert "grow_with_distance needs B" in err
