"""Future models of a registered model: retrained beforehand, kept beside it, and loaded as one committee.

`rehearse` makes them with one of the recipes, `store` keeps them, `stacks` scores all of a set in one call.
"""
