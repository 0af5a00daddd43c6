"""Computation outside the server process: lanes of warm child processes that can be killed."""
