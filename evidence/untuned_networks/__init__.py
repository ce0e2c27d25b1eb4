"""Can one line train a network with nothing to tune? `Untuned` by layer against tuned and untuned optimizers."""
