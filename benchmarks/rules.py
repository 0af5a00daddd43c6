"""What one rule between features costs each method in time, on the demo model."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from app.recourse.actions.action_set import action_set
from app.recourse.actions.rules import Rule
from app.recourse.certificate_params import CertificateParams
from app.recourse.problem import RecourseProblem
from app.recourse.solve import METHODS, solve
from app.registry.ref import Store
from app.registry.rules import RuleParser
from app.registry.version import LoadedModel
from app.settings import Settings
from benchmarks.tables import show

PEOPLE = 20
NAMES = ("robust_mpm", "learning_augmented", "probe", "copa", "robust_projection")
ALLOWING = ("monthly_debt <= monthly_income", "amount <= 4 * monthly_income", "amount <= 300 * term")
"""Rules that most of the answers without them keep."""
BINDING = ("monthly_debt >= 0.05 * monthly_income", "amount >= 180 * term")
"""Rules that most of the answers without them break."""


def table() -> None:
    """Median processor time of an answer with a rule, as a multiple of that of the same people without."""
    models = Path(__file__).parent.parent / "models_store"
    store = Store.of(Settings(models_store=models)).open()
    model = store.find("consumer-loan", include_inactive=False).load()
    columns = ("rule", *NAMES)
    show(f"Processor time with a rule / without, up to {PEOPLE} people, {model.registered.name}", columns, _rows(model))


def _rows(model: LoadedModel) -> Iterable[Sequence[str]]:
    parser = RuleParser(model.registered.manifest.features)
    for text in (*ALLOWING, *BINDING):
        rule = parser.parse(text)
        refused = model.reference.rows_raw[model.reference.scores < 0.0]
        people = refused[rule.holds(refused)][:PEOPLE]
        times = [(_median_s(model, name, people, ()), _median_s(model, name, people, (rule,))) for name in NAMES]
        yield text, *(f"{ruled / free:.1f} ({1e3 * ruled:.0f} ms)" for free, ruled in times)


def _median_s(model: LoadedModel, name: str, people: np.ndarray, rules: tuple[Rule, ...]) -> float:
    method, space = METHODS[name], model.black_box.space
    times = []
    for row_raw in people:
        problem = RecourseProblem(
            black_box=model.black_box,
            reference=model.reference,
            action_set=action_set(space, row_raw, rules=rules),
            deadline=time.monotonic() + 30.0,
        )
        start = time.thread_time()
        solve(problem, method, method.params(), CertificateParams(), plan_s=0.0)
        times.append(time.thread_time() - start)
    return float(np.median(times))
