"""``python -m app.cli``: the command line where it is not installed."""

from app.cli import main

main()
