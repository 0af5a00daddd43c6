"""API keys: who may ask what, and how much of it in a day."""
