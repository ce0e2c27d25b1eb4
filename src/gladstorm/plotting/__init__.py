"""Figures, and pages to explore: how methods look, what is drawn of a record, a plan or a comparison."""
