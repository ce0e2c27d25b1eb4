"""A paper in JOSS form and a technical report: `make paper` sets both, with every number read from results."""
