"""NUTS as the reference for cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpyro.infer import MCMC, NUTS

from evidence.posteriors.problems import made

WARM_UP, DRAWS = 300, 300


def nuts(name: str, database: Path | None, seed: int) -> dict[str, Any]:
    """The gradients that one chain of NUTS takes, warm-up included, and the errors of its draws."""
    with jax.enable_x64(True):
        problem = made(name, database)
        chain = MCMC(NUTS(problem.model), num_warmup=WARM_UP, num_samples=DRAWS, progress_bar=False)
        chain.warmup(jax.random.key(seed), problem.data, extra_fields=("num_steps",), collect_warmup=True)
        warm = int(chain.get_extra_fields()["num_steps"].sum())
        chain.run(jax.random.key(seed + 1), problem.data, extra_fields=("num_steps",))
        draws = {site: np.asarray(value) for site, value in chain.get_samples().items()}
        return {
            "gradients": warm + int(chain.get_extra_fields()["num_steps"].sum()),
            "errors": problem.errors(draws),
        }
