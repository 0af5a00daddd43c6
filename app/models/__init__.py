"""The registered models: asked in child processes, listed and described, tried before they are registered."""
