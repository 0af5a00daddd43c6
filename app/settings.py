"""The settings of an operator: environment variables `RECOURSE_...`, read once at start and passed down."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.kept import ROOM_MB
from app.remote_hosts import RemoteHost

_ORIGIN = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?")

_ADDRESS = "postgresql://user:password@host:port/name"

SECRETS = "RECOURSE_SECRET_"
"""Prefix of the variables that hold tokens of remote models; manifests name them."""


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
    """Hosts allowed for remote models, separated by spaces; `app.remote_hosts` describes the form."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port to listen on; 0 takes a free one."""
    worker_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """Port on which `recourse worker` answers `/health` and `/metrics`, at `host`; when empty, it listens nowhere."""
    lanes_sync: Annotated[int, Field(ge=1, le=256)] = os.cpu_count() or 1
    """Child processes that compute answers; each holds its own copy of the models in use."""
    child_memory_mb: Annotated[int, Field(ge=0)] = 4096
    """Most address space of a child process, in MiB; 0 for no limit."""
    child_models_mb: Annotated[int, Field(ge=1)] = ROOM_MB
    """Models that a child process keeps, in MiB, roughly; those that are asked about least recently make room."""
    model_load_s: Annotated[int, Field(ge=1, le=3600)] = 60
    """Seconds in which a child process must load a model and ask it once."""
    lanes_bounds: Annotated[int, Field(ge=1, le=256)] = os.cpu_count() or 1
    """Child processes that compute jobs; started with the first job."""
    state_dir: Path = Path("var")
    """Directory for the files of ledger and jobs, unless `database_url` is set."""
    database_url: SecretStr | None = None
    """`postgresql://...` for a ledger and jobs shared by several servers; files in `state_dir` when empty."""
    executor_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] | None = None
    """Name of this process among those that share a database; keep it across restarts, so that it finishes its jobs.
    When empty, the process takes a free slot, and other processes finish its jobs if it ends."""
    run_jobs: bool = True
    """Compute jobs in this process; otherwise they wait for another process on the same database."""
    jobs_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Days after which ended jobs are deleted, with the records in them, counted from their submission."""
    retention_days: Annotated[int, Field(ge=1, le=36_500)] = 761
    """Days after which the ledger erases the personal data of a recourse, but not before the recourse has expired."""
    default_deadline_ms: Annotated[int, Field(ge=1, le=60_000)] = 5_000
    """Deadline of a request that does not set `deadline_ms`."""
    plan_budget_ms: Annotated[int, Field(ge=1, le=60_000)] = 500
    """Time for the joint bounds of a plan while the client waits; if they need longer, a job computes them."""
    valid_days: Annotated[int, Field(ge=1, le=3650)] = 100
    """Validity of an answer, which sets `expires_at`: three months for changes, and days to decide anew."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level that is logged; applicant data is never logged."""
    max_body_bytes: Annotated[int, Field(ge=1024)] = 1_000_000
    """Largest request body."""
    max_connections: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """Connections above which requests are refused; fewer where the process may not open so many files."""
    max_batch_bytes: Annotated[int, Field(ge=1024)] = 64_000_000
    """Largest body of a batch in lines; as one JSON text, at most 5 MB of it."""
    max_bodies_bytes: Annotated[int, Field(ge=1024)] = 256_000_000
    """Most bytes in the bodies of all requests in progress; beyond that they are refused as overloaded."""
    rehearse: Literal["auto", "off"] = "auto"
    """`auto`: a process that computes jobs makes the future models of every active version with a label; `off`: only on
    request."""
    max_batch_rows: Annotated[int, Field(ge=1)] = 100_000
    """Largest number of applicants in a batch."""

    lender_name: str = ""
    """Who sends letters to applicants."""
    lender_address: Annotated[tuple[str, ...], NoDecode] = ()
    """Its postal address, lines separated by semicolons."""
    lender_contact: str = ""
    """Where applicants ask questions and have a person decide: an office, a number, an address."""
    lender_authority: str = ""
    """Name and address of the authority to which applicants complain about decisions, for letters that state it."""
    lender_data_authority: str = ""
    """The same of the authority to which they complain about the use of their data."""
    lender_debt_advice: str = ""
    """Name and address of a service that advises people in debt, for letters that refer to it."""
    lender_bureau: Annotated[tuple[str, ...], NoDecode] = ()
    """Name, address and telephone number of the consumer reporting agency whose reports the lender uses, for letters
    that state it, lines separated by semicolons; `none` where the lender uses no reports."""
    lender_signatory: Annotated[tuple[str, ...], NoDecode] = ()
    """Who signs letters, name and function, lines separated by semicolons; above the lender's name."""
    notice_regime: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,40}$")] = "general"
    """Which letter is written: `general`, `us`, `eu`, `uk`, or one of `notice_dir`."""
    notice_language: Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$")] = "en"
    """Language of letters for which the request states none."""
    notice_offer: bool = False
    """Whether letters state the offer of an answer: other terms with which the model accepts the application."""
    notice_offer_share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """Least share of what the applicant asked for that an offer in a letter has, of each term but those of which less
    is better."""
    notice_dir: Path | None = None
    """Directory with the lender's own letters, which replace those of the service with the same names."""

    @field_validator("lender_address", "lender_bureau", "lender_signatory", mode="before")
    @classmethod
    def _lines(cls, address: object) -> object:
        return [line.strip() for line in address.split(";")] if isinstance(address, str) else address

    @field_validator("remote_hosts", mode="before")
    @classmethod
    def _parsed(cls, hosts: object) -> object:
        return tuple(RemoteHost.parse(one) for one in hosts.split()) if isinstance(hosts, str) else hosts

    auth: Literal["auto", "required", "off"] = "auto"
    """`required`: every caller needs an API key; `auto`: on loopback, only once a key exists; `off`: no key needed."""
    published_on: str | None = None
    """Address at which clients reach the service, if other than `host`: that of a container's published port."""
    rate_limit: Annotated[int, Field(ge=0)] | None = None
    """Requests per minute for each key, or for each address without keys; 0: no limit; when empty, 6000 with keys."""
    model_rows_per_day: Annotated[int, Field(ge=0)] = 200_000_000
    """Records that the models may be asked about for one key in a day (UTC), unless the key has its own number; one
    answer takes about 1,300. 0: no limit."""
    traces_url: str | None = None
    """Address to which traces are sent by OTLP over HTTP, such as `http://collector:4318/v1/traces`; needs
    `recourse-service[traces]`. Unset: none are made."""
    cors_origins: Annotated[tuple[str, ...], NoDecode] = ()
    """Origins whose pages may call the service from a browser, separated by commas; `*` for all."""
    shutdown_s: Annotated[int, Field(ge=0, le=3600)] = 5
    """Seconds that requests in progress may take after a signal to stop."""

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _split(cls, origins: object) -> object:
        return [origin.strip() for origin in origins.split(",")] if isinstance(origins, str) else origins

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                # Browsers send no other form, so another one would never match.
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
        # Imported here, since services with files need not wait for it.
        from sqlalchemy import make_url

        try:
            parts = make_url(url.get_secret_value())
        except ValueError:
            # Not the message of the parser, which may hold the password.
            raise ValueError(f"must be of the form {_ADDRESS}") from None
        if "@" in (parts.host or ""):
            raise ValueError("must have %40 in place of each @ of the user and the password")
        if not parts.database:
            raise ValueError(f"must end with the name of the database: {_ADDRESS}")
        return url


def unknown_settings(names: Iterable[str]) -> list[str]:
    """The names in `names` that begin like a setting but are no setting; most likely they are misspelt."""
    known = {f"RECOURSE_{name.upper()}" for name in Settings.model_fields}
    return sorted(
        name
        for name in names
        if name.upper().startswith("RECOURSE_") and name.upper() not in known and not name.startswith(SECRETS)
    )
