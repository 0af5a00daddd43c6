"""``python -m tests.jobs.server``: the service with the jobs of `tests.jobs.kinds`, and an address that starts them."""

from typing import Any


def main() -> None:
    # Imported here: `multiprocessing` imports this module in every child of the server.
    from starlette.responses import JSONResponse

    from app.api.job_responses import described
    from app.main import begin, create_app, run
    from app.settings import Settings
    from tests.jobs.kinds import KINDS

    settings = Settings()
    begin(settings)
    app = create_app(settings, KINDS)

    @app.post("/test/{kind}")
    async def submit(kind: str, body: dict[str, Any]) -> JSONResponse:
        """Start a job of any kind."""
        job = await app.state.service.jobs.submit(kind, body["payload"], timeout_s=body["timeout_s"])
        return JSONResponse(described(job), 202)

    run(app, settings)


if __name__ == "__main__":
    main()
