"""The public path of `TwoPointModule`: a LightningModule that evaluates at two points."""

from gladstorm.integrations.lightning import TwoPointModule as TwoPointModule
