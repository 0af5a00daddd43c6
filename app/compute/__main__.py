"""A child process of a lane: ``python -m app.compute FD PARENT NICE``. Started by `app.compute.lane` only."""

import sys

from app.compute.child import serve

if __name__ == "__main__":
    serve(*map(int, sys.argv[1:]))
