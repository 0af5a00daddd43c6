"""What is known about an answer before it is computed."""

from dataclasses import dataclass, fields
from datetime import datetime

from app.questions.answers import Json, ModelVersion, Timestamp
from app.recourse.actions.timing import DAYS_PER_MONTH
from app.recourse.models.score import PointScale
from app.registry.version import RegisteredModel

UNSHOWN = frozenset(("scores", "points"))
"""Fields of a frame that are not in answers by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What is known of an answer before it is computed, such as its id, its model and its times."""

    id: str | None = None
    reference: str | None = None
    model: ModelVersion
    threshold: float | None = None
    """Smallest favourable probability."""
    method: Json | None = None
    """Its name and every parameter; None for that of the question."""
    seed: int
    stored: bool = False
    created_at: Timestamp = ""
    expires_at: Timestamp = ""
    scores: bool = True
    """Whether the caller may read scores of the records that it brings."""
    points: PointScale | None = None
    """Of a model that gives points."""

    @property
    def valid_months(self) -> float:
        """Months from the creation of the answer to its expiry, at the end of a day."""
        valid = datetime.fromisoformat(self.expires_at) - datetime.fromisoformat(self.created_at)
        return valid.total_seconds() / 86_400.0 / DAYS_PER_MONTH

    def known(self, *names: str) -> Json:
        """The values of the fields `names` of the frame, by name; without names, of all fields that answers show."""
        shown = names or (f.name for f in fields(self) if f.name not in UNSHOWN)
        return {name: getattr(self, name) for name in shown}

    @classmethod
    def from_json(cls, data: Json) -> "Frame":
        """The frame that `data` describes; `data` is the JSON of a frame or of an answer."""
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        points = known.get("points") and PointScale(**known["points"])
        return cls(**{**known, "model": ModelVersion(**data["model"]), "points": points})


def identity(model: RegisteredModel) -> ModelVersion:
    """The id, version and SHA-256 of a model, as answers state them."""
    return ModelVersion(id=model.id, version=model.version, sha256=model.sha256)
