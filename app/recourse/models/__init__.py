"""Models as the core sees them: one score per point."""
