"""A model that answers over HTTP: KServe, Triton or MLServer by the Open Inference Protocol v2, or MLflow.

There is no file, and the model behind an address can be replaced without notice. So every request includes `PINS`
reference records, spread over their scores at registration; if one of them is scored differently, the whole answer is
refused and the model unusable. Guarantee: each number in an answer comes from a response that agreed with the
registered model on these records. A model that differs only elsewhere is not detected.

Records are sent in batches of `max_batch`, one request after another over one connection. `wire` restricts addresses.
"""

import math
import os
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from app.errors import DeadlineExceeded, Fault, ModelOutputInvalid, ModelUnavailable, ModelUnusable
from app.recourse.features import FeatureSpace
from app.recourse.models.black_box import BlackBox, input_of_rows
from app.registry.adapters.artifact import black_box_of, refused
from app.registry.adapters.protocols import Dialect, dialect
from app.registry.adapters.wire import Answer, OutOfTime, TooLarge, Wire
from app.registry.artifact import PINS, Endpoint, Protocol
from app.registry.manifest import Manifest
from app.registry.scores import scores_match
from app.registry.trust import Trust
from app.remote_hosts import RemoteHost, covering

BODY_BYTES, ROW_BYTES = 100_000, 500
"""Largest response: a constant, and a part for each record with several outputs."""

REFUSES_RECORDS = frozenset({400, 422, 500})
"""Statuses that blame the records; other requests may succeed."""


def load(manifest: Manifest, directory: Path, space: FeatureSpace, trust: Trust) -> BlackBox:  # noqa: ARG001
    """The black box of a remote model, which is not called yet.

    Raises `ModelRefused` where its host is not allowed; `ModelUnusable` where its secret is not in the environment.
    """
    endpoint = manifest.artifact
    assert isinstance(endpoint, Endpoint)
    wire = Wire(endpoint.url, _host(endpoint, trust), _headers(endpoint))
    model = RemoteModel(wire=wire, dialect=dialect(manifest, endpoint, space), endpoint=endpoint)
    return black_box_of(manifest, space, model.predict, remote=model, rowwise=True)


def _host(endpoint: Endpoint, trust: Trust) -> RemoteHost:
    scheme, host, port = endpoint.place
    found = covering(trust.hosts, scheme, host, port)
    if found is None:
        raise refused(f"leads to {scheme}://{host}:{port}, which RECOURSE_REMOTE_HOSTS does not allow", "/url")
    return found


def _headers(endpoint: Endpoint) -> dict[str, str]:
    if endpoint.secret is None:
        return {}
    value = os.environ.get(endpoint.secret, "")
    if not re.fullmatch(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?", value):
        raise ModelUnusable(
            f"this model needs a token in the environment variable {endpoint.secret}, of printable ASCII characters"
        )
    if endpoint.secret_header is not None:
        return {endpoint.secret_header: value}
    return {"Authorization": f"Bearer {value}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pins:
    """Reference records and the scores that the registered model gave them."""

    rows: np.ndarray
    """The reference records, as the model takes them."""
    scores: Float[np.ndarray, "k"]
    black_box: BlackBox

    def hold(self, outputs: Float[np.ndarray, "k"]) -> bool:
        """Whether the model's outputs for the pins give the registered scores of the pins, within the tolerances."""
        return bool(scores_match(self.black_box, self.black_box.score_of(outputs), self.scores).all())


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteModel:
    """A model on a server, asked over HTTP; implements `app.recourse.models.black_box.Remote`."""

    wire: Wire
    dialect: Dialect
    endpoint: Endpoint
    pins: _Pins | None = None
    """None during registration, when there are no scores to compare with."""

    @property
    def max_calls(self) -> int:
        """Largest number of requests that the service sends to the model in order to answer one question."""
        return self.endpoint.max_calls

    @property
    def max_rows(self) -> int:
        """Largest number of records that the service sends to the model in order to answer one question."""
        return self.endpoint.max_rows

    @property
    def _pinned(self) -> int:
        return 0 if self.pins is None else len(self.pins.rows)

    def price(self, rows: int) -> tuple[int, int]:
        """The number of requests, and the number of records in them, that are sent in order to score `rows` records.

        The records include the pins, which are the reference records that every request repeats.
        """
        requests = -(-rows // (self.endpoint.max_batch - self._pinned))
        return requests, rows + requests * self._pinned

    def predict(self, rows: np.ndarray) -> Float[np.ndarray, "n"]:
        """The model's outputs for the favourable class, without a deadline.

        Raises the same errors as `predict_by`, except `DeadlineExceeded`.
        """
        return self.predict_by(rows, math.inf)

    def predict_by(self, rows: np.ndarray, deadline: float) -> Float[np.ndarray, "n"]:
        """The model's outputs for the favourable class. Several requests may be needed.

        `rows` are encoded or raw, as the manifest says.

        Raises `DeadlineExceeded` where `deadline`, a `time.monotonic()`, has passed; `ModelUnavailable` where the
        server is unreachable or unavailable; `ModelOutputInvalid` where the response is not one number per record;
        `ModelUnusable` where another model responds.
        """
        size = self.endpoint.max_batch - self._pinned
        starts = range(0, len(rows), size)
        return np.concatenate([np.zeros(0), *(self._ask(rows[k : k + size], deadline) for k in starts)])

    def _ask(self, rows: np.ndarray, deadline: float) -> Float[np.ndarray, "n"]:
        """One request."""
        k = self._pinned
        if self.pins is not None:
            rows = np.concatenate([self.pins.rows, rows])
        until = min(time.monotonic() + self.endpoint.timeout_s, deadline)
        limit = BODY_BYTES + ROW_BYTES * len(rows)
        try:
            answer = self.wire.post(self.dialect.request(rows), limit=limit, until=until)
        except OutOfTime:
            if until == deadline:
                raise DeadlineExceeded from None
            raise ModelUnavailable(
                f"the server of the model did not answer within {self.endpoint.timeout_s:g} s"
            ) from None
        except TooLarge:
            raise ModelOutputInvalid(f"the server of the model answered with more than {limit:,} bytes") from None
        outputs = self.dialect.outputs(_body(answer), len(rows))
        if self.pins is not None and not self.pins.hold(outputs[:k]):
            raise ModelUnusable(
                "it is another model that answers at the registered address, or one that is not deterministic: "
                "reference records are not scored as they were at registration"
            )
        return outputs[k:]


def metadata_faults(black_box: BlackBox) -> list[Fault]:
    """Faults where the server's description of its model contradicts the manifest.

    Empty where the server does not describe its model, or does not respond.
    """
    model = black_box.remote
    assert isinstance(model, RemoteModel)
    try:
        body = _description(model.wire, model.endpoint)
    except (OutOfTime, TooLarge, ModelUnavailable):
        return []  # a server that is not there is reported by the first question
    return [] if body is None else model.dialect.metadata_faults(body)


def description(endpoint: Endpoint, trust: Trust) -> bytes | None:
    """The JSON text in which a server describes its model; None without a description, as for servers of MLflow.

    Raises `ModelRefused` where the host is not allowed; `ModelUnusable` where the token for the server is not in the
    environment; `ModelUnavailable` where the server cannot be reached, or is too slow.
    """
    try:
        return _description(Wire(endpoint.url, _host(endpoint, trust), _headers(endpoint)), endpoint)
    except (OutOfTime, TooLarge):
        raise ModelUnavailable("the server of the model did not describe it in time, or at too great length") from None


def _description(wire: Wire, endpoint: Endpoint) -> bytes | None:
    url, _, _ = endpoint.url.partition("?")
    if endpoint.protocol is not Protocol.OIP_V2 or not url.endswith("/infer"):
        return None
    until = time.monotonic() + endpoint.timeout_s
    answer = wire.get(url.removesuffix("/infer"), limit=BODY_BYTES, until=until)
    return answer.body if answer.status == 200 else None


def _body(answer: Answer) -> bytes:
    if answer.status == 200:
        return answer.body
    # The body may repeat the records, so only the status is reported; the log of the server has more.
    detail = f"the server of the model answered with status {answer.status}"
    if answer.status in REFUSES_RECORDS:
        raise ModelOutputInvalid(f"{detail} for these records")
    if 300 <= answer.status < 400:
        detail += "; redirects are not followed"
    raise ModelUnavailable(detail, retry_after_s=answer.retry_after_s)


def pinned(black_box: BlackBox, rows_raw: Float[np.ndarray, "n p"], scores: Float[np.ndarray, "n"]) -> BlackBox:
    """The black box of a remote model that sends pins, a few reference records, with every request.

    Every response must repeat the registered scores of the pins. The pins are chosen among `rows_raw`; `scores` (n,)
    are the scores of these rows at registration.
    """
    assert isinstance(black_box.remote, RemoteModel)
    order = scores.argsort(kind="stable")
    some = order[np.linspace(0, len(scores) - 1, min(PINS, len(scores))).astype(np.intp)]
    rows = input_of_rows(black_box, rows_raw[some])
    model = replace(black_box.remote, pins=_Pins(rows=rows, scores=scores[some], black_box=black_box))
    return replace(black_box, predict=model.predict, remote=model)
