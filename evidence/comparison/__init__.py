"""Which methods reach a smaller gradient norm than NSTORM at an equal budget? The paper's Table 1 and four more."""
