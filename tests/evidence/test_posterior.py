"""The posterior example measures what its page says, and the page says what its results are."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from evidence.posterior import findings

ROOT = Path(__file__).parents[2]
KEPT = json.loads((ROOT / "docs/evidence/posterior/results.json").read_text("utf-8"))


def test_a_rate_arrives_if_every_seed_does_and_a_run_diverges_if_it_ends_further_away_than_it_started() -> None:
    gaps = [[0.5, 1.5], [0.2, 0.4], [None, 30.0], [11.0, 0.1]]
    results = {
        "settings": {"rates": [0.1, 1.0, 10.0, 100.0]},
        "start": {"guide": [10.0, 20.0]},
        "gaps": {"guide": {"SGD": {"constant": gaps}}},
    }
    found = findings.found(results, "guide", "SGD", "constant")
    assert (found.arrived, found.diverged, found.span) == ([1.0], [0, 0, 2, 1], "1")
    assert found.medians == [1.5, 0.4, float("inf"), 11.0]
    assert found.best == (0.4, 1.0)


def _loss(elbo: Any, params: Any, model: Any, guide: Any, x: Any, benign: Any, key: Any) -> Any:
    return elbo.loss(key, params, model, guide, x, benign)


def test_the_elbo_is_that_of_numpyro_and_its_best_is_a_maximum() -> None:
    problem = pytest.importorskip("evidence.posterior.problem")
    from numpyro.handlers import seed, trace
    from numpyro.infer import Trace_ELBO

    x, benign = problem.patients()
    draws, exact_of = 500, {}
    for name, family in problem.GUIDES.items():
        guide = family.make(problem.model)
        with jax.enable_x64(True):
            sites = trace(seed(guide, 0)).get_trace(x, benign)
            params = {site: each["value"] for site, each in sites.items() if each["type"] == "param"}
            keys = jax.random.split(jax.random.key(0), draws)
            loss = partial(_loss, Trace_ELBO(), params, problem.model, guide, x, benign)
            losses = np.asarray(jax.jit(jax.vmap(loss))(keys))
            exact = exact_of[name] = float(problem.elbo(params[family.loc], family.cholesky(params)))
        assert abs(exact + losses.mean()) < 5 * losses.std() / draws**0.5
        assert losses.std() < 100  # or the line above says little
    assert exact_of["AutoNormal"] < problem.best("AutoNormal") < 0


def test_every_optimizer_takes_the_same_number_of_gradients_and_an_end_is_better_than_its_start(
    monkeypatch: pytest.MonkeyPatch, evidence: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    study = pytest.importorskip("evidence.posterior.study")
    assert {name: each.gradients for name, each in study.OPTIMIZERS.items() if each.gradients != 1} == {"NSTORM": 2}
    monkeypatch.setattr(study, "GUIDES", {"AutoNormal": study.GUIDES["AutoNormal"]})
    monkeypatch.setattr(study, "OPTIMIZERS", {name: study.OPTIMIZERS[name] for name in ("NSGDM", "NSTORM")})
    monkeypatch.setattr(study, "QUICK", study.Size(gradients=20, rates=(0.01,), seeds=2))
    assert evidence("posterior", "--quick", "--out", str(tmp_path))[0] == 0
    results = json.loads((tmp_path / "results.json").read_text("utf-8"))
    moved = {
        name: {schedule: np.array(results["start"]["AutoNormal"]) - gaps[0] for schedule, gaps in each.items()}
        for name, each in results["gaps"]["AutoNormal"].items()
    }
    for each in moved.values():
        assert (each["constant"] > each["linear decay to 0"]).all()  # so early the longer path is the better one
    assert (moved["NSGDM"]["constant"] > 1.5 * moved["NSTORM"]["constant"]).all()  # 20 steps and 10
    assert (moved["NSTORM"]["linear decay to 0"] > 0).all()
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert (tmp_path / "index.md").exists()
