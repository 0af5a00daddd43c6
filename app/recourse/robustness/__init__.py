"""How long a counterfactual stays favourable when the model is retrained, or the advice is followed inexactly."""
