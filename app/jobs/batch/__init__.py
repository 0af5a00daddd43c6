"""Batches: their lines, chunks and groups."""
