"""``python -m tests.jobs.worker``: a worker for the jobs of `tests.jobs.kinds`."""


def main() -> None:
    # Imported here: `multiprocessing` imports this module in every child of the worker.
    from app.main import work
    from app.settings import Settings
    from tests.jobs.kinds import KINDS

    work(Settings(), KINDS)


if __name__ == "__main__":
    main()
