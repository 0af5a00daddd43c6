"""The numerics of algorithmic recourse, usable as a library: numpy, scipy and cvxpy, no web, no database, no torch."""
