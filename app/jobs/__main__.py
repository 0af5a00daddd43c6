"""A child process of a lane: ``python -m app.jobs FD PARENT NICE``. Started by `app.jobs.pool`, not by people."""

import sys

from app.jobs.child import serve

if __name__ == "__main__":
    serve(*map(int, sys.argv[1:]))
