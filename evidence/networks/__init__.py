"""Which norm should a step have on networks? NSGDM by layer against AdamW, Muon and methods that need no tuning."""
