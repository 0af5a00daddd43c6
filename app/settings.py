"""What an operator can set: environment variables `RECOURSE_...`, read once at start and passed down."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Settings of one service process."""

    model_config = SettingsConfigDict(
        env_prefix="RECOURSE_", use_attribute_docstrings=True, frozen=True, extra="forbid", env_ignore_empty=True
    )

    models_store: Path = Path("models_store")
    """Directory of the registered models, `{id}/{version}/`."""
    trust_pickle: bool = False
    """Load artifacts that can run code (joblib, pickle), provided their digest is the registered one."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port to listen on; 0 takes a free one."""
    lanes_sync: Annotated[int, Field(ge=1, le=256)] = os.cpu_count() or 1
    """Child processes that compute answers; each holds its own copy of the models in use."""
    lanes_bounds: Annotated[int, Field(ge=1, le=256)] = os.cpu_count() or 1
    """Child processes that compute jobs; started with the first job."""
    state_dir: Path = Path("var")
    """Directory for what the service itself writes: the file of the jobs, unless `database_url` is set."""
    database_url: SecretStr | None = None
    """`postgresql://...` for jobs that several servers share; a SQLite file in `state_dir` when empty."""
    executor_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = "local"
    """Names this process among those that share a database; the same after a restart, so that it finishes its jobs."""
    run_jobs: bool = True
    """Compute jobs in this process; if not, jobs wait for another one on the same database."""
    jobs_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Jobs that have ended are deleted, with the records in them, so many days after they were asked for."""
    default_deadline_ms: Annotated[int, Field(ge=1, le=60_000)] = 5_000
    """Time allowed to a request that does not set `deadline_ms`."""
    plan_budget_ms: Annotated[int, Field(ge=1, le=60_000)] = 500
    """Time for the joint bounds of a plan while a client waits; where they need longer, a job computes them."""
    valid_days: Annotated[int, Field(ge=1, le=3650)] = 90
    """How long an answer is said to hold, `expires_at`."""
    max_body_bytes: Annotated[int, Field(ge=1024)] = 1_000_000
    """Largest request body."""

    @field_validator("database_url")
    @classmethod
    def _is_postgresql(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not url.get_secret_value().startswith("postgresql://"):
            raise ValueError("must begin with postgresql://")
        return url
