"""The paper's methods as PyTorch optimizers.

>>> import torch
>>> from gladstorm.torch import NSGDM
>>> model = torch.nn.Linear(3, 1)
>>> optimizer = NSGDM(model.parameters(), lr=0.01, momentum=0.9)
>>> model(torch.ones(4, 3)).sum().backward()
>>> optimizer.step()

`by_layer` gives each layer's tensors a norm that suits them: `NSGDM(by_layer(model), lr=0.02)`.
`NSTORM` evaluates each mini-batch at two points and therefore takes a closure.
`NMARS` and `NIGT` correct each gradient, or take it ahead, at the price of one gradient and a second buffer.
`Untuned` has no number to tune: it finds the length of its steps itself, and keeps an average of the iterates.
`diagnose` measures whether the noise of a model grows, and `NoiseProbe` measures it during a training.
`scale_batch` changes an optimizer for larger batches, so that the training keeps its course, and `AutoBatch` lets them
grow while one trains.
"""

from gladstorm.core.extras import needing_extras

with needing_extras("gladstorm.torch"):
    import torch  # noqa: F401 - PyTorch itself, not this package

from gladstorm.torch.auto_batch import AutoBatch
from gladstorm.torch.diagnosis import diagnose, trial
from gladstorm.torch.layers import by_layer
from gladstorm.torch.noise_probe import NoiseProbe
from gladstorm.torch.nsgdm import NIGT, NMARS, NSGDM
from gladstorm.torch.nstorm import NSTORM
from gladstorm.torch.scale_batch import scale_batch
from gladstorm.torch.untuned import Untuned

__all__ = [
    "NIGT",
    "NMARS",
    "NSGDM",
    "NSTORM",
    "AutoBatch",
    "NoiseProbe",
    "Untuned",
    "by_layer",
    "diagnose",
    "scale_batch",
    "trial",
]
