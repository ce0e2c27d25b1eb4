"""Many runs at once: the plan of how they lie on devices, the compiled program, the record."""
