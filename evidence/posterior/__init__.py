"""How wide is the range of learning rates that work in variational inference? Five optimizers in numpyro's SVI."""
