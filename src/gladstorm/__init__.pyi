"""The one list of public names, with the module each comes from: type checkers read it, and so does `__init__.py`."""

from gladstorm import diagnosis as diagnosis
from gladstorm import lightning as lightning
from gladstorm import methods as methods
from gladstorm import numpyro as numpyro
from gladstorm import optax as optax
from gladstorm import pymc as pymc
from gladstorm import theory as theory
from gladstorm import torch as torch
from gladstorm import transformers as transformers
from gladstorm.comparison.compare import compare as compare
from gladstorm.core import rules as rules
from gladstorm.core.parts import Number as Number
from gladstorm.core.parts import leaf as leaf
from gladstorm.core.parts import part as part
from gladstorm.core.parts import static as static
from gladstorm.methods import Method as Method
from gladstorm.methods import averages as averages
from gladstorm.methods import batches as batches
from gladstorm.methods import estimators as estimators
from gladstorm.methods import from_plan as from_plan
from gladstorm.methods import norms as norms
from gladstorm.methods import nsgdm as nsgdm
from gladstorm.methods import nstorm as nstorm
from gladstorm.methods import schedules as schedules
from gladstorm.methods import sgd as sgd
from gladstorm.methods import steps as steps
from gladstorm.methods import storm as storm
from gladstorm.methods import untuned as untuned
from gladstorm.methods.estimators import Estimator as Estimator
from gladstorm.methods.steps import Step as Step
from gladstorm.problems import objectives as objectives
from gladstorm.problems import oracles as oracles
from gladstorm.problems.objectives import Objective as Objective
from gladstorm.problems.oracles import BlumGladyshev as BlumGladyshev
from gladstorm.problems.oracles import Oracle as Oracle
from gladstorm.problems.oracles import finite_sum as finite_sum
from gladstorm.simulation import devices as devices
from gladstorm.simulation.record import Record as Record
from gladstorm.simulation.simulate import Interrupted as Interrupted
from gladstorm.simulation.simulate import run as run
from gladstorm.simulation.simulate import sweep as sweep

__version__: str
__all__: list[str]
