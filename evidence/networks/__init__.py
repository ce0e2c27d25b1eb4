"""Should every layer have a norm of its own? NSGDM by layer against AdamW, Muon and methods that need no tuning."""
