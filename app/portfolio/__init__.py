"""Everybody who was refused: what a new version of a model changes for them, and who is shut out."""
