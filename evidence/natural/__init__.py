"""On a run of streaming least squares, where does the noise grow? Its variance from the start and the solution."""
