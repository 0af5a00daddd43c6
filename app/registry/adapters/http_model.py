"""A model that answers over HTTP: KServe, Triton or MLServer by the Open Inference Protocol v2, or MLflow.

There is no file, and the model behind an address can be exchanged without anybody here being told. So every request
carries `PINS` reference records along, spread over the scores that they had at registration; if one of them is scored
otherwise, the whole answer is refused and the model unusable. What this promises: each number in an answer came from a
server that, in the same breath, agreed with the registered model on these records. A model that differs only elsewhere
is not noticed.

Records go out in batches of `max_batch`, one request after another over one connection. `wire` guards where they go.
"""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from app.errors import DeadlineExceeded, Fault, ModelOutputInvalid, ModelRefused, ModelUnavailable, ModelUnusable
from app.recourse.blackbox import BlackBox, Output, sigmoid
from app.recourse.features import FeatureSpace
from app.registry.adapters.protocols import Dialect, dialect
from app.registry.adapters.wire import Answer, OutOfTime, TooLarge, Wire
from app.registry.manifest import PINS, Endpoint, Manifest
from app.registry.trust import Trust
from app.remote_hosts import RemoteHost, covering

SCORE_TOLERANCE = 1e-3
"""How far a score may move after registration, relative to 1 + |score|; single precision moves it less."""

PROBABILITY_TOLERANCE = 1e-6
"""How far a probability may; single precision, in batches of other sizes, moves it less."""

BODY_BYTES, ROW_BYTES = 100_000, 500
"""Longest answer, and what each record adds to it: several outputs of some digits."""

REFUSES_RECORDS = frozenset({400, 422, 500})
"""Statuses of servers whose model stumbled over the records; another request may well be answered."""


def load(manifest: Manifest, directory: Path, space: FeatureSpace, trust: Trust) -> BlackBox:  # noqa: ARG001
    """The black box of a remote model, which is not asked yet. Contract in `app.registry.adapters.Load`."""
    endpoint = manifest.artifact
    assert isinstance(endpoint, Endpoint)
    wire = Wire(endpoint.url, _host(endpoint, trust), _headers(endpoint))
    model = RemoteModel(wire=wire, dialect=dialect(manifest, endpoint, space), endpoint=endpoint)
    return BlackBox(
        space=space, predict=model.predict, input=manifest.input, output=manifest.output,
        threshold=manifest.threshold, remote=model, rowwise=True,
    )  # fmt: skip


def _host(endpoint: Endpoint, trust: Trust) -> RemoteHost:
    scheme, host, port = endpoint.place
    found = covering(trust.hosts, scheme, host, port)
    if found is None:
        detail = f"leads to {scheme}://{host}:{port}, which RECOURSE_REMOTE_HOSTS does not allow"
        raise ModelRefused(faults=[Fault("/artifact/url", detail)])
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
    """As the model takes them."""
    scores: Float[np.ndarray, "k"]
    black_box: BlackBox

    def hold(self, outputs: Float[np.ndarray, "k"]) -> bool:
        """Whether these outputs have the registered scores."""
        return bool(alike(self.black_box, self.black_box.score_of(outputs), self.scores).all())


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteModel:
    """A `app.recourse.blackbox.Remote`."""

    wire: Wire
    dialect: Dialect
    endpoint: Endpoint
    pins: _Pins | None = None
    """None while it is registered, when every answer is the first."""

    @property
    def max_calls(self) -> int:
        """Requests that one answer may send."""
        return self.endpoint.max_calls

    @property
    def max_rows(self) -> int:
        """Records that one answer may send."""
        return self.endpoint.max_rows

    @property
    def _pinned(self) -> int:
        return 0 if self.pins is None else len(self.pins.rows)

    def price(self, rows: int) -> tuple[int, int]:
        """Requests and records that asking about so many records sends; the pins are paid for too."""
        requests = -(-rows // (self.endpoint.max_batch - self._pinned))
        return requests, rows + requests * self._pinned

    def predict(self, rows: np.ndarray) -> Float[np.ndarray, "n"]:
        """Outputs for the favourable class; errors as `predict_by`, but for the deadline."""
        return self._predict(rows, None)

    def predict_by(self, rows: np.ndarray, deadline: float) -> Float[np.ndarray, "n"]:
        """Outputs for the favourable class.

        Raises
        ------
        DeadlineExceeded : `deadline`, a `time.monotonic()`, has passed
        ModelUnavailable : the server is not reached, or will not answer now
        ModelOutputInvalid : its answer is not one number per record
        ModelUnusable : it is not the registered model that answers
        """
        return self._predict(rows, deadline)

    def _predict(self, rows: np.ndarray, deadline: float | None) -> Float[np.ndarray, "n"]:
        batches = [self._ask(batch, deadline) for batch in self._batches(rows)]
        return np.concatenate(batches) if batches else np.zeros(0)

    def _batches(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        size = self.endpoint.max_batch - self._pinned
        return (rows[start : start + size] for start in range(0, len(rows), size))

    def _ask(self, rows: np.ndarray, deadline: float | None) -> Float[np.ndarray, "n"]:
        """One request."""
        k = self._pinned
        if self.pins is not None:
            rows = np.concatenate([self.pins.rows, rows])
        own_limit = time.monotonic() + self.endpoint.timeout_s
        until = own_limit if deadline is None else min(own_limit, deadline)
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


def _body(answer: Answer) -> bytes:
    if answer.status == 200:
        return answer.body
    # What the server says beyond its status may repeat the records; its own log has it.
    detail = f"the server of the model answered with status {answer.status}"
    if answer.status in REFUSES_RECORDS:
        raise ModelOutputInvalid(f"{detail} for these records")
    if 300 <= answer.status < 400:
        detail += "; redirects are not followed"
    raise ModelUnavailable(detail, retry_after_s=answer.retry_after_s)


def pinned(black_box: BlackBox, rows_raw: Float[np.ndarray, "n p"], scores: Float[np.ndarray, "n"]) -> BlackBox:
    """A remote model that is held to its scores of reference records, some of which every request carries along."""
    assert isinstance(black_box.remote, RemoteModel)
    order = scores.argsort(kind="stable")
    some = order[np.linspace(0, len(scores) - 1, min(PINS, len(scores))).astype(np.intp)]
    rows = black_box.space.encode(rows_raw[some]) if black_box.fractional else rows_raw[some]
    model = replace(black_box.remote, pins=_Pins(rows=rows, scores=scores[some], black_box=black_box))
    return replace(black_box, predict=model.predict, remote=model)


def alike(
    black_box: BlackBox, scores: Float[np.ndarray, "k"], registered: Float[np.ndarray, "k"]
) -> Bool[np.ndarray, "k"]:
    """Where scores are those of the registration; a NaN never is."""
    same = np.abs(scores - registered) <= SCORE_TOLERANCE * (1.0 + np.abs(registered))
    if black_box.output is Output.PROBABILITY:
        # The logit of a probability near 0 or 1 is mostly the rounding of single precision.
        offset = black_box.offset
        same |= np.abs(sigmoid(scores + offset) - sigmoid(registered + offset)) <= PROBABILITY_TOLERANCE
    return same
