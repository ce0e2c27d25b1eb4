"""`make bench`: what the simulator costs, as ratios to what a user would otherwise write, measured side by side."""
