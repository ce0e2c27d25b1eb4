"""Methods at equal cost: budgets, tuning, scores and intervals."""
