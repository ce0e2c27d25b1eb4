"""What a model's layers do to the meaning of its noise, in sentences for a report."""

from __future__ import annotations

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd


def remarks_on(model: torch.nn.Module) -> tuple[str, ...]:
    """A sentence for each kind of layer that matters.

    >>> remarks_on(torch.nn.Sequential(torch.nn.Dropout(0.1)).eval())
    ('Dropout is switched off and not part of the noise; call model.train() before to count it.',)
    """
    remarks = []
    norms = [each for each in model.modules() if isinstance(each, _BatchNorm)]
    drops = [each for each in model.modules() if isinstance(each, _DropoutNd) and each.p > 0]
    if any(each.training for each in norms):
        remarks.append(
            "BatchNorm normalizes every group by itself: f is that of batches of the size of a group. Put these layers "
            "into eval mode to diagnose f with fixed statistics, or compare reports with fewer groups."
        )
    elif norms:
        remarks.append("BatchNorm is in eval mode: f is that with the running statistics, not the one trained on.")
    if any(each.training for each in drops):
        remarks.append("Dropout is part of the noise; call model.eval() before to leave it out.")
    elif drops:
        remarks.append("Dropout is switched off and not part of the noise; call model.train() before to count it.")
    if not (model.training or norms or drops):
        remarks.append("The model is in eval mode; call model.train() before to diagnose the loss that is trained on.")
    return tuple(remarks)


def samples_for(model: torch.nn.Module) -> int:
    """How many samples a group must have: BatchNorm in training mode normalizes two or more.

    >>> samples_for(torch.nn.Sequential(torch.nn.BatchNorm1d(3)))
    2
    """
    return 1 + any(isinstance(each, _BatchNorm) and each.training for each in model.modules())
