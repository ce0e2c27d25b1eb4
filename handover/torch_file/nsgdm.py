# SPDX-License-Identifier: Apache-2.0
"""NSGDM by layer, normalized SGD with momentum in the norm of each layer, as one file to copy.

    optimizer = NSGDM(by_layer(model), lr=0.02)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)

A step averages the gradients, and then goes a given length along the average, whatever its size:

    v ← momentum·v + (1 − momentum)·g,   v⁰ = g⁰
    x ← (1 − lr·weight_decay)·x − lr·scale·d(v)

d(v) is the unit step in a norm that suits the layer. Of matrices it is √max{1, m/n}·UVᵀ with v = UΣVᵀ, which makes all
singular values equal, as in Muon; of all else it is the sign of each entry. So one lr serves all layers, and one number
per parameter is all the state. It is the `gladstorm.torch.NSGDM` of the package Gladstorm, step for step.
"""

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

# The odd polynomial aσ + bσ³ + cσ⁵ of Muon (Jordan et al. 2024). Five times, it brings every singular value above 1/500
# of the Frobenius norm to between 0.68 and 1.21.
NEWTON_SCHULZ, TIMES = (3.4445, -4.7750, 2.0315), 5

MATRICES = (nn.Linear, nn.modules.conv._ConvNd, nn.modules.rnn.RNNBase, nn.modules.rnn.RNNCellBase)
TABLES = (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase)
GAINS = re.compile("_g$|^original0$")  # what weight normalization makes of a weight, beside its direction
NAMES_OF_TABLES = re.compile("embedding[.]|[._](emb|pos)|token|table|bias|gamma|scale|gain")  # in class.name


class NSGDM(torch.optim.Optimizer):
    """Normalized SGD with momentum, in the norm that each group names.

    Args:
        params: Groups with a `norm`, as `by_layer(model)` returns them.
        lr: The length of a step, a number or a tensor. Try 0.01, 0.02 and 0.04, with a linear decay to 0.
        momentum: The weight of the old average, in [0, 1).
        weight_decay: λ ≥ 0, decoupled, as in AdamW.
        maximize: Whether to follow the gradient instead of its negative.

    A group may have options of its own, and these:

        norm: "spectral" for matrices, or "sign".
        scale: The length of this group's steps is lr·scale.
        stack: How many matrices of equal size lie along the first dimension, as experts do.
    """

    def __init__(
        self,
        params: Iterable[dict[str, Any]],
        lr: float | Tensor = 0.02,
        momentum: float = 0.9,
        *,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        if not 0 <= lr < math.inf:
            raise ValueError(f"NSGDM: lr must be finite and ≥ 0; got {lr}.")
        if not 0 <= momentum < 1:
            raise ValueError(f"NSGDM: momentum must be in [0, 1); got {momentum}.")
        if not 0 <= weight_decay < math.inf:
            raise ValueError(f"NSGDM: weight_decay must be finite and ≥ 0; got {weight_decay}.")
        numbers = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "scale": 1.0, "stack": 1}
        super().__init__(params, {**numbers, "norm": None, "maximize": maximize})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, whose norm must suit its parameters."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        if group["norm"] not in ("spectral", "sign"):
            raise ValueError(f"NSGDM: norm must be spectral or sign; got {group['norm']!r}. Use by_layer(model).")
        for p in group["params"]:
            if p.is_complex() or hasattr(p, "device_mesh") or hasattr(p, "_fsdp_flattened"):
                raise ValueError("NSGDM: parameters must be real and whole; got complex ones or the parts of FSDP.")
            if group["norm"] == "spectral" and (p.dim() < 2 or not p.numel() or len(p) % group["stack"]):
                raise ValueError(f"NSGDM: spectral steps are of (stacks of) matrices; got the shape {tuple(p.shape)}.")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state, and keep averages in float32 at least, which torch would round to the parameters' type."""
        super().load_state_dict(state_dict)
        saved = [key for group in state_dict["param_groups"] for key in group["params"]]
        for key, p in zip(saved, (p for group in self.param_groups for p in group["params"]), strict=True):
            if key in state_dict["state"]:
                average = state_dict["state"][key]["momentum_buffer"]
                self.state[p]["momentum_buffer"] = average.to(p.device, at_least_float32(p), copy=True)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Make one step.

        Args:
            closure: Evaluates the loss, calls `backward` and returns the loss.

        Returns:
            The closure's loss, before the step.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            length = group["lr"] * (-group["scale"] if group["maximize"] else group["scale"])
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p.grad.is_sparse:
                    raise ValueError("NSGDM: gradients must be dense; give the embedding sparse=False.")
                v = self._average(p, p.grad, group["momentum"])
                unit = spectral(v, group["stack"]) if group["norm"] == "spectral" else sign(v)
                if group["weight_decay"]:
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(unit.mul_(length))
        return loss

    def _average(self, p: Tensor, gradient: Tensor, momentum: float) -> Tensor:
        """v ← momentum·v + (1 − momentum)·g, and v⁰ = g⁰."""
        gradient, state = gradient.to(at_least_float32(p)), self.state[p]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = gradient.clone()
        average: Tensor = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
        return average


def at_least_float32(p: Tensor) -> torch.dtype:
    """The parameter's type, but float32 for half precision, which would round an average's small changes away."""
    return torch.promote_types(p.dtype, torch.float32)


def sign(v: Tensor) -> Tensor:
    """±1 for each entry, 0 where it is 0, and NaN where it is NaN, of which torch.sign makes 0."""
    return v / v.abs().masked_fill_(v == 0, 1)


def spectral(v: Tensor, stack: int) -> Tensor:
    """√max{1, m/n}·UVᵀ, nearly, of each m × n matrix v = UΣVᵀ; a kernel's rows are its output channels."""
    x = v.reshape(stack, -1, v.shape[-1]) if stack > 1 else v.flatten(1)
    *_, m, n = x.shape
    x = x.mT if m > n else x  # the shorter side makes the smaller products
    x = x if x.is_cpu or x.dtype is torch.float64 else x.bfloat16()
    for power in (math.inf, 2):  # by the largest entry first: squares of tiny entries would be 0
        size = torch.linalg.vector_norm(x, power, dim=(-2, -1), keepdim=True)
        x = x / size.masked_fill(size == 0, 1)
    a, b, c = NEWTON_SCHULZ
    for _ in range(TIMES if min(m, n) > 1 else 0):  # one row or column is as it should be
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    unit = (x.mT if m > n else x).reshape(v.shape).to(v.dtype, copy=True)
    return unit.mul_(math.sqrt(max(1, m / n)))


def by_layer(model: nn.Module) -> list[dict[str, Any]]:
    """Parameter groups of a model, every tensor in a norm that suits what it does.

    Weights of linear, recurrent and attention layers and kernels of convolutions are matrices. Embeddings, also one
    that is the output layer too, positions, biases and gains take steps by signs, those of vectors a quarter as long.
    Of other parameters, those of two dimensions are matrices and those of three are stacks of them, unless their names
    speak of one of these.
    """
    uses: dict[Tensor, list[int]] = {}
    for path, module in model.named_modules():
        owner = model.get_submodule(re.split(r"(?:^|[.])parametrizations[.]", path)[0])
        for name, p in module.named_parameters(recurse=False):
            uses.setdefault(p, []).append(number_of_matrices(owner, name, p))
    groups: dict[tuple[str, float, int], dict[str, Any]] = {}
    for name, p in model.named_parameters():
        if not (p.is_floating_point() or p.is_complex()):
            continue
        matrices = min(uses[p])
        scale = 1.0 if matrices or sum(side > 1 for side in p.shape) > 1 else 0.25
        norm, stack = "spectral" if matrices else "sign", max(matrices, 1)
        group = groups.setdefault((norm, scale, stack), {"params": [], "norm": norm, "scale": scale, "stack": stack})
        group["params"].append((name, p))
    return list(groups.values())


def number_of_matrices(module: nn.Module, name: str, p: Tensor) -> int:
    """How many matrices a parameter of a module is; 0 if it is a table, a vector or a gain."""
    if p.dim() < 2 or not p.numel() or isinstance(module, TABLES) or GAINS.search(name):
        return 0
    if isinstance(module, MATRICES):
        return 1
    named = f"{type(module).__name__}.{name}".lower()
    if NAMES_OF_TABLES.search(named) or sum(side > 1 for side in p.shape) < 2:
        return 0
    return len(p) if p.dim() == 3 else 1
