"""The rows of the suite: methods by text, each with a constant step size and with a linear decay."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.core.parts import Array
from gladstorm.methods import Method, with_decay
from gladstorm.methods.method import settings_of
from gladstorm.methods.text import parse_method
from gladstorm.problems.oracles import Oracle

# What users use. {size}: the size of a stochastic gradient at x⁰, which users read off their first steps. Clipping at
# it is SGD, for gradients shrink on the way; a tenth of it is about their size near a solution, and cuts at once.
BASELINES = {
    "SGD": "sgd",
    "clipped SGD": "clipped_sgd(c={size/10})",
    "Adam": "adam",
    "NSGDM": "nsgdm(eta=0.1)",
    "NSTORM": "nstorm(eta=0.1)",
    "DoG, averaged": "dog(gamma=1)",
}
SIZE = re.compile(r"\{size(?:/(\d+))?\}")  # {size}, or a part of it as {size/10}
LINEAR = ", linear"  # after the name of a method: its step size decays linearly to 0
SAMPLES = 101  # stochastic gradients that {size} is the median of


class Entry(NamedTuple):
    """A row: a method's name, its text, and the power of its decay; None where it stays as it was given."""

    name: str
    text: str
    power: float | None


def entries(baselines: Mapping[str, str], given: Iterable[str] = ()) -> dict[str, Entry]:
    """The rows: two of each baseline and of each given method that is tuned, one of a given method that has its γ.

    >>> list(entries({"SGD": "sgd", "DoG": "dog(gamma=1)"}, ["nigt(gamma=1,eta=0.1)"]))
    ['SGD', 'SGD, linear', 'DoG', 'DoG, linear', 'nigt(gamma=1,eta=0.1)']
    """
    rows: dict[str, Entry] = {}
    for name, text in [*baselines.items(), *((text, text) for text in given)]:
        if name in rows:
            raise ValueError(f"suite: every method must be given once; got {name!r} twice.")
        fixed = settings_of(parse_method(_sized(text, 1.0), {"gamma": [1.0, 2.0]})) == 1
        if fixed and name not in baselines:
            rows[name] = Entry(name, text, None)
        else:
            rows |= {name: Entry(name, text, 0.0), name + LINEAR: Entry(name, text, 1.0)}
    return rows


def made(rows: Iterable[Entry], step_sizes: Sequence[float], size: float) -> list[Method]:
    """The method of each row; those that leave γ out get all of the step sizes.

    A constant step size is a decay of power 0: both rows of a method run in one program.
    """
    methods = []
    for row in rows:
        method = parse_method(_sized(row.text, size), {"gamma": list(step_sizes)})
        methods.append(method if row.power is None else with_decay(method, row.power))
    return methods


def _sized(text: str, size: float) -> str:
    """The text with numbers in place of {size} and of its parts.

    >>> _sized("clipped_sgd(c={size/10})", 7.0)
    'clipped_sgd(c=0.7)'
    """
    return SIZE.sub(lambda found: f"{size / int(found[1] or 1):.3g}", text)


def gradient_size(oracle: Oracle, seed: int) -> float:
    """The median of ‖∇f(x⁰; ξ)‖ over some samples."""
    with jax.enable_x64(True):
        point = oracle.at(jnp.asarray(oracle.objective.start, float))
        keys = jax.random.split(jax.random.key(seed, impl="threefry2x32"), SAMPLES)

        def norm(key: Array) -> Array:
            sample = oracle.drawn_at(point, oracle.batch(oracle.draw(key), jnp.ones((), int)))
            length: Array = jnp.linalg.norm(oracle.grad(point, sample))
            return length

        return float(np.median(jax.vmap(norm)(keys)))
