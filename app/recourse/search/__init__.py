"""The cheapest action that a surrogate accepts."""
