"""Questions asked of the simulator: declared, run, remembered, judged."""
