"""Hard instances: problems on which every method is slow, and the oracles that make them so. docs/optimal.md."""
