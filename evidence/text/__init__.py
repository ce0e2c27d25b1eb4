"""How do the optimizers train a small transformer on text? AdamW, SGD, NSGDM, NSTORM and Untuned."""
