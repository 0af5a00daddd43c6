"""The backtest by date: against the truth of a made series, its intervals, and what answers and letters make of it."""

import json
import shutil
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from app.errors import ModelRefused, RehearsalFailed
from app.futures import backtest as backtests
from app.futures.backtest import dates_of
from app.futures.linear import LinearRecipe
from app.futures.rehearsal import rehearse
from app.futures.spec import Choices, Material
from app.futures.store import load_futures, read_record
from app.questions import use_cases
from app.questions.question import Question
from app.recourse.certificate_params import CertificateParams
from app.recourse.models.committee import Backtest
from app.recourse.problem import Robustness
from app.recourse.robustness.kept_before import clustered_interval, kept_before
from app.recourse.solve import METHODS
from app.registry.ref import ModelRef, Store
from app.registry.version import RegisteredModel
from benchmarks.backtest import backtest, true_shares
from tests.futures.models import FITS, registered

FEW = Choices(stress="none", search=6, held_back=10)


def dated(days: int, **column: str) -> Any:
    """Loans of so many days, which get riskier, and which no feature dates; `column` changes the text of the dates."""

    def fit(directory: Any, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
        rng = np.random.default_rng(3)
        at = rng.permutation(np.linspace(0, days - 1, len(directory.records)).astype(int))
        for day, record in zip(at.tolist(), directory.records, strict=True):
            record["applied_on"] = (date(2025, 1, 1) + timedelta(days=day)).isoformat()
            logit = (record["income"] - 4_750) / 1_500 + 1.0 - 2.0 * day / days
            record["repaid"] = int(rng.random() < 1.0 / (1.0 + np.exp(-logit)))
        directory.records[7] |= column
        directory.columns.append("applied_on")
        FITS["linear"](directory, X, np.array([record["repaid"] for record in directory.records]), columns)

    return fit


TIME = {"column": "applied_on"}


@pytest.fixture(scope="module")
def loans(tmp_path_factory: pytest.TempPathFactory) -> RegisteredModel:
    model = registered(tmp_path_factory.mktemp("loans"), dated(730), records=1_500, time=TIME)
    rehearse(model, FEW)
    return model


# --- the share that was kept -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("series", "count"), [pytest.param(12, 5, marks=pytest.mark.release)])
def test_what_was_kept_is_what_fresh_people_and_models_say(series: int, count: int) -> None:
    """Of a made series with known drift; `python -m benchmarks backtest` has 50 runs."""
    true, runs = true_shares(series), [backtest(seed) for seed in range(count)]
    inside = [
        one.interval[0] <= true[key] <= one.interval[1] for run in runs for key, one in run.items() if key in true
    ]
    assert len(inside) == count * 8
    assert np.mean(inside) >= 0.9
    for asked in (None, 0.9):
        aging = [true[asked, months] for months in (3, 6, 9, 12)]
        told = [np.mean([run[asked, months].kept for run in runs]) for months in (3, 6, 9, 12)]
        assert aging[0] - aging[-1] > 0.2, "the series drifts"
        assert told == pytest.approx(aging, abs=0.2)
        assert all(run[asked, 3].promised > 0.85 for run in runs), "and no rehearsal knows"


def test_windows_have_one_length_and_end_at_the_dates() -> None:
    days = np.repeat(np.arange(720.0), 2)
    found = dates_of(days, np.arange(len(days)) % 2 == 0)
    assert (found.step, found.length) == (3, 4.0)
    assert [(days[w].min(), days[w].max()) for w in found.windows] == [(90 * k, 90 * k + 359) for k in range(5)]
    assert [(days[w].min(), days[w].max()) for w in found.applying] == [(90 * k + 270, 90 * k + 359) for k in range(5)]
    # Of five years, the first window has four; of eight months, each step has one.
    assert dates_of(np.arange(1_800.0), np.arange(1_800) % 2 == 0).length == 16.0
    assert dates_of(np.arange(240.0), np.arange(240) % 2 == 0).step == 1


@pytest.mark.parametrize(
    ("days", "every", "reason"),
    [(200.0, 2, "span 6.7 months; a backtest needs 8"), (720.0, 100, "10 records of each outcome in 12.0 months")],
)
def test_too_few_months_or_records_are_told(days: float, every: int, reason: str) -> None:
    with pytest.raises(RehearsalFailed, match=reason):
        dates_of(np.arange(days), np.arange(int(days)) % every == 0)


def test_the_interval_is_exact_where_models_agree_and_wide_where_they_do_not() -> None:
    kept = [np.arange(30) < 24, np.arange(30) < 24]
    exact = beta.ppf(0.025, 48, 13), beta.ppf(0.975, 49, 12)
    assert clustered_interval(kept, [np.full(20, 0.8)] * 2, 1.0) == pytest.approx(exact)
    # All people of a date together: two dates are worth one promise.
    together = [np.ones(30, dtype=bool), np.zeros(30, dtype=bool)]
    low, high = clustered_interval(together, [np.array([0.0, 1.0] * 10)] * 2, 1.0)
    assert low < 0.02
    assert high > 0.98


@pytest.mark.parametrize("rho", [0.0, 0.1, 0.4])
def test_the_interval_holds_for_people_who_stand_or_fall_together(rho: float) -> None:
    """Four dates, each with a share of its own from a beta law with intraclass correlation rho."""
    rng, true, inside = np.random.default_rng(0), 0.8, []
    for _ in range(400):
        law = [true * (1 / rho - 1), (1 - true) * (1 / rho - 1)] if rho else None
        at = rng.beta(*law, 4) if law else np.full(4, true)
        others = [rng.beta(*law, 40) if law else np.full(40, true) for _ in range(4)]
        low, high = clustered_interval([rng.random(30) < share for share in at], others, 0.25)
        inside.append(low <= true <= high)
    assert np.mean(inside) >= 0.93


# --- a rehearsal -----------------------------------------------------------------------------------------------------


@pytest.mark.release
def test_a_rehearsal_that_was_interrupted_goes_on_with_the_models_of_the_backtest(
    tmp_path: Path, loans: RegisteredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(loans.directory.parents[1], tmp_path / "store")
    model = replace(loans, directory=tmp_path / "store" / loans.directory.parent.name / loans.directory.name)
    shutil.rmtree(model.directory / "futures")
    make, made = LinearRecipe.make, 0

    def interrupted(self: Any, records: Any, samples: Any, tuned: Any) -> list[bytes]:
        nonlocal made
        made += len(samples)
        if made > 60:
            raise KeyboardInterrupt
        return make(self, records, samples, tuned)

    with monkeypatch.context() as patched:
        patched.setattr(LinearRecipe, "make", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rehearse(model, FEW)
    again = list[int]()
    with monkeypatch.context() as patched:
        patched.setattr(
            LinearRecipe, "make", lambda self, records, samples, tuned: (
                again.append(len(samples)) or make(self, records, samples, tuned)  # type: ignore[func-returns-value]
            )
        )  # fmt: skip
        done: list[tuple[int, int]] = []
        record = rehearse(model, FEW, progress=lambda made, total: done.append((made, total)))
    first = read_record(loans.directory)
    assert first is not None
    assert len(record.backtest) == 12
    assert record.backtest == first.backtest
    total = 16 + 4 * 6 + 5 * (1 + 10)
    assert done[-1] == (total, total)
    assert sum(again) < total - 16


def test_the_plain_sets_are_those_of_a_version_without_dates(tmp_path: Path, loans: RegisteredModel) -> None:
    undated = rehearse(registered(tmp_path, dated(730), records=1_500), FEW)
    found = read_record(loans.directory)
    assert found is not None
    assert (undated.search, undated.held_back, undated.backtest) == (found.search, found.held_back, ())
    assert undated.no_backtest is None


@pytest.mark.release
def test_under_stress_if_it_was_rehearsed(tmp_path: Path) -> None:
    model = registered(tmp_path, dated(730), records=600, time=TIME)
    found = rehearse(model, replace(FEW, stress="auto", search=30, held_back=30)).backtest
    assert {(one.asked, one.under) for one in found} == {(None, None), (0.8, "stress"), (0.9, "stress")}


def test_where_there_is_no_backtest_a_sentence_says_why(tmp_path: Path) -> None:
    short = rehearse(registered(tmp_path / "short", dated(100), time=TIME), FEW)
    assert short.backtest == ()
    assert short.no_backtest == "The records span 3.3 months; a backtest needs 8."
    (tmp_path / "models").mkdir()
    model = registered(tmp_path / "supplied", dated(730), records=1_500, time=TIME)
    for path in (model.directory.parents[1]).rglob("model.json"):
        for k in range(20):
            content = json.loads(path.read_text())
            content["intercept"] += 0.01 * (k + 1)
            (tmp_path / "models" / f"{k}.json").write_text(json.dumps(content))
    supplied = rehearse(model, FEW, Material(folder=tmp_path / "models"))
    assert supplied.no_backtest is not None
    assert "cannot be trained" in supplied.no_backtest
    lines = (model.directory / "reference.csv").read_text().splitlines()
    newer = tmp_path / "newer.csv"
    newer.write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    without = rehearse(model, FEW, Material(data=newer))
    assert without.no_backtest is not None
    assert 'has no column "applied_on"' in without.no_backtest


def test_a_recipe_that_fails_on_an_early_window_costs_no_future_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> Any:
        raise RehearsalFailed("No.")

    monkeypatch.setattr(backtests.Backtester, "_answers", failing)
    model = registered(tmp_path, dated(730), records=1_500, time=TIME)
    record = rehearse(model, FEW)
    assert (record.backtest, record.no_backtest) == ((), "No.")
    assert load_futures(model) is not None


@pytest.mark.parametrize(
    ("column", "changes", "pointer", "detail"),
    [
        ("applied_at", {}, "/reference", 'has no column "applied_at"'),
        ("age", {}, "/time/column", "is the name of a feature"),
        ("repaid", {}, "/time/column", "is the column of the true outcome"),
        ("applied_on", {"applied_on": "31.03.2026"}, "/reference/7/applied_on", "must be a date such as 2026-03-31"),
        ("applied_on", {"applied_on": ""}, "/reference/7/applied_on", "line 9: must be a date"),
    ],
)
def test_a_column_that_is_no_date_is_refused_at_registration(
    tmp_path: Path, column: str, changes: dict[str, str], pointer: str, detail: str
) -> None:
    with pytest.raises(ModelRefused) as refused:
        registered(tmp_path, dated(730, **changes), time={"column": column})
    assert [(fault.pointer, detail in fault.detail) for fault in refused.value.faults] == [(pointer, True)]


# --- answers ---------------------------------------------------------------------------------------------------------


def entry(asked: float | None, months: int, kept: float) -> Backtest:
    return Backtest(
        asked=asked, under=None, months=months, promises=90, promised=0.95, kept=kept, interval=(kept - 0.1, kept)
    )


AGING = (entry(None, 3, 0.9), entry(None, 6, 0.7), entry(0.8, 3, 0.95), entry(0.8, 6, 0.9), entry(0.9, 6, 0.99))


def test_an_answer_has_the_backtest_of_the_largest_share_that_is_not_above_its_own() -> None:
    def share(asked: float | None, under: str | None = None) -> float | None:
        found = kept_before(AGING, asked, under, 1.0, 0.5)
        return None if found is None else found.share

    assert [share(asked) for asked in (None, 0.5, 0.8, 0.85, 0.9, 0.99)] == [0.7, None, 0.9, 0.9, 0.99, 0.99]
    assert share(0.8, "stress") is None
    assert kept_before((), None, None, 1.0, 0.5) is None


def test_a_promise_holds_until_the_line_of_shares_crosses_it() -> None:
    def holds(promised: float) -> float | None:
        found = kept_before(AGING, None, None, 1.0, promised)
        assert found is not None
        assert (found.months, found.share, found.promises) == (6, 0.7, 90)
        return found.holds_months

    # From 1.0 at once to 0.9 after 3 months and 0.7 after 6.
    assert [holds(p) for p in (0.6, 0.7, 0.8, 0.9, 0.95, 1.0)] == [None, None, 4.5, 3.0, 1.5, 0.0]


def test_only_questions_that_were_asked_before_have_it(loans: RegisteredModel) -> None:
    ref = ModelRef.of(Store(root=str(loans.directory.parents[1])), loans)
    reference = loans.load().reference
    refused = reference.rows_raw[np.flatnonzero(reference.scores < 0.0)[0]]

    def future(method: str = "robust_mpm", asked: float | None = None, **params: Any) -> Any:
        question = Question(
            factual_raw=refused, method=method, params=METHODS[method].params(**params), seed=0,
            certificate=CertificateParams(), robustness=Robustness(future_validity=asked),
        )  # fmt: skip
        problem = use_cases.problem(ref, question, 60.0)
        return use_cases.USE_CASES["recourse"].compute(problem, question, 1.0).recourse.counterfactuals[0].future

    record = read_record(loans.directory)
    assert record is not None
    longest = {one.asked: one for one in record.backtest if one.months == 12}
    for asked in (None, 0.8, 0.9):
        found = future(asked=asked)
        assert found.kept_before.share == longest[asked].kept
        assert found.kept_before.interval == longest[asked].interval
        assert "12 months later" in found.promise
    assert future("growing_spheres").kept_before is None
    assert future(margin=0.5).kept_before is None
