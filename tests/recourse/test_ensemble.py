"""Other versions of a model as witnesses: their share of yes, and the spread of their local models."""

from dataclasses import replace

import numpy as np
import pytest

from app.errors import InvalidRequest
from app.recourse.actions.action_set import action_set
from app.recourse.certificate_params import CertificateParams
from app.recourse.features import Feature, FeatureSpace, FeatureType, fit_encoding
from app.recourse.methods.robust_mpm import RobustMpmParams
from app.recourse.models.black_box import BlackBox
from app.recourse.models.score import Output
from app.recourse.problem import RecourseProblem, Reference
from app.recourse.solve import METHODS, solve

RNG = np.random.default_rng(0)
ROWS = np.column_stack([RNG.normal(40.0, 10.0, 400), RNG.normal(3.0, 1.0, 400), RNG.integers(3, size=400)])
FEATURES = (
    Feature(name="income", type=FeatureType.CONTINUOUS, min=0.0, max=100.0),
    Feature(name="debt", type=FeatureType.CONTINUOUS, min=0.0, max=10.0),
    Feature(name="housing", type=FeatureType.CATEGORICAL, categories=("rent", "own", "other")),
)
SPACE = FeatureSpace(fit_encoding(FEATURES, ROWS, "standard"))


def linear(raw_weights: tuple[float, float], space: FeatureSpace = SPACE, shift: float = 0.0) -> BlackBox:
    """Yes iff ``a income + b debt`` is large enough; the same decisions in whatever scale the space has."""

    def score(X: np.ndarray) -> np.ndarray:
        raw = X[:, space.numeric_columns] * space.scale_raw + space.center_raw
        return raw @ np.array(raw_weights) - 45.0 * raw_weights[0] - 2.0 * raw_weights[1] - shift

    return BlackBox(space=space, predict=score, output=Output.LOGIT, threshold=0.0)


def problem(siblings: tuple[BlackBox, ...]) -> RecourseProblem:
    black_box = linear((0.1, -1.0))
    distance = float(np.linalg.norm(np.ptp(SPACE.encode(ROWS), axis=0)))
    reference = Reference(space=SPACE, rows_raw=ROWS, scores=black_box.score_raw(ROWS), largest_distance=distance)
    actions = action_set(SPACE, np.array([30.0, 4.0, 0.0]))
    return RecourseProblem(black_box=black_box, reference=reference, action_set=actions, siblings=siblings)


def test_points_in_other_scales_are_the_same_records() -> None:
    other = FeatureSpace(fit_encoding(FEATURES, ROWS, "minmax"))
    assert SPACE.same_columns(other)
    assert other.recode(SPACE.encode(ROWS), SPACE) == pytest.approx(other.encode(ROWS))


def test_other_categories_are_other_columns() -> None:
    renamed = replace(SPACE.features[2], categories=("rent", "own", "with family"))
    assert not SPACE.same_columns(FeatureSpace([*SPACE.features[:2], renamed]))


def test_the_share_counts_the_versions_that_accept_the_answer() -> None:
    other = FeatureSpace(fit_encoding(FEATURES, ROWS, "minmax"))
    siblings = (linear((0.1, -1.0), other, shift=-5.0), linear((0.1, -1.0), shift=50.0))
    result = solve(problem(siblings), METHODS["robust_mpm"], RobustMpmParams(), CertificateParams(ensemble=True))
    assert result.counterfactuals[0].certificate is not None
    assert result.counterfactuals[0].certificate.shift.ensemble == 0.5


def test_versions_that_agree_make_a_stronger_promise_than_versions_that_do_not() -> None:
    params = CertificateParams(moments="ensemble")
    agreeing = (linear((0.1, -1.0)), linear((0.101, -1.0)), linear((0.1, -1.01)))
    quarrelling = (linear((0.02, -1.0)), linear((0.3, -1.0)), linear((0.1, 0.5)))
    lower = []
    for siblings in (agreeing, quarrelling):
        wide = RobustMpmParams(radius_fraction=0.2)
        certificate = solve(problem(siblings), METHODS["robust_mpm"], wide, params).counterfactuals[0].certificate
        assert certificate is not None
        assert certificate.shift.gelbrich.moments == "ensemble"
        lower.append(certificate.shift.gelbrich.lower)
    assert lower[0] > 0.9 > lower[1]


def test_an_ensemble_of_one_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidRequest) as refused:
        solve(
            problem((linear((0.1, -1.0)),)),
            METHODS["robust_mpm"],
            RobustMpmParams(),
            CertificateParams(moments="ensemble"),
        )
    assert [fault.pointer for fault in refused.value.faults] == ["/certificate/moments"]
