"""Parameter groups of a model, each tensor in the norm that suits what it does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn

from gladstorm.core.equations import sign_scale

MATRICES = (nn.Linear, nn.modules.conv._ConvNd, nn.modules.rnn.RNNBase, nn.modules.rnn.RNNCellBase)
TABLES = (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase)
GAINS = re.compile("_g$|^original0$")  # what weight normalization makes of a weight, beside its direction
OF_TABLES = re.compile("embedding[.]|[._](emb|pos)|token|table|bias|gamma|scale|gain")  # in class.name, elsewhere


def by_layer(model: nn.Module, rules: Mapping[str, Mapping[str, Any]] | None = None) -> list[dict[str, Any]]:
    """Parameter groups of a model, for `NSGDM` and `NSTORM`: every tensor in a norm that suits what it does.

    Weights of linear, recurrent and attention layers and kernels of convolutions, the output layer too, are "spectral";
    all else (embeddings, positions, biases, gains) takes steps by "sign", those of vectors a quarter as long. One lr
    serves all: 0.02 with a linear decay to 0 is a good start for networks that start as torch initializes them.

    - Tied weights: an embedding that is also the output layer is an embedding.
    - Fused weights, as of `nn.MultiheadAttention` and the gates of `nn.LSTM`, are one matrix: cheaper than three or
      four, and no worse in trials. A rule such as `{"*in_proj_weight": {"stack": 3}}` cuts them.
    - Kernels are output channels × all else. A parameter of three dimensions that is no kernel is a stack of matrices,
      as experts are; one of two is a matrix, unless its name or class speaks of an embedding, a position, a token, a
      table, a bias or a gain.
    - A weight of one row or one column is normalized: its spectral step is exact.
    - Frozen parameters are in the groups, and stay where they are until they get a gradient. Parameters that are not
      floating-point numbers are left out. Factors of LoRA are linear layers as others are.

    Args:
        model: The model; call `fully_shard` first.
        rules: Options by pattern of the parameter's name, such as `{"head.*": {"norm": "sign"}}`; the first that fits
            counts. A rule may set any option of a group: norm, scale, stack, lr, weight_decay, momentum.

    Returns:
        Groups with `norm`, `scale` and `stack`, and the names of the parameters, which `print(optimizer)` shows.

    >>> model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 8), nn.Linear(8, 10))
    >>> for group in by_layer(model, {"2.weight": {"scale": 0.5}}):
    ...     print([name for name, _ in group["params"]], group["norm"], group["scale"])
    ['0.weight'] sign 1.0
    ['1.weight'] spectral 1.0
    ['1.bias', '2.bias'] sign 0.25
    ['2.weight'] spectral 0.5
    """
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"by_layer: model must be a torch.nn.Module, not its parameters; got a {type(model).__name__}."
        )
    groups: list[dict[str, Any]] = []
    unused = dict(rules or {})
    for name, p, stack in parameters_of(model):
        pattern = next((pattern for pattern in rules or () if fnmatchcase(name, pattern)), "")
        rule = (rules or {}).get(pattern, {})
        unused.pop(pattern, None)
        norm = rule.get("norm", "spectral" if stack else "sign")
        options = {
            "norm": norm,
            "scale": sign_scale(p.shape) if norm == "sign" else 1.0,
            "stack": max(stack, 1),
            **rule,
        }
        for group in groups:
            if {key: value for key, value in group.items() if key != "params"} == options:
                group["params"].append((name, p))
                break
        else:
            groups.append({"params": [(name, p)], **options})
    if unused:
        raise ValueError(f"by_layer: every rule must fit a parameter's name; got {', '.join(unused)}, which fit none.")
    return groups


def parameters_of(model: nn.Module) -> Iterator[tuple[str, Tensor, int]]:
    """Each parameter with its first name and the number of its matrices: 0 if it is none."""
    uses: dict[Tensor, list[int]] = {}
    for path, module in model.named_modules():
        owner = model.get_submodule(re.split(r"(?:^|[.])parametrizations[.]", path)[0])
        for name, p in module.named_parameters(recurse=False):
            uses.setdefault(p, []).append(number_of_matrices(owner, name, p))
    for name, p in model.named_parameters():
        if p.is_floating_point() or p.is_complex():
            yield name, p, min(uses[p])


def number_of_matrices(module: nn.Module, name: str, p: Tensor) -> int:
    """How many matrices a parameter of a module is: 0 for a table, a vector, a gain, or where entries are complex."""
    if p.dim() < 2 or p.is_complex() or not p.numel() or isinstance(module, TABLES) or GAINS.search(name):
        return 0
    if isinstance(module, MATRICES):
        return 1
    if OF_TABLES.search(f"{type(module).__name__}.{name}".lower()) or sum(side > 1 for side in p.shape) < 2:
        return 0
    return len(p) if p.dim() == 3 else 1
