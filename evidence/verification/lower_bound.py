"""The problem on which no method is faster than ε^−(4+α): that it is in its class, and shows no more than it may.

docs/proofs.md leads to the proof. Points that would violate a claim are searched for, and what a method can learn
is measured on one that uses a sample again as soon as that has shown something.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from evidence.verification import adversary
from evidence.verification.cases import Case
from evidence.verification.checks import AtMost, Check, NotAbove, Parts, checked
from evidence.verification.hard_instances import SmoothRunway
from evidence.verification.settings import VerificationSettings
from gladstorm.core.parts import Array
from gladstorm.core.statistics import Mean, mean_of
from gladstorm.problems.hard.zero_chain import progress
from gladstorm.problems.oracles import NoisyRunwayOracle

REGIME: Final = "lower bound"
SEARCHED: Final = {  # three links each; the second chain needs the carrier to be in its class
    "noisy runway, α = 1/4": {"eps": 0.008, "alpha": 0.25, "L0": 1.0, "L1": 130.0, "B": 0.3, "gap": 1.0},
    "noisy runway, α = 1": {"eps": 1e-4, "alpha": 1.0, "L0": 1.0, "L1": 1.6, "B": 0.3, "gap": 1.0},
    "noisy runway, α = 1, a = 1": {"eps": 1e-4, "alpha": 1.0, "L0": 1.0, "L1": 2.3, "B": 7.5, "gap": 1.0}
    | {"growth": 1.0},
}
WALKED: Final = {"eps": 0.0109, "alpha": 1.0, "L0": 1.0, "L1": 1080.0, "B": 0.25, "gap": 1.0}  # 20 links, p = 0.06
CLAIMS: Final = {
    "class": adversary.close_pairs,
    "noise": adversary.variance,
    "gradient": adversary.stationarity,
    "gap": adversary.depth,
}
SMOOTH: Final[dict[str, Any]] = {
    "eps": 0.0018,
    "alpha": 1.0,
    "L0": 1.0,
    "L1": 0.0,
    "B": 1.0,
    "gap": 1.0,
    "dim": 6,
}  # three links
GROWTHS: Final = (1.0, 3.0)  # a of the noise there
MEANING: Final = {
    "hard problem": "The problem of the lower bound is what its proof says. At no point that a search finds does the "
    "class inequality of close pairs, BG-0, ‖∇f‖ ≥ 2ε or the gap use more than all that is allowed. And a method that "
    "uses a sample again whenever it has shown something finds on average at most p links per stochastic gradient. A "
    "search proves nothing; the proof does.",
}


def parts(selected: Sequence[Case], settings: VerificationSettings) -> Parts:
    """The searches and the walk, where cases of NSTORM under BG-0 noise and E L*_sym(α) are selected."""
    if any(case.method == "nstorm" and case.noise == "bg0" and case.smoothness != "smooth" for case in selected):
        yield REGIME, partial(checked, checks, settings)


def checks(settings: VerificationSettings) -> Iterator[Check]:
    """Every claim at the worst point found, and the links that are found per stochastic gradient."""
    for name, constants in SEARCHED.items():
        oracle = settings.hard_problem(**constants)
        for kind, claim in CLAIMS.items():
            largest = Mean(adversary.worst(claim, oracle), 0.0, adversary.CLIMBERS)
            yield Check(REGIME, name, f"hard problem {kind}", 0, largest, AtMost(1.0))
    for growth in GROWTHS:
        oracle = NoisyRunwayOracle(SmoothRunway.from_eps(**SMOOTH, growth=growth))
        for kind, claim in (CLAIMS | {"class": adversary.smoothness}).items():
            largest = Mean(adversary.worst(claim, oracle), 0.0, adversary.CLIMBERS)
            name = f"smooth and rotated runway, a = {growth:g}"
            yield Check(REGIME, name, f"hard problem {kind}", 0, largest, AtMost(1.0))
    oracle = settings.hard_problem(**WALKED)
    evaluations, p = int(oracle.objective.numbers.needed), float(oracle.p)
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(settings.seed), settings.seeds * settings.blocks)
        links = np.asarray(_links_found(oracle, evaluations, keys))
    shown = mean_of(links / (p * evaluations))
    yield Check(
        REGIME, f"noisy runway of {oracle.links} links", "hard problem links", evaluations, shown, NotAbove(1.0)
    )


@partial(jax.jit, static_argnums=1)
def _links_found(oracle: Any, evaluations: int, keys: Array) -> Array:
    """How many links a method has found that stands behind the gate, with every coordinate moved that it was shown.

    It uses a sample again while it shows something new, and otherwise draws another one.
    """
    f, T = oracle.objective, oracle.links

    def place(links: Array) -> Array:
        coordinates = jnp.where(jnp.arange(T) < links, 1.2 * f.scale, 0.0)
        return jnp.concatenate([jnp.reshape(1.1 * f.runway, 1), coordinates])

    points = jax.vmap(lambda links: oracle.at(place(links)))(jnp.arange(T + 1))

    def one(key: Array) -> Array:
        def drawn(key: Array) -> Any:
            return oracle.batch(oracle.draw(key), jnp.ones((), int))

        def evaluate(state: Any, key: Array) -> Any:
            links, sample = state
            answer = oracle.grad(jax.tree.map(lambda each: each[links], points), sample)
            now = jnp.maximum(links, progress(answer[1:]))
            sample = jax.tree.map(lambda old, new: jnp.where(now > links, old, new), sample, drawn(key))
            return (now, sample), None

        first, rest = jax.random.split(key)
        begin = jnp.zeros((), int), drawn(first)
        return jax.lax.scan(evaluate, begin, jax.random.split(rest, evaluations))[0][0]

    return jax.vmap(one)(keys)
