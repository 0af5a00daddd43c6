"""Local linear models of the black box, fitted to samples around its decision boundary."""
