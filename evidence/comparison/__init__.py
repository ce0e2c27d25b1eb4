"""At an equal budget, which methods reach a smaller gradient norm than NSTORM? The paper's Table 1 and four more."""
