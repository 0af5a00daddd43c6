"""Liveness and readiness."""

from typing import Literal

from app.api.described import Described


class Live(Described):
    """The process answers."""

    status: Literal["live"]
    """Always `live`: the process answers."""


class Ready(Described):
    """Requests can be answered."""

    status: Literal["ready", "degraded"]
    """`degraded`: a model is in quarantine, named in `warnings`; all others are answered."""
    models: int
    """Active models."""
    workers: int
    """Child processes that are ready."""
    loading: list[str]
    """Models that some child process is loading now; requests for the others do not wait for that."""
    warnings: list[str]
    """Active models that cannot be used, and why; that no model is active; that the clock is doubted."""
