"""Paper 1: fidelity and stability of surrogates, and cost against current and future validity, for networks."""

from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np

from app.errors import DegenerateSurrogate
from app.recourse.models.linear import LinearModel
from app.recourse.models.meter import Meter
from app.recourse.models.score import favourable
from app.recourse.solve import METHODS, solve
from app.recourse.surrogate.boundary import SamplerParams, sample_boundary, survey
from app.recourse.surrogate.linear_fits import direction
from app.recourse.surrogate.mpm import fit_sample
from benchmarks import papers
from benchmarks.papers import Setting
from benchmarks.tables import show

mpl.use("Agg")
from matplotlib import pyplot as plt

SAMPLES = (500, 1000, 2000, 5000)
NEIGHBOURS = 10
FIDELITY_PEOPLE, FRONTIER_PEOPLE = 8, 15
PUBLISHED = {"synthetic": "1.20 / 1.00 / 1.00", "Student": "2.51 / 0.95 / 0.82"}
"""Of the paper's Fisher-Rao machine at radius 10: cost, current and future validity (its table of variants)."""

KINDS = ("quadratic", "bures", "fisher_rao", "lime", "clime", "ridge", "svm")


def settings(people: int) -> Iterable[Setting]:
    """A network for each data set that is here."""
    for data in papers.available(papers.curved, papers.german_four, papers.student):
        yield papers.network_setting(data, people)


# --- fidelity and stability ------------------------------------------------------------------------------------------


def fidelity() -> None:
    """LocalFid and stability against the number of samples, as in section 6.1 (radius 5 %, ten neighbours)."""
    figure, axes = plt.subplots(2, 3, figsize=(11, 6))
    for column, setting in enumerate(settings(FIDELITY_PEOPLE)):
        rows = []
        for kind in KINDS:
            measured = [_measured(setting, kind, samples) for samples in SAMPLES]
            for axis, k in ((axes[0, column], 0), (axes[1, column], 1)):
                axis.plot(SAMPLES, [m[k] for m in measured], marker=".", label=kind)
            rows.append((kind, *(f"{f:.3f} / {s:.2f}" for f, s in measured)))
        axes[0, column].set(title=setting.data.name, ylabel="local fidelity")
        axes[1, column].set(xlabel="samples", ylabel="stability (less is better)")
        axes[0, column].legend(fontsize=6)
        head = ("surrogate", *(f"{samples} samples: fidelity / stability" for samples in SAMPLES))
        show(f"Fidelity and stability, {setting.data.name}", head, rows)
    papers.save_figure(figure, "fidelity.png")


def _measured(setting: Setting, kind: str, samples: int) -> tuple[float, float]:
    """Mean share of points near a person on which surrogate and network agree; mean largest turn among neighbours."""
    space, rng = setting.data.space, np.random.default_rng(0)
    agreement, turns = [], []
    for row_raw in setting.refused_raw:
        own = _surrogate(setting, row_raw, kind, samples)
        if own is None:
            continue
        x = space.encode(row_raw[None])[0]
        ball = rng.standard_normal((1000, space.d))
        ball *= (rng.random(1000) ** (1.0 / space.d) / np.linalg.norm(ball, axis=1))[:, None]
        near = x + 0.1 * setting.reference.largest_distance * ball
        agreement.append(np.mean(favourable(own.score(near)) == favourable(setting.black_box.score(near))))
        around = np.tile(row_raw, (NEIGHBOURS, 1))
        noise = np.sqrt(0.001) * rng.standard_normal((NEIGHBOURS, len(space.numeric)))
        around[:, space.numeric] += noise * space.scale_raw
        others = [_surrogate(setting, other, kind, samples) for other in around]
        turns.append(max(float(np.linalg.norm(own.w - other.w)) for other in others if other is not None))
    return float(np.mean(agreement)), float(np.mean(turns))


def _surrogate(setting: Setting, row_raw: np.ndarray, kind: str, samples: int) -> LinearModel | None:
    problem = setting.problem(row_raw)
    meter, params = Meter(setting.black_box), SamplerParams(samples=samples, radius_fraction=0.05)
    try:
        sample = sample_boundary(problem, meter, params, survey(problem, meter, params))
        if kind in ("quadratic", "bures", "fisher_rao"):
            return fit_sample(sample, kind, radius_favourable=0.0, radius_unfavourable=1.0).model  # type: ignore[arg-type]
        return direction(problem, sample, meter, kind)[0].unit()  # type: ignore[arg-type]
    except DegenerateSurrogate:
        return None


# --- cost against validity -------------------------------------------------------------------------------------------

ROAR_RADII = (0.0, 0.02, 0.05, 0.1, 0.2)
CURVES: tuple[tuple[str, str, Sequence[dict[str, Any]]], ...] = (
    ("robust_mpm", "robust_mpm", [{"radius_unfavourable": r, "margin": 0.1} for r in (0.0, 1.0, 3.0, 10.0)]),
    ("roar, lime", "roar", [{"surrogate": "lime", "weight_radius": r} for r in ROAR_RADII]),
    ("roar, clime", "roar", [{"surrogate": "clime", "weight_radius": r} for r in ROAR_RADII]),
    ("roar, ridge (LIMELS)", "roar", [{"surrogate": "ridge", "weight_radius": r} for r in ROAR_RADII]),
    ("roar, svm", "roar", [{"surrogate": "svm", "weight_radius": r} for r in ROAR_RADII]),
    (
        "learning_augmented, auto",
        "learning_augmented",
        [{"cost_weight": "auto", "weight_radius": r} for r in (0.0, 0.1, 0.2, 0.4, 0.6)],
    ),
    ("robust_projection", "robust_projection", [{"weight_radius": r} for r in (0.0, 0.05, 0.1, 0.2)]),
    ("wachter", "wachter", [{}]),
)
FRACTIONS = {"synthetic": 0.1, "German": 0.2, "Student": 0.7}
"""Sampling radius as a share of the largest distance: that of the authors' code."""


def futures() -> None:
    """Cost against validity under networks trained on shifted data, as in section 6.2."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8))
    for axis, setting in zip(axes, settings(FRONTIER_PEOPLE), strict=False):
        rows = []
        for label, name, params in CURVES:
            points = []
            for one in params:
                cost, now, later = _reached(setting, name, one)
                points.append((cost, later))
                said = ", ".join(f"{k} {v}" for k, v in one.items() if k not in ("surrogate", "margin"))
                published = PUBLISHED.get(setting.data.name, "") if one == _published_setting() else ""
                rows.append((label, said, f"{cost:.2f}", f"{now:.2f}", f"{later:.2f}", published))
            axis.plot([p[0] for p in points], [p[1] for p in points], marker=".", label=label)
        axis.set(title=setting.data.name, xlabel="mean L1 cost", ylabel="future validity")
        axis.legend(fontsize=6)
        head = (
            "method",
            "setting",
            "L1 cost",
            "current validity",
            "future validity",
            "published cost / current / future",
        )
        show(f"Cost and validity, {setting.data.name}, {papers.FUTURES} future networks", head, rows)
    papers.save_figure(figure, "futures.png")


def _published_setting() -> dict[str, Any]:
    return {"radius_unfavourable": 10.0, "margin": 0.1}


def _reached(setting: Setting, name: str, params: dict[str, Any]) -> tuple[float, float, float]:
    method = METHODS[name]
    stated = method.params(radius_fraction=FRACTIONS[setting.data.name], **params)  # type: ignore[call-arg]
    found = []
    for seed, row_raw in enumerate(setting.refused_raw):
        answer = solve(setting.problem(row_raw, seed=seed), method, stated)
        if answer.counterfactuals:
            found.append(answer.counterfactuals[0])
    X = setting.data.space.encode(np.array([one.row_raw for one in found]))
    later = float(np.mean([decide(X).mean() for decide in setting.futures]))
    return float(np.mean([one.cost for one in found])), len(found) / len(setting.refused_raw), later
