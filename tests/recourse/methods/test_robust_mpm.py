"""What the method proposes before anybody has asked the model about it."""

import numpy as np
import pytest

from app.recourse.candidates import Candidates
from app.recourse.certificate_params import CertificateParams
from app.recourse.features import Advice, Feature, FeatureSpace, FeatureType
from app.recourse.method import MethodContext
from app.recourse.methods import METHODS
from app.recourse.methods.robust_mpm import RobustMpmParams, generate
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.solve import solve
from app.recourse.surrogate.boundary import sample_boundary, survey
from tests.recourse.toys import LOAN, ask, loan_rows, loan_score, plane

EXTRA_MARGINS = np.array([0.0, 0.2, 0.5, 1.0, 2.0])


def proposed(problem: RecourseProblem, **params: object) -> Candidates:
    stated, meter = RobustMpmParams(**params), Meter(problem.black_box)  # type: ignore[arg-type]
    seen = survey(problem, meter, stated)
    sample = sample_boundary(problem, meter, stated, seen)
    context = MethodContext(
        sample=sample,
        factual_score=seen.factual_score,
        neighbours=seen.ends,
        certificate=CertificateParams(),
        meter=meter,
    )
    return generate(problem, stated, context)


def refused_loan(person: int) -> RecourseProblem:
    rows_raw = loan_rows(200, seed=9)
    factual_raw = rows_raw[loan_score(LOAN.encode(rows_raw)) < -0.5][person]
    return ask(LOAN, loan_score, factual_raw.tolist(), rows_raw=loan_rows(300))[0]


@pytest.mark.parametrize("person", range(4))
def test_proposals_are_legal_meet_the_surrogate_and_cost_more_with_every_extra_margin(person: int) -> None:
    problem = refused_loan(person)
    candidates = proposed(problem)
    rows_raw = candidates.propose(EXTRA_MARGINS)
    assert len(rows_raw) > 0
    assert problem.action_set.contains(rows_raw).all()
    assert candidates.meets(rows_raw).all()
    assert not candidates.meets(problem.factual_raw[None])[0]
    assert (np.diff(problem.action_set.cost(rows_raw)) >= -0.02 * problem.action_set.cost(rows_raw[:-1])).all()
    assert (np.diff(candidates.rank(rows_raw)) >= -1e-9).all()


def test_each_extra_margin_goes_that_far_beyond_the_margin() -> None:
    problem, _ = ask(plane(2), lambda X: X.sum(axis=1) - 1.0, [-3.0, -2.0])
    candidates = proposed(problem, margin=0.25, divergence="none")
    beyond = candidates.rank(candidates.propose(EXTRA_MARGINS))
    np.testing.assert_allclose(beyond, 0.25 + EXTRA_MARGINS, atol=1e-7)


def test_where_the_surrogate_accepts_the_person_extra_margins_start_from_there() -> None:
    """A model that refuses an island around a person whom its surroundings speak for."""
    fact = np.array([2.0, 2.0])

    def islands(X: np.ndarray) -> np.ndarray:
        return np.where(np.abs(X - fact).max(axis=1) < 0.05, -1.0, X.sum(axis=1) - 1.0)

    problem, _ = ask(plane(2), islands, fact.tolist())
    candidates = proposed(problem, radius_fraction=1.0, divergence="none")
    start = candidates.rank(fact[None])[0]
    assert start > 0.0
    np.testing.assert_allclose(
        candidates.rank(candidates.propose(EXTRA_MARGINS[1:3])), start + EXTRA_MARGINS[1:3], atol=1e-7
    )


@pytest.mark.parametrize("person", range(5))
def test_a_rare_level_that_nobody_is_advised_to_take_does_not_lead_the_search(person: int) -> None:
    """Being retired decides too, but what a working person is told is about their income."""
    jobs = ("permanent", "temporary", "retired")
    space = FeatureSpace(
        [
            *(Feature(name=name, type=FeatureType.CONTINUOUS, min=-3, max=3, center=0.0, scale=1.0) for name in "ab"),
            Feature(
                name="job", type=FeatureType.CATEGORICAL, categories=jobs, advice=Advice(categories=jobs[:2])
            ),
        ]
    )  # fmt: skip
    random = np.random.default_rng(person)
    rows_raw = np.column_stack([random.normal(size=(400, 2)).clip(-3, 3), random.integers(3, size=400)])
    problem, _ = ask(
        space, lambda X: X[:, 0] + X[:, 1] + 3.0 * (X[:, 2] == 2.0), [-0.2, -0.2, 1.0], rows_raw=rows_raw, raw=True
    )
    (found,) = solve(problem, METHODS["robust_mpm"], RobustMpmParams(), CertificateParams()).counterfactuals
    assert found.cost < 1.5


def test_the_report_is_measured_on_the_samples() -> None:
    problem, _ = ask(plane(2), lambda X: X.sum(axis=1) - 1.0, [-3.0, -2.0])
    report = proposed(problem, samples=500, divergence="none").surrogate
    assert report is not None
    assert (report.kind, report.samples) == ("none_mpm", 500)
    assert report.fidelity > 0.9
    assert 0.4 < report.worst_case_accuracy < 1.0


def test_methods_are_listed_by_their_names() -> None:
    assert all(name == method.name for name, method in METHODS.items())
    assert next(iter(METHODS)) == "robust_mpm"
