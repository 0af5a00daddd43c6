"""Several counterfactuals judged together."""
