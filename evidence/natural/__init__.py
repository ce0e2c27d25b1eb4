"""Where does the noise of streaming least squares grow? Its variance along a run, from the start and the solution."""
