"""What can be asked of the service, as it came."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.jobs.answer import Json
from app.recourse.actionability import Constraints
from app.recourse.certificate import CertificateParams
from app.recourse.corrections import CorrectionParams
from app.recourse.method import MethodParams


@dataclass(frozen=True, slots=True, kw_only=True)
class RecourseQuery:
    """A request for recourse, as it came."""

    model: str
    applicant: Mapping[str, object]
    method: str
    params: MethodParams
    reference: str | None = None
    constraints: Constraints = field(default_factory=Constraints)
    cost_weights: Mapping[str, float] = field(default_factory=dict)
    certificate: CertificateParams = field(default_factory=CertificateParams)
    deadline_ms: int | None = None
    seed: int = 0
    store: bool = True
    """Keep request and answer in the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchQuery:
    """A request for recourse for many applicants, as it came."""

    question: RecourseQuery
    """What they have in common; its applicant and its reference are not used."""
    rows: Iterable[Json]
    """Each with its ``applicant`` and ``reference``, or with the error that it is ``refused`` for; consumed once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierQuery:
    """A request for a cost-robustness curve, as it came."""

    question: RecourseQuery
    parameter: str
    """One of the knobs of the method."""
    values: tuple[float, ...]
    """Each within the limits of the parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityQuery:
    """A request to judge counterfactuals, as it came."""

    model: str
    factual: Mapping[str, object]
    counterfactuals: Sequence[Mapping[str, object]]
    certificate: CertificateParams
    constraints: Constraints = field(default_factory=Constraints)
    deadline_ms: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """A request to re-verify the promises of a model."""

    id: str
    """Of the model; promises of all its versions are meant."""
    candidate: str
    """The version that is asked, `id@version`; it need not be active."""
    since: datetime | None = None
    until: datetime | None = None
    reissue: bool = False
    """Also find what would be answered instead of what is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionQuery(ValidityQuery):
    """A request to correct a plan, as it came."""

    correction: CorrectionParams
