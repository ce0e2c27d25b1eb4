"""Three ways in which a comparison can be fooled, each shown to fool and each with what keeps ours from it."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm import BlumGladyshev, Method, nsgdm, run, sgd
from gladstorm.cli.compare import compare
from gladstorm.cli.simulate import simulate
from gladstorm.methods.averages import TailAverage
from gladstorm.problems import objectives, oracles
from gladstorm.simulation.tables import summary


def test_a_fixed_start_and_a_fixed_step_length_meet_the_solution_by_arithmetic_and_a_random_start_does_not() -> None:
    method = nsgdm(gamma=0.01, eta=1.0)
    exact = BlumGladyshev(objectives.named("power:3", start=5.0), 0.0, 0.0)
    random = BlumGladyshev(objectives.named("power:3"), 0.0, 0.0)
    on_the_lattice, off_it = (float(run(each, method, steps=600).best_grad_norm[0, 0, -1]) for each in (exact, random))
    assert on_the_lattice < 1e-24
    rest = float(random.objective.start[0]) % 0.01
    assert off_it == pytest.approx(3 * min(rest, 0.01 - rest) ** 2, rel=1e-6)
    assert off_it > 1e-7


@pytest.mark.parametrize("command", [compare, simulate], ids=["compare", "simulate"])
def test_no_example_of_a_command_starts_at_a_fixed_number(command: Any) -> None:
    examples = [line for line in command.__doc__.splitlines() if "Example:" in line]
    assert examples
    assert not any("--start" in line for line in examples)


def averaged(function: Any, start: float) -> tuple[float, float]:
    """‖∇f‖ of a bouncing run's iterates over its last half, and of their average; means over seeds."""
    noisy = BlumGladyshev(objectives.from_function(function, start=[start]), 0.0, 1.0)
    record = run(noisy, Method(sgd(0.5).estimator, sgd(0.5).step, average=TailAverage()), steps=2000, seeds=8)
    late = record.steps > 1000
    return float(record.grad_norm[0][:, late].mean()), float(record.reported_grad_norm[0, :, -1].mean())


def test_averages_of_even_functions_are_near_the_solution_for_no_merit() -> None:
    iterates, average = averaged(lambda x: jnp.sum(jnp.log(jnp.cosh(x))), 1.0)
    assert average < 0.1 * iterates
    # The same slopes, one of them a quarter as steep: nothing cancels.
    iterates, average = averaged(lambda x: jnp.sum(jnp.where(x > 0, 1.0, 0.25) * jnp.log(jnp.cosh(x))), 1.0)
    assert average > 0.3 * iterates


def test_where_the_gradient_vanishes_need_not_be_a_solution_and_reports_have_f_beside_it() -> None:
    instance = objectives.named("sampled-phase-retrieval:0", dim=2)
    signal = np.asarray(instance.signal)
    aside = np.array([-signal[1], signal[0]]) / np.sqrt(3)
    for x, f in ((np.zeros(2), 1.5), (aside, 4 / 3), (signal, 0.0), (-signal, 0.0)):
        record = run(
            oracles.named("sampled-phase-retrieval", dataclasses.replace(instance, start=x)), sgd(1e-12), steps=1
        )
        row = summary(record)[record.labels[0]]
        assert row["final_grad_norm"]["mean"] == pytest.approx(0, abs=1e-9)
        assert row["reported_value"]["mean"] == pytest.approx(f, abs=1e-9)
