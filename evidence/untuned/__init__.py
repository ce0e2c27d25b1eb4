"""How well does a method with nothing to tune do? `steered_landing` against the best tuned of five families."""
