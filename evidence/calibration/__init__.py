"""How often is the diagnosis right? Intervals on problems whose constants are known, and six trainings of networks."""
