"""``python -m app.cli``: the command line without installation."""

from app.cli.commands import main

main()
