"""Problems to minimise: objectives, and the oracles that give their stochastic gradients."""
