"""Local linear stand-ins for the black box, fitted to samples around its decision boundary."""
