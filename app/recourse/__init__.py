"""The numerics of algorithmic recourse as a library: numpy, scipy, highspy and clarabel; no web, no database, no torch.

Everything a user needs can be imported from here:

>>> import numpy as np
>>> from scipy.spatial.distance import pdist
>>> from app.recourse import METHODS, CertificateParams, RecourseProblem, Reference, action_set, solve
>>> from app.recourse import BlackBox, Change, Feature, FeatureSpace, FeatureType
>>> income = Feature(name="income", type=FeatureType.INTEGER, min=0, step=100, center=3000.0, scale=1000.0)
>>> debt = Feature(
...     name="debt", type=FeatureType.INTEGER, min=0, step=100, change=Change.DECREASE, center=5000.0, scale=2500.0
... )
>>> space = FeatureSpace([income, debt])
>>> model = BlackBox(space=space, predict=lambda X: 1.0 / (1.0 + np.exp(X[:, 1] - X[:, 0])))
>>> rows_raw = np.random.default_rng(0).integers(0, 80, (200, 2)) * 100.0
>>> reference = Reference(
...     space=space,
...     rows_raw=rows_raw,
...     scores=model.score_raw(rows_raw),
...     largest_distance=float(pdist(space.encode(rows_raw)).max()),
... )
>>> applicant_raw = space.read({"income": 2500, "debt": 6500})
>>> problem = RecourseProblem(black_box=model, reference=reference, action_set=action_set(space, applicant_raw))
>>> method = METHODS["robust_mpm"]
>>> result = solve(problem, method, method.params(), CertificateParams())
>>> result.status.value
'found'
>>> advice = space.record(result.counterfactuals[0].row_raw)
>>> advice["income"] >= 2500 and advice["debt"] <= 6500
True

Several ways differ in what they change:

>>> from dataclasses import replace
>>> ways = solve(replace(problem, count=2), method, method.params())
>>> len({one.changed for one in ways.counterfactuals})
2

Names are loaded when they are first used, so that a process that needs one submodule loads that one alone. A verb has
the name of its module: ``app.recourse.solve`` is the function, and what else the module has is imported with
``from app.recourse.solve import ...``.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.recourse.actions.action_set import ActionSet, action_set
    from app.recourse.actions.constraints import Bounds, Constraints, Direction
    from app.recourse.actions.rules import LinearRule
    from app.recourse.actions.wishes import ChangeTo, Exclude, Wishes
    from app.recourse.assess import Assessment, assess
    from app.recourse.certificate_params import CertificateParams
    from app.recourse.correct import Correction, correct
    from app.recourse.counterfactual import Certificate, Counterfactual
    from app.recourse.features import Change, Feature, FeatureSpace, FeatureType, fit_encoding
    from app.recourse.frontier import Frontier, frontier
    from app.recourse.method import Method, MethodParams
    from app.recourse.methods import METHODS
    from app.recourse.models.black_box import BlackBox, Input
    from app.recourse.models.score import Output
    from app.recourse.plans.corrector import CorrectionParams
    from app.recourse.problem import RecourseProblem, Reference
    from app.recourse.result import RecourseResult, Status
    from app.recourse.solve import solve
    from app.recourse.solve_many import solve_many
    from app.recourse.verdict import Reason, Verdict

_MODULES = {
    "actions.action_set": ("ActionSet", "action_set"),
    "actions.constraints": ("Bounds", "Constraints", "Direction"),
    "actions.rules": ("LinearRule",),
    "actions.wishes": ("ChangeTo", "Exclude", "Wishes"),
    "assess": ("Assessment", "assess"),
    "certificate": ("CertificateParams",),
    "correct": ("Correction", "correct"),
    "counterfactual": ("Certificate", "Counterfactual"),
    "features": ("Change", "Feature", "FeatureSpace", "FeatureType", "fit_encoding"),
    "frontier": ("Frontier", "frontier"),
    "method": ("Method", "MethodParams"),
    "methods": ("METHODS",),
    "models.black_box": ("BlackBox", "Input"),
    "models.score": ("Output",),
    "plans.corrector": ("CorrectionParams",),
    "problem": ("RecourseProblem", "Reference"),
    "result": ("RecourseResult", "Status"),
    "solve": ("solve",),
    "solve_many": ("solve_many",),
    "verdict": ("Reason", "Verdict"),
}
_MODULE_OF = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}

__all__ = list(_MODULE_OF)


class _Facade(ModuleType):
    """Loads a name with its module when it is first used."""

    def __getattr__(self, name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_MODULE_OF[name]), name)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # The import system binds every submodule that it loads; the verb of the same name comes first.
        if not (name in _MODULE_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Facade
