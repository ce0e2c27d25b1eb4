"""Five optimizers on scikit-learn's digits, in PyTorch and in JAX, with gradient noise that grows and without."""
