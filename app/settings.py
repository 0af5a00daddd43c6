"""What an operator can set: environment variables `RECOURSE_...`, read once at start and passed down."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.remote_hosts import RemoteHost

_ORIGIN = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?")

SECRETS = "RECOURSE_SECRET_"
"""Begins the names of variables that manifests choose, for the tokens of remote models."""


class Settings(BaseSettings):
    """Settings of one service process."""

    model_config = SettingsConfigDict(
        env_prefix="RECOURSE_",
        use_attribute_docstrings=True,
        frozen=True,
        extra="forbid",
        env_ignore_empty=True,
        hide_input_in_errors=True,
    )

    models_store: Path = Path("models_store")
    """Directory of the registered models, `{id}/{version}/`."""
    trust_pickle: bool = False
    """Load artifacts that can run code (joblib, pickle), provided their digest is the registered one."""
    remote_hosts: Annotated[tuple[RemoteHost, ...], NoDecode] = ()
    """Hosts at which models may live that answer over HTTP, with spaces between; `app.remote_hosts` has the form."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port to listen on; 0 takes a free one."""
    lanes_sync: Annotated[int, Field(ge=1, le=256)] = os.cpu_count() or 1
    """Child processes that compute answers; each holds its own copy of the models in use."""
    lanes_bounds: Annotated[int, Field(ge=1, le=256)] = os.cpu_count() or 1
    """Child processes that compute jobs; started with the first job."""
    state_dir: Path = Path("var")
    """Directory for what the service itself writes: the files of ledger and jobs, unless `database_url` is set."""
    database_url: SecretStr | None = None
    """`postgresql://...` for a ledger and jobs that several servers share; files in `state_dir` when empty."""
    executor_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] | None = None
    """Names this process among those that share a database; the same after a restart, so that it finishes its jobs.
    When empty, it takes a free slot, and other processes finish what it had begun if it ends."""
    run_jobs: bool = True
    """Compute jobs in this process; if not, jobs wait for another one on the same database."""
    jobs_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Jobs that have ended are deleted, with the records in them, so many days after they were asked for."""
    retention_days: Annotated[int, Field(ge=1, le=36_500)] = 761
    """The ledger erases personal data so many days after the recourse was given, but not before that has expired."""
    default_deadline_ms: Annotated[int, Field(ge=1, le=60_000)] = 5_000
    """Time allowed to a request that does not set `deadline_ms`."""
    plan_budget_ms: Annotated[int, Field(ge=1, le=60_000)] = 500
    """Time for the joint bounds of a plan while a client waits; where they need longer, a job computes them."""
    valid_days: Annotated[int, Field(ge=1, le=3650)] = 90
    """How long an answer is said to hold, `expires_at`."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much is logged; applicant data never is."""
    max_body_bytes: Annotated[int, Field(ge=1024)] = 1_000_000
    """Largest request body."""
    max_batch_bytes: Annotated[int, Field(ge=1024)] = 64_000_000
    """Largest body of a batch."""
    max_batch_rows: Annotated[int, Field(ge=1)] = 100_000
    """Most applicants of a batch."""

    @field_validator("remote_hosts", mode="before")
    @classmethod
    def _parsed(cls, hosts: object) -> object:
        return tuple(RemoteHost.parse(one) for one in hosts.split()) if isinstance(hosts, str) else hosts

    auth: Literal["auto", "required", "off"] = "auto"
    """`required`: every caller needs an API key; `auto`: on loopback only once there is one; `off`: nobody does."""
    published_on: str | None = None
    """Address at which others reach the service, where that is not `host`: that of a container's published port."""
    rate_limit: Annotated[int, Field(ge=0)] | None = None
    """Requests per minute of one key, or one address where none is needed; 0 for any number; empty: 6000 with keys."""
    cors_origins: Annotated[tuple[str, ...], NoDecode] = ()
    """Origins, with commas between them, whose pages may ask the service from a browser; `*` for those of all."""
    shutdown_s: Annotated[int, Field(ge=0, le=3600)] = 5
    """Seconds that requests in progress may still take when the service is told to stop."""

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _split(cls, origins: object) -> object:
        return [origin.strip() for origin in origins.split(",")] if isinstance(origins, str) else origins

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                # A browser sends nothing else, so anything else would quietly never match.
                raise ValueError(
                    f'"{origin}" must be of the form https://host or https://host:port in lower case, or *'
                )
        return origins

    @field_validator("database_url")
    @classmethod
    def _is_postgresql(cls, url: SecretStr | None) -> SecretStr | None:
        if url is None:
            return None
        if not url.get_secret_value().startswith("postgresql://"):
            raise ValueError("must begin with postgresql://")
        # Most services have their files instead, and need not wait for this.
        from sqlalchemy import make_url

        try:
            make_url(url.get_secret_value())
        except ValueError:
            # Not what the parser says of it, which may hold the password.
            raise ValueError("must be of the form postgresql://user:password@host:port/name") from None
        return url


def unknown_settings(names: Iterable[str]) -> list[str]:
    """The environment variables among `names` that begin like settings and are none: misspelt ones, most likely."""
    known = {f"RECOURSE_{name.upper()}" for name in Settings.model_fields}
    return sorted(
        name
        for name in names
        if name.upper().startswith("RECOURSE_") and name.upper() not in known and not name.startswith(SECRETS)
    )
