"""What was promised about future models against what later versions of a model did."""
