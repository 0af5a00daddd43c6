"""The certificate of a model that was registered with true outcomes: its shift is that of its own retraining."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import InvalidRequest
from app.questions.answers import ModelVersion
from app.questions.frame import Frame
from app.questions.question import Question
from app.questions.use_cases import answer
from app.recourse.actions.action_set import action_set
from app.recourse.actions.constraints import Constraints
from app.recourse.assess import assess
from app.recourse.certificate_params import CertificateParams
from app.recourse.models.linear import homogeneous
from app.recourse.problem import RecourseProblem
from app.recourse.robustness.validity import validity_bounds
from app.recourse.solve import METHODS, solve
from app.recourse.surrogate.refits import fit
from app.registry.ref import ModelRef, Store
from app.registry.registry import Registry
from app.registry.version import LoadedModel, RegisteredModel
from tests.api.asking import APPLICANT
from tests.registry.loan import loan_records, make_linear

METHOD = METHODS["robust_mpm"]
ASKED = CertificateParams(moments="registered")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> RegisteredModel:
    root = tmp_path_factory.mktemp("labelled")
    return Registry(root / "store").register(make_linear(root / "source").label().write())


@pytest.fixture(scope="module")
def loaded(labelled: RegisteredModel) -> LoadedModel:
    return labelled.load()


def problem(model: LoadedModel) -> RecourseProblem:
    space = model.black_box.space
    return RecourseProblem(
        black_box=model.black_box,
        reference=model.reference,
        action_set=action_set(space, space.read(APPLICANT)),
    )


def test_its_bounds_are_those_of_the_registered_moments(loaded: LoadedModel) -> None:
    (best,) = solve(problem(loaded), METHOD, METHOD.params(), ASKED).counterfactuals
    moments = loaded.reference.weight_moments
    assert moments is not None
    assert best.certificate is not None
    points = homogeneous(loaded.black_box.space.encode(best.row_raw[None]))
    lower, upper = validity_bounds(points, moments, ASKED.ambiguity_radius)
    found = best.certificate.shift.gelbrich
    assert (found.moments, found.lower, found.upper) == ("registered", lower[0], upper[0])
    assert best.certificate.joint.lower <= found.lower + 1e-9


def test_its_bounds_hold_for_models_trained_on_new_records(loaded: LoadedModel, tmp_path: Path) -> None:
    """A radius of 0.2 covers what the estimate itself is off, having seen other records."""
    space = loaded.black_box.space
    rows_raw = loaded.reference.rows_favourable_raw[:40]
    certificate = CertificateParams(moments="registered", ambiguity_radius=0.2)
    judged = assess(problem(loaded), rows_raw, certificate).judged
    yes = np.zeros(len(rows_raw))
    for seed in range(1, 41):
        source = make_linear(tmp_path)
        source.records = loan_records(200, seed)
        records = [{name: record[name] for name in APPLICANT} for record in source.label(seed).records]
        X = space.encode(space.read_many(records, pointer=""))
        y = np.array([record["repaid"] == 1 for record in source.records])
        (theta,) = fit(homogeneous(X), y, np.ones((1, 200)), np.zeros(X.shape[1] + 1))
        yes += homogeneous(space.encode(rows_raw)) @ theta >= 0.0
    bounds = [one.certificate.shift.gelbrich for one in judged if one.certificate]
    lower, upper = (np.array([getattr(bound, end) for bound in bounds]) for end in ("lower", "upper"))
    assert len(bounds) == 40
    assert (lower > 0.5).any()
    assert (lower <= yes / 40 + 1e-9).all()
    assert (yes / 40 <= upper + 1e-9).all()


FRAME = Frame(model=ModelVersion(id="loan", version="1", sha256=""), seed=0)


def test_a_child_answers_with_it(labelled: RegisteredModel) -> None:
    store = Store(root=str(labelled.directory.parents[1]))
    question = Question(
        factual_raw=labelled.space.read(APPLICANT),
        constraints=Constraints(),
        cost_weights={},
        method=METHOD.name,
        params=METHOD.params(),
        certificate=ASKED,
        seed=0,
    )
    found: dict[str, Any] = answer(ModelRef.of(store, labelled), "recourse", question, FRAME, math.inf, deadline_s=30.0)
    (one,) = found["counterfactuals"]
    assert one["validity"]["shift"]["gelbrich"]["moments"] == "registered"


def test_a_model_without_them_is_refused(tmp_path: Path) -> None:
    plain = Registry(tmp_path / "store").register(make_linear(tmp_path / "source").write()).load()
    with pytest.raises(InvalidRequest) as caught:
        solve(problem(plain), METHOD, METHOD.params(), ASKED)
    (fault,) = caught.value.faults
    assert fault.pointer == "/certificate/moments"
    assert "only a linear model whose manifest names a label" in fault.detail
