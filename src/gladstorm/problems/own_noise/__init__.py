"""Problems with noise of their own: sampling makes it, nothing is added to f.

One file per problem, with two classes: the objective, and its oracle, whose name has `Oracle` at the end.
"""
