"""Five optimizers on a character-level transformer, trained on the documentation that ships with Python."""
