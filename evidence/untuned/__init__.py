"""How well does a method with nothing to tune do? `untuned` against the best tuned of six families."""
