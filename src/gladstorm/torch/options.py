"""Rules of the torch optimizers' options, and what a constructor refuses or warns of."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any, TypedDict

import torch
from torch import Tensor

from gladstorm.core.rules import NEVER_ZERO, NON_NEGATIVE, Rule
from gladstorm.torch.norms import norm_of

NON_NEGATIVE_NUMBER = Rule("one number, finite and ≥ 0", lambda v: v.ndim == 0 and NON_NEGATIVE.holds(v))
MOMENTUM = Rule("one number in [0, 1)", lambda v: v.ndim == 0 and (v >= 0) & (v < 1))
POSITIVE_NUMBER = Rule("one number, finite and > 0", lambda v: v.ndim == 0 and NEVER_ZERO.holds(v))
FAST_DECAY = 0.01  # of the parameters in one step: they halve in 70


class NormalizedOptions(TypedDict, total=False):
    """Options that NSGDM and its relatives take by name, as `NSGDM` describes them."""

    weight_decay: float
    norm: str
    scale: float
    stack: int
    maximize: bool
    skip_nonfinite: bool | None


def check_number(owner: str, key: str, rule: Rule, value: float | Tensor) -> None:
    """Raise a ValueError unless the rule holds, for a number or a tensor of one entry."""
    entries = value if not isinstance(value, Tensor) else value.item() if value.numel() == 1 else value.tolist()
    rule.require(owner, key, entries)


def refuse_flattened(owner: str, params: Iterable[Tensor]) -> None:
    """Raise a ValueError for FSDP1's tensors, which are a process's part of the parameters and do not say which."""
    if any(getattr(p, "_fsdp_flattened", False) for p in params) and processes() > 1:
        raise ValueError(
            f"{owner}: parameters must be whole or say what part of them is here; got FSDP1's, whose norm would be "
            "that of a part. Use FSDP2, torch.distributed.fsdp.fully_shard."
        )


def processes() -> int:
    """Number of processes that train together."""
    distributed = torch.distributed
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def refuse_other_optimizer(owner: str, groups: list[dict[str, Any]], required: Iterable[str]) -> None:
    """Raise a ValueError for saved groups without an option that all of this optimizer's have."""
    if lacking := [key for key in required if any(key not in group for group in groups)]:
        raise ValueError(
            f"{owner}: state_dict must be one of {owner}'s; got another optimizer's, with no {lacking[0]} in its "
            f"groups. Load the model's parameters only and begin with a new {owner}."
        )


def warn_of_fast_decay(owner: str, groups: Iterable[dict[str, Any]]) -> None:
    """Warn where a habit from AdamW, whose lr is hundreds of times smaller, would empty the parameters."""
    part = max((float(group["lr"]) * float(group["weight_decay"]) for group in groups), default=0.0)
    if part > FAST_DECAY:
        warnings.warn(
            f"{owner}: lr · weight_decay = {part:.3g} is the part of the parameters that every step takes away; lr is "
            "the length of a step here, so a weight_decay that is usual for AdamW is too much.",
            stacklevel=3,
        )


def warn_of_swallowed_steps(owner: str, moves: Iterable[tuple[Tensor, float]]) -> None:
    """Warn of parameters that a step moves so little, entry by entry, that rounding leaves them where they are."""
    if swallowed := [p for p, movement in moves if rounding_swallows(movement, p.detach())]:
        kinds = ", ".join(sorted({str(p.dtype) for p in swallowed}))
        warnings.warn(
            f"{owner}: a step moves typical entries of {len(swallowed)} parameter tensor(s) of {kinds} by less than "
            "half an ulp, and rounding swallows it; keep parameters in float32 (autocast computes in half precision) "
            "or raise lr.",
            stacklevel=3,
        )


def rounding_swallows(movement: float, p: Tensor) -> bool:
    """Whether a movement is below half the distance from a typical entry of p to the next number of its type.

    >>> x = torch.tensor([1.5, 1.5])
    >>> rounding_swallows(0.003, x), rounding_swallows(0.003, x.bfloat16())
    (False, True)
    """
    if p.is_meta or movement == 0:
        return False
    size = norm_of([p.to(estimate_dtype(p))]).item() / math.sqrt(p.numel())
    binade = math.floor(math.log2(size * (1 + 1e-6))) if 0 < size < math.inf else math.inf  # a norm is good to 1e-6
    return binade < math.inf and movement < torch.finfo(p.dtype).eps * 2.0**binade / 2


def estimate_dtype(p: Tensor) -> torch.dtype:
    """The parameter's type, float32 at least.

    >>> estimate_dtype(torch.zeros(1, dtype=torch.bfloat16))
    torch.float32
    """
    return torch.promote_types(p.dtype, torch.float32)
