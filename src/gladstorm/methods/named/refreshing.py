"""Methods that start afresh with a large batch now and then; `large` and `small` are batch sizes or rules."""

from __future__ import annotations

from gladstorm.core import references as cite
from gladstorm.methods.batches import BatchSizes, LargeOnRefresh
from gladstorm.methods.estimators import Page, Spider, Svrg
from gladstorm.methods.method import Method, declared, rule
from gladstorm.methods.schedules import Tunable
from gladstorm.methods.steps import Normalized, Plain, ThreeWayClipped

_LOOPS = "large per q steps, else 2 small"
_COINS = "large with probability p, else 2 small"


@declared(f"{cite.FANG_2018}; {cite.CHEN_2023}", _LOOPS, "O(ε^-3)", "E L*_sym(α), variance not BG-0")
def normalized_spider(gamma: Tunable, q: Tunable, large: BatchSizes, *, small: BatchSizes = 1) -> Method:
    """Normalized SPIDER: x ← x − γ v/‖v‖, v by `Spider`."""
    return Method(Spider(q), Normalized(gamma), _batches(large, small))


@declared(cite.WANG_2019, _LOOPS)
def spiderboost(gamma: Tunable, q: Tunable, large: BatchSizes, *, small: BatchSizes = 1) -> Method:
    """SpiderBoost: x ← x − γ v, v by `Spider`."""
    return Method(Spider(q), Plain(gamma), _batches(large, small))


@declared(cite.REISIZADEH_2025, _LOOPS, "O(ε^-3)", "L*_asym, variance not BG-0")
def clipped_spider(
    gamma: Tunable, c0: Tunable, c1: Tunable, q: Tunable, large: BatchSizes, *, small: BatchSizes = 1
) -> Method:
    """Clipped SPIDER: x ← x − γ min{1, c₀/‖v‖, c₁/‖v‖²} v, v by `Spider`."""
    return Method(Spider(q), ThreeWayClipped(gamma, c0, c1), _batches(large, small))


@declared(cite.LI_2021, _COINS, "O(ε^-3)", "bounded variance, mean-square smooth")
def page(gamma: Tunable, p: Tunable, large: BatchSizes, *, small: BatchSizes = 1) -> Method:
    """PAGE: x ← x − γ v, v by `Page`."""
    return Method(Page(p), Plain(gamma), _batches(large, small))


@declared("composed here", _COINS)
def normalized_page(gamma: Tunable, p: Tunable, large: BatchSizes, *, small: BatchSizes = 1) -> Method:
    """Normalized PAGE: x ← x − γ v/‖v‖, v by `Page`."""
    return Method(Page(p), Normalized(gamma), _batches(large, small))


@declared(f"{cite.JOHNSON_ZHANG_2013}, on a stream", _LOOPS)
def svrg(gamma: Tunable, q: Tunable, large: BatchSizes, *, small: BatchSizes = 1) -> Method:
    """SVRG: x ← x − γ v, v by `Svrg`."""
    return Method(Svrg(q), Plain(gamma), _batches(large, small))


@declared("composed here", _LOOPS)
def normalized_svrg(gamma: Tunable, q: Tunable, large: BatchSizes, *, small: BatchSizes = 1) -> Method:
    """Normalized SVRG: x ← x − γ v/‖v‖, v by `Svrg`."""
    return Method(Svrg(q), Normalized(gamma), _batches(large, small))


def _batches(large: BatchSizes, small: BatchSizes) -> LargeOnRefresh:
    return LargeOnRefresh(rule(large), rule(small))
