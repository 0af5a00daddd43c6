"""Child processes that compute: warm, killed at their limit, replaced, and shared fairly."""
