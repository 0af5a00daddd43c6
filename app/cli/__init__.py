"""The command line, `recourse`; `recourse --help` lists its commands."""
