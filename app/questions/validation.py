"""Whether a question fits its model; all faults are reported at once."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from app.errors import Fault, InvalidRequest, UnknownModel
from app.futures.store import status
from app.models.models import Models
from app.questions.offers import OffersQuestion
from app.questions.question import Case, Question
from app.recourse.actions.constraints import check_constraints
from app.recourse.actions.wishes import check_wishes
from app.recourse.certificate_params import CertificateParams, check_moments, check_noise
from app.recourse.features import Better, escape
from app.recourse.solve import METHODS
from app.recourse.terms import directions, terms_of
from app.registry.version import RegisteredModel

Check = Callable[[], Any]
"""Gives something, or raises `InvalidRequest`."""


def all_or_faults(*checks: Check) -> list[Any]:
    """The results of all checks, in order.

    Raises one `InvalidRequest` if checks fail; this error has the faults of every check that fails.
    """
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


def checks(models: Models, model: RegisteredModel, question: Case) -> list[Check]:
    """The checks of a question, apart from its records; each check is a function that raises `InvalidRequest`."""
    found: list[Check] = [
        lambda: check_constraints(model.space, question.constraints, question.cost_weights, weights_at="/cost/weights"),
        lambda: _check_certificate(model, question.certificate),
    ]
    if isinstance(question, OffersQuestion):
        found.append(partial(_check_terms, model, question.better))
        if question.future_validity is not None:
            found.append(partial(check_futures, model, "/future_validity"))
    if isinstance(question, Question):
        found.append(lambda: check_wishes(model.space, question.wishes, question.constraints))
        found.append(partial(_check_method, models, model, question))
        if question.needs_future_models:
            found.append(partial(check_futures, model, "/robustness/future_validity"))
    return found


def _check_certificate(model: RegisteredModel, certificate: CertificateParams) -> None:
    faults = check_noise(model.space, certificate)
    futures = certificate.moments == "future" and status(model)["status"] == "ready"
    faults += check_moments(certificate, registered=model.manifest.label is not None, futures=futures)
    if faults:
        raise InvalidRequest(faults=[fault.under("/certificate") for fault in faults])


def _check_terms(model: RegisteredModel, better: Mapping[str, Better]) -> None:
    """Terms that can be offered, with what is better in at least one of them: stated or asked, never guessed."""
    space = model.space
    terms = {space.names[j]: space.features[j] for j in terms_of(space)}
    if not terms:
        detail = f"names {model.name}, whose manifest has no feature with terms: true, so that nothing can be offered"
        raise InvalidRequest(faults=[Fault("/model", detail)])
    ordered = [name for name, feature in terms.items() if not feature.is_group]
    faults = [
        Fault(f"/better/{escape(name)}", f"is not a term with an order; these are {', '.join(ordered) or 'none'}")
        for name in better
        if name not in ordered
    ]
    if not faults and not directions(space, better):
        named = " or ".join(ordered)
        detail = f"must say of {named} whether more or less is better for the applicant; the manifest does not"
        faults = [Fault("/better", detail)]
    if faults:
        raise InvalidRequest(faults=faults)


def check_futures(model: RegisteredModel, pointer: str) -> None:
    """Raise `InvalidRequest` if the model has no future models; `pointer` leads to what asks for them."""
    found = status(model)
    if found["status"] != "ready":
        state = {"pending": "they are still being made", "failed": f"making them failed: {found['detail']}"}
        why = state.get(found["status"], f"POST /models/{model.id}/futures makes them")
        detail = f"needs future models, and {model.name} has none: {why}"
        raise InvalidRequest(faults=[Fault(pointer, detail)])


def _check_method(models: Models, model: RegisteredModel, question: Question) -> None:
    faults = list(METHODS[question.method].faults(model.space, question.params))
    for pointer, name in question.params.other_models().items():
        try:
            # It may be a version that is registered but not active yet.
            other = models.find(name, include_inactive=True)
        except UnknownModel:
            faults.append(Fault(pointer, "is not the name of an active model, nor of a registered version"))
            continue
        if not other.space.same_columns(model.space):
            faults.append(Fault(pointer, f"has other features than {model.name}, or other values of them"))
    if faults:
        raise InvalidRequest(faults=[fault.under("/method") for fault in faults])
