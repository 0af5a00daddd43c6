"""``python -m tests.jobs.worker``: a worker for the jobs of `tests.jobs.kinds`."""

from app.main import work
from app.settings import Settings
from tests.jobs.kinds import KINDS

if __name__ == "__main__":
    work(Settings(), KINDS)
