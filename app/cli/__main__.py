"""``python -m app.cli``: the command line without installation."""

from app.cli import main

main()
