"""Whether a question fits its model; everything that is wrong with it is told at once."""

from collections.abc import Callable
from typing import Any

from app.errors import Fault, InvalidRequest, UnknownModel
from app.recourse.actionability import check_constraints
from app.recourse.certificate import CertificateParams, check_moments, check_noise
from app.recourse.solve import METHODS
from app.registry.registered import RegisteredModel
from app.service.models import Models
from app.service.queries import RecourseQuery

Check = Callable[[], Any]
"""Gives something, or raises `InvalidRequest`."""


def all_or_faults(*checks: Check) -> list[Any]:
    """What all checks give, or one error with the faults of all that fail."""
    results, faulty = [], []
    for check in checks:
        try:
            results.append(check())
        except InvalidRequest as error:
            faulty.append(error)
    if len(faulty) == 1:
        raise faulty[0]
    if faulty:
        raise InvalidRequest(faults=[fault for error in faulty for fault in error.faults])
    return results


def checks(models: Models, model: RegisteredModel, query: RecourseQuery) -> list[Check]:
    """Of everything but the applicant's record."""
    return [
        lambda: check_constraints(model.space, query.constraints, query.cost_weights),
        lambda: check_certificate(model, query.certificate),
        lambda: _check_method(models, model, query),
    ]


def check_certificate(model: RegisteredModel, certificate: CertificateParams) -> None:
    """Raise `InvalidRequest` with what the model has no such noise for, or no such moments."""
    faults = check_noise(model.space, certificate)
    faults += check_moments(certificate, registered=model.manifest.label is not None)
    if faults:
        raise InvalidRequest(faults=faults)


def _check_method(models: Models, model: RegisteredModel, query: RecourseQuery) -> None:
    faults = list(METHODS[query.method].faults(model.space, query.params))
    for pointer, name in query.params.other_models().items():
        try:
            # A version that waits to go live is what one expects the next model to be.
            other = models.find(name, include_inactive=True)
        except UnknownModel:
            faults.append(Fault(pointer, "is not the name of an active model, nor of a registered version"))
            continue
        if not other.space.same_columns(model.space):
            faults.append(Fault(pointer, f"has other features than {model.name}, or other values of them"))
    if faults:
        raise InvalidRequest(faults=faults)
