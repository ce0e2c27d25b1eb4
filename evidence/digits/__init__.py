"""Do the optimizers train small networks on digits, with and without added noise? Five of them, in PyTorch and JAX."""
