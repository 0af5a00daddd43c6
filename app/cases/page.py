"""The case file as one page that prints."""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from app.cases.case import CaseFile
from app.errors import RecourseError
from app.letters.facts import version_of
from app.models.models import Models
from app.questions.answers import plain
from app.questions.ways import changes_in_order
from app.recourse.features import Feature
from app.recourse.reasons import value_text
from app.recourse.shares import percent

TEMPLATES = files("app.cases") / "templates"


def html(file: CaseFile, models: Models) -> str:
    """The HTML page of a case file; it shows labels of features if the version that answered is still registered."""
    features: dict[str, Feature] = {}
    title = str(file.answer["model"]["id"])
    try:
        model = models.find(version_of(dict(file.answer)), include_inactive=True)
        features, title = {one.name: one for one in model.space.schema}, model.manifest.title
    except RecourseError:
        pass
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((TEMPLATES / "case.html").read_text(encoding="utf-8"))
    return template.render(
        plain(file),
        title=title,
        css=(TEMPLATES / "case.css").read_text(encoding="utf-8"),
        record=dict(_said(features, file.request["applicant"])),
        corrected=[dict(_said(features, review.corrections)) for review in file.reviews],
        question={name: value for name, value in file.request["question"].items() if name != "factual_raw"},
        in_order=changes_in_order,
        moment=_moment,
        percent=percent,
    )


def _said(features: Mapping[str, Feature], record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Label and value of each feature as people say them; as they are in JSON where the feature is not known."""
    for name, value in record.items():
        try:
            feature = features[name]
            yield feature.title, value_text(feature, feature.parse(value)) or "not stated"
        except (KeyError, ValueError):
            yield name, "not stated" if value is None else str(value)


def _moment(text: str) -> str:
    """A time to the minute, in UTC."""
    return f"{text[:10]} {text[11:16]} UTC"
