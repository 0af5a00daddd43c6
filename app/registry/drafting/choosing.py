"""Chooses the manifest of a draft among the possible ones, and asks the lender where nothing shows which is right."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from app.recourse.features import MISSING, Feature, parse_column
from app.recourse.models.score import LOGIT_LIMIT, Output
from app.registry.drafting.candidates import Known, candidates, is_one
from app.registry.drafting.cut_off import own_cut_off
from app.registry.drafting.evidence import Choice, Trial
from app.registry.drafting.features import FeatureDraft, fills
from app.registry.drafting.matching import listed
from app.registry.drafting.outcome import FAVOURABLE, chance, side_question
from app.registry.drafting.questions import Question, Questions
from app.registry.parsed_manifest import ParsedManifest
from app.registry.trust import Trust

THRESHOLD = "threshold"
CUT_OFF = Question(
    key=THRESHOLD, sentence="What is the smallest output with which people get a yes?", flag="--threshold",
    required=False, keep="0.5, or that of the model's file",
)  # fmt: skip
POINTS = Question(
    key=THRESHOLD, sentence="What is the smallest number of points with which people get a yes?", flag="--threshold",
    why=("where fewer points are better, the largest; such as 620",),
)  # fmt: skip
BETTER = Question(
    key="better", sentence="Are more points better for the applicant, or fewer?", allowed=("higher", "lower"),
    why=("no column has outcomes that would show it; --label names one",),
)  # fmt: skip

FILLED = "filled"
"""Key of the question about a model that takes no missing numbers."""

FILLINGS = ("median", "mean", "0")
"""What may stand for missing numbers, as `features.fills` has it."""

USUAL_PDO = 20.0
"""Points that double the odds, as scorecards have them."""

ROUNDED = 1_000
"""Records whose numbers are rounded to see how finely the model cuts."""

FINEST = 6
"""Decimals beyond which no person follows."""

ALIKE = 0.005
"""Share of the records up to which a decision may be another one where a number is rounded."""


def choose(
    head: Mapping[str, Any], known: Known, directory: Path, trust: Trust, questions: Questions, notes: list[str]
) -> Choice:
    """The candidate manifest that agrees best with the lender's scores, outcomes and answers, with the evidence for it.

    Each candidate has all keys of `head`, then further keys. Sentences about the chosen manifest are added to `notes`.
    """
    possible = candidates(head, known)
    features = ParsedManifest.of(possible[0]).features
    own = [feature for feature in features or () if feature.derived is None]
    rows_raw = None if features is None else _rows(own, known)
    if rows_raw is None:
        return Choice(manifest=possible[0])
    favourable = None if known.outcome is None else known.outcome.favourable
    trial = Trial(
        directory=directory, trust=trust, rows_raw=rows_raw, read_as=own, scores=known.scores, favourable=favourable
    )
    return _Choosing(known=known, trial=trial, questions=questions, notes=notes).run(possible)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choosing:
    known: Known
    trial: Trial
    questions: Questions
    notes: list[str]

    def run(self, possible: list[dict[str, Any]]) -> Choice:
        """The best of the `possible` manifests, with a threshold and decimals that fit the model's decisions."""
        if self.known.scores is None:
            possible = self._filled(possible)
        chosen = self.trial.choose(self._coded(possible))
        for key in (FAVOURABLE, BETTER.key):
            sides = list(dict.fromkeys(str(one.get(key)) for one in possible))
            if len(sides) > 1 and chosen.area is not None and chosen.area <= chance(self.trial.favourable):
                answer = self.questions.ask(side_question(key, sides, chosen.area))
                possible = [one for one in possible if answer in (None, str(one.get(key)))]
                chosen = self.trial.choose(possible)
        if self.known.facts.remote:
            return chosen
        if chosen.manifest["output"] == Output.POINTS.value:
            return self._fine(replace(chosen, manifest=self._with_odds(chosen.manifest)))
        return self._fine(self._cut_off(chosen))

    def _filled(self, possible: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of the candidates that treat missing numbers as a model that takes none was trained, as is asked."""
        ways: dict[str, list[dict[str, Any]]] = {}
        for one in possible:
            stated = [(each.get("missing"), each.get("fill")) for each in one["features"]]
            ways.setdefault(repr(stated), []).append(one)
        plain, *filled = ways.values()
        if not filled or any(self.trial.outputs(one) is not None for one in plain):
            return plain if filled else possible  # the model takes missing numbers itself
        known = self.known
        asked = [feature for feature in known.features if feature.keys.get("missing") in ("nan", "indicator")]
        named = {
            name: next(one for one in filled if _fills_with(one[0], way))
            for name, way in zip(FILLINGS, fills(asked, known.columns), strict=True)
        }
        missing = [feature.name for feature in asked if feature.keys["missing"] == "nan"]
        answer = self.questions.ask(Question(
            key=FILLED, allowed=tuple(named), sentence="What does the model take in place of missing numbers?",
            why=(f"it takes no missing ones, and the records have such in {listed(missing)}",),
        ))  # fmt: skip
        self.questions.settle()
        return named[str(answer)]

    def _coded(self, possible: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of the candidates that take codes of levels as the lender says; scores may show it."""
        ways = sorted({one["artifact"]["codes"] for one in possible if "codes" in one["artifact"]})
        if len(ways) < 2 or self.known.scores is not None:
            return possible
        answer = self.questions.ask(Question(
            key="codes", allowed=tuple(ways), sentence="Levels are written as numbers: does the model take these "
            "numbers, or their positions among the levels, from 0?", why=("its trees would split alike by both",),
        ))  # fmt: skip
        return [one for one in possible if one["artifact"]["codes"] == answer] or possible

    def _cut_off(self, chosen: Choice) -> Choice:
        """The same choice with the model's own threshold; asks for it where its decisions show another one."""
        found = own_cut_off(chosen.manifest, self.known.facts, self.trial.outputs)
        stated = self.known.threshold
        differs = f"The model itself decides {found.differ:,} of {len(self.trial.rows_raw):,} records in another way"
        if stated is not None:
            if found.differ:
                self.notes.append(f"{differs} than the threshold {stated:g} does, which you say.")
            return chosen
        if not found.differ:
            own = found.manifest is not chosen.manifest
            if own:
                self.notes.append(f"The threshold {found.manifest['threshold']:.6g} is the model's own, from its file.")
            return replace(chosen, manifest=found.manifest, own_threshold=own)
        shown = (
            "several classes, of which the likeliest wins" if found.between is None
            else f"its own threshold lies above {found.between[0]:.6g}, and is at most {found.between[1]:.6g}"
        )  # fmt: skip
        why = (f"{differs} than a threshold of {chosen.manifest['threshold']:g} does: {shown}",)
        self.questions.ask(replace(CUT_OFF, required=True, why=why))
        return chosen

    def _with_odds(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """The manifest with as many points that double the odds as suit its numbers, where 20 are far too few."""
        found = self.trial.outputs(manifest)
        if found is None or np.abs(found - manifest["threshold"]).max() * math.log(2.0) / USUAL_PDO <= LOGIT_LIMIT / 2:
            return manifest
        return {**manifest, "odds": {"pdo": float(f"{np.std(found) / 2.0:.1g}")}}

    def _fine(self, chosen: Choice) -> Choice:
        """The same choice with as many decimals of each number as the model's decisions need."""
        manifest = chosen.manifest
        names = [feature.name for feature in self.trial.read_as]
        coarse = [
            one for one in manifest["features"]
            if one.get("decimals", FINEST) < FINEST and one["name"] in names and self.known.columns[one["name"]].long
        ]  # fmt: skip
        tried = [(one, digits) for one in coarse for digits in range(one["decimals"], FINEST)]
        if not tried or "threshold" not in manifest:
            return chosen
        few = self.trial.rows_raw[:: 1 + len(self.trial.rows_raw) // ROUNDED]
        rows = np.repeat(few[None], 1 + len(tried), axis=0)
        for row, (one, digits) in zip(rows[1:], tried, strict=True):
            column = row[:, names.index(one["name"])]
            quantity = ~np.isin(column, [MISSING, *one.get("special", ())])
            column[quantity] = np.round(column[quantity], digits)
        outputs = self.trial.outputs(manifest, rows.reshape(-1, len(names)))
        if outputs is None:
            return chosen
        decisions = (outputs >= manifest["threshold"]).reshape(len(rows), -1)
        needed = {one["name"]: FINEST for one in coarse}
        for (one, digits), decided in reversed(list(zip(tried, decisions[1:], strict=True))):
            if (decided != decisions[0]).mean() <= ALIKE:
                needed[one["name"]] = digits
        features = [
            {**one, "decimals": needed[one["name"]]} if one["name"] in needed else one for one in manifest["features"]
        ]
        return replace(chosen, manifest={**manifest, "features": features})


def cells(feature: FeatureDraft, texts: Sequence[str]) -> Sequence[str]:
    """The cells of one column in the draft's reference file.

    For a flag, `texts` are written as "true" and "false"; for any other feature, they stay unchanged.
    """
    if feature.keys["type"] == "binary" and "categories" not in feature.keys:
        return [text and ("true" if is_one(text) else "false") for text in texts]
    return texts


def _rows(own: Sequence[Feature], known: Known) -> Float[np.ndarray, "n p"] | None:
    """The raw rows of the records, as they are read from the reference; None where a level cannot be."""
    found = np.empty((len(next(iter(known.columns.values())).texts), len(own)))
    drafted = {feature.name: feature for feature in known.features}
    for j, feature in enumerate(own):
        column = known.columns[feature.name]
        if feature.is_number and column.numbers is not None:
            found[:, j] = np.where(np.isnan(column.numbers), MISSING, column.numbers)
        else:
            found[:, j], faults = parse_column(feature, cells(drafted[feature.name], column.texts))
            if faults:
                return None
    return found


def _fills_with(manifest: Mapping[str, Any], way: Mapping[str, float]) -> bool:
    """Whether a manifest has these numbers in place of missing ones, where it has some."""
    return all(way.get(each["name"], each["fill"]) == each["fill"] for each in manifest["features"] if "fill" in each)
