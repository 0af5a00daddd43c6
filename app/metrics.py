"""Metrics in the format of Prometheus.

Labels are names of our own (routes, methods, verdicts, lanes, registered models), never text from a client, so that
they are few and hold no personal data.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app import __version__

SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the histograms of requests; the longest deadline is a minute."""

JOB_SECONDS = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)

HTTP_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Others share one label: clients can invent any number."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneState:
    """The numbers of child processes and of waiting calls in a lane, at one moment."""

    busy: int
    idle: int
    warming: int
    waiting: int
    """Calls in the queue."""
    ended: Mapping[str, int]
    """Children that were killed or died since the start, by reason."""


class Metrics:
    """The metrics of one process.

    Parameters
    ----------
    lanes : function that returns the state of each lane, by lane name; called whenever the metrics are read
    quarantined : function that returns the names of the models in quarantine; called whenever the metrics are read
    """

    def __init__(
        self,
        lanes: Callable[[], Mapping[str, LaneState]] = dict,
        quarantined: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self._registry}
        ProcessCollector(**own)
        PlatformCollector(**own)
        self._registry.register(_Lanes(lanes, quarantined))
        Gauge("recourse_build_info", "The release that runs; always 1.", ["version"], **own).labels(__version__).set(1)
        self._requests = Histogram(
            "recourse_http_request_duration_seconds",
            "Requests, from the first byte of their head to the end of the answer.",
            ["method", "route", "status"],
            buckets=SECONDS,
            **own,
        )
        self._answers = Histogram(
            "recourse_answer_duration_seconds",
            "Direct answers of POST /recourse with the time to compute them, by method and verdict.",
            ["method", "verdict"],
            buckets=SECONDS,
            **own,
        )
        self._jobs = Histogram(
            "recourse_job_duration_seconds",
            "Jobs computed by this process, without the time they waited; the outcome is `succeeded` or a code.",
            ["kind", "outcome"],
            buckets=JOB_SECONDS,
            **own,
        )
        self._calls = Counter("recourse_model_calls", "Requests to a model.", ["model"], **own)
        self._rows = Counter("recourse_model_rows", "Records in requests to a model.", ["model"], **own)
        self._unfinished = Gauge("recourse_jobs", "Jobs that have not ended.", ["kind", "state"], **own)
        self._ready = Gauge("recourse_ready", "Whether a part can do its work: 1 or 0.", ["part"], **own)
        self._replayed = Counter("recourse_idempotent_replays", "Idempotent answers that were repeated.", **own)
        self._budgets = Gauge(
            "recourse_key_budget_used", "Share of its daily budget of records that a key has used.", ["key"], **own
        )
        self._broken = Gauge(
            "recourse_broken_promises",
            "Promises, neither expired nor erased, that the newest audit of a version found broken.",
            ["model", "version"],
            **own,
        )

    def request(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a request; `route` is the template of its path, such as ``/jobs/{id}``, or None for an unknown path."""
        known = method if method in HTTP_METHODS else "other"
        self._requests.labels(known, route or "none", status).observe(seconds)

    def answer(self, method: str, found: Mapping[str, Any], seconds: float) -> None:
        """Count an answer of a recourse method that was given directly, not by a job."""
        self._answers.labels(method, found.get("reason") or found["status"]).observe(seconds)

    def job(self, kind: str, outcome: str, seconds: float) -> None:
        """Count a job that was computed."""
        self._jobs.labels(kind, outcome).observe(seconds)

    def asked(self, model: str, found: Any) -> int:
        """Count the model calls that an answer needed, and return the number of records in these calls.

        The answer states both numbers in its `diagnostics`. An answer that is a list with one item per record needed
        one call.
        """
        spent = found.get("diagnostics") if isinstance(found, dict) else None
        calls, rows = (1, len(found)) if isinstance(found, list) else (0, 0)
        if spent and spent["model_calls"] is not None:
            calls, rows = spent["model_calls"], spent["model_rows"]
        if calls:
            self._calls.labels(model).inc(calls)
            self._rows.labels(model).inc(rows)
        return int(rows)

    def budget(self, key: str, used: float) -> None:
        """Set the used share of the daily budget of an API key: 0 if nothing is used, 1 if all of it is."""
        self._budgets.labels(key).set(used)

    def replayed(self) -> None:
        """Count an answer that was sent again for its idempotency key."""
        self._replayed.inc()

    def audited(self, model: str, version: str, broken: int) -> None:
        """Set how many promises were broken according to the newest audit against this version."""
        self._broken.labels(model, version).set(broken)

    def render(self, unfinished: Mapping[tuple[str, str], int], ready: Mapping[str, bool]) -> bytes:
        """All metrics as text in the format of Prometheus.

        Parameters
        ----------
        unfinished : number of jobs that have not ended, by kind and state
        ready : by part of the service, whether it is ready
        """
        self._unfinished.clear()
        for labels, count in unfinished.items():
            self._unfinished.labels(*labels).set(count)
        for part, is_ready in ready.items():
            self._ready.labels(part).set(is_ready)
        return generate_latest(self._registry)


class _Lanes(Collector):
    """Reads the lanes whenever the metrics are read."""

    def __init__(self, read: Callable[[], Mapping[str, LaneState]], quarantined: Callable[[], Iterable[str]]) -> None:
        self._read = read
        self._quarantined = quarantined

    def collect(self) -> Iterable[Metric]:
        children = GaugeMetricFamily("recourse_lane_children", "Child processes.", labels=["lane", "state"])
        waiting = GaugeMetricFamily("recourse_lane_waiting", "Calls that wait for a child.", labels=["lane"])
        ended = CounterMetricFamily(
            "recourse_lane_children_ended",
            "Children that were killed at a time limit or for a cancelled job, or died, and were replaced.",
            labels=["lane", "reason"],
        )
        for lane, state in self._read().items():
            waiting.add_metric([lane], state.waiting)
            for name in ("busy", "idle", "warming"):
                children.add_metric([lane, name], getattr(state, name))
            for reason in ("timeout", "crash", "cancelled"):
                ended.add_metric([lane, reason], state.ended.get(reason, 0))
        held = GaugeMetricFamily("recourse_model_quarantined", "Models in quarantine; always 1.", labels=["model"])
        for name in self._quarantined():
            held.add_metric([name], 1)
        return [children, waiting, ended, held]
