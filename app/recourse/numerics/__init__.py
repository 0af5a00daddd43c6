"""Solvers and linear algebra."""
