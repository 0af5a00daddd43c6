"""What a request says about the certificate, and the faults of that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval

from app.errors import Fault, InvalidRequest
from app.recourse.features import FeatureSpace
from app.recourse.input_part import InputPart
from app.recourse.robustness.invalidation import noise_faults
from app.recourse.surrogate.weight_moments import MomentsKind


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateParams(InputPart):
    """Contents and precision of the certificate."""

    ambiguity_radius: Annotated[float, Interval(ge=0, le=10)] = 0.01
    """How far mean and covariance of the retrained model's weights may be from their estimate (Gelbrich distance)."""
    moments: MomentsKind = "auto"
    """Where mean and covariance come from. `future`: future models; `surrogate`: uncertainty of the local model, which
    says nothing about retraining; `registered`: retraining on random halves of the reference; `ensemble`: other active
    versions; `isotropic`: one variance in every direction; `auto`: `future` where there are such, else `surrogate`."""
    isotropic_variance: Annotated[float, Interval(gt=0, le=100)] = 0.05
    """Variance of each weight, for `isotropic`."""
    noise_std: Annotated[float, Interval(ge=0, le=10)] | Mapping[str, Annotated[float, Interval(ge=0, le=10)]] = 0.1
    """Standard deviation of inexact implementation, encoded units: one number for all numeric features not
    implemented exactly, or numbers by feature."""
    ensemble: bool = False
    """Whether to ask the other active versions of the model too, one call each."""
    noise_samples: Annotated[int, Interval(ge=0, le=100_000)] = 0
    """Noisy copies of each counterfactual that the model itself scores, in one further call; 0 for none."""

    @property
    def asks_siblings(self) -> bool:
        """Whether the certificate counts how many of the model's other active versions accept each record."""
        return self.ensemble or self.moments == "ensemble"


def check_noise(space: FeatureSpace, params: CertificateParams) -> list[Fault]:
    """Faults in the feature names of `params.noise_std`, with pointers into `params`."""
    return [fault.under("/noise_std") for fault in noise_faults(space, params.noise_std)]


def check_moments(params: CertificateParams, *, registered: bool, futures: bool) -> list[Fault]:
    """Faults in the choice of moments, with pointers into `params`.

    Parameters
    ----------
    registered : whether the model was registered with moments of its own
    futures : whether the model has future models
    """
    if params.moments == "future" and not futures:
        return [Fault("/moments", "is future, but the model has no future models: rehearse its retraining first")]
    if params.moments != "registered" or registered:
        return []
    detail = (
        "is registered, but the model was registered without them: only a linear model whose manifest names a label "
        "has any; use surrogate"
    )
    return [Fault("/moments", detail)]


def invalid(faults: Sequence[Fault]) -> InvalidRequest:
    """The `InvalidRequest` for `faults` of certificate parameters, with their pointers moved below `/certificate`."""
    return InvalidRequest(faults=[fault.under("/certificate") for fault in faults])
