"""Validity of counterfactuals when the model is retrained or the advice is implemented inexactly."""
