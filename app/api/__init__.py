"""The HTTP edge: validation, status codes and documentation; no decisions."""
