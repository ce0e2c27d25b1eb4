"""Is ε^−(4+α) really the price? Theory's best schedule beside the printed one, and the hard problem, measured."""
