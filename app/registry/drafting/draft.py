"""The draft of a model directory, from a lender's records and model."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.errors import ModelRefused
from app.recourse.models.black_box import Input
from app.recourse.models.score import Output
from app.registry.artifact import Format
from app.registry.drafting import served_model
from app.registry.drafting.artifacts import read_facts
from app.registry.drafting.candidates import Known
from app.registry.drafting.choosing import BETTER, CUT_OFF, POINTS, THRESHOLD, cells, choose
from app.registry.drafting.columns import Column
from app.registry.drafting.evidence import Choice
from app.registry.drafting.facts import ModelFacts
from app.registry.drafting.features import (
    MOST_LEVELS,
    TERMS,
    FeatureDraft,
    advise,
    ask_codes_once,
    change_question,
    doubted,
    feature_of,
    terms_question,
)
from app.registry.drafting.matching import Source, listed, match, match_width
from app.registry.drafting.outcome import (
    FAVOURABLE,
    Labels,
    Outcome,
    class_question,
    labels_of,
    outcome_question,
    refuse_contradiction,
)
from app.registry.drafting.own_names import own_names
from app.registry.drafting.questions import ANSWERS, Question, Questions, Undecided
from app.registry.drafting.ratios import combine, derive
from app.registry.drafting.records import Records, read_records
from app.registry.drafting.sentinels import sentinels
from app.registry.drafting.table import PERCENT, columns_of
from app.registry.drafting.writing import manifest_text, whole, write_reference
from app.registry.lender_scores import SCORE, parse_scores, read_scores
from app.registry.manifest import ID, MANIFEST
from app.registry.trust import Trust

REFERENCE = "reference.csv"

NO_MODEL = ModelFacts(format=Format.SKLEARN, file="", content=b"", input=Input.RAW)
"""What is known of a model that is not given."""

LABEL_COLUMN = "favourable_outcome"
"""Name of the label in the reference where its own is that of a feature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a lender gives to ask for a draft: files, flags and answers."""

    data: Path
    model: Path | None = None
    url: str | None = None
    """Address of a model server, in place of the file."""
    label: str | None = None
    favourable: str | None = None
    """Value of the label that is the favourable outcome."""
    scores: str | None = None
    """A column of the data, or a file: the lender's own scores."""
    threshold: float | None = None
    id: str | None = None
    """Name of the model."""
    drop: tuple[str, ...] = ()
    """Columns that are no features."""
    columns: tuple[str, ...] = ()
    """Columns that a model without names takes, in its order; all when empty."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """Answers to the draft's questions, by their names; `favourable` and `threshold` go before them."""
    kept: frozenset[str] | None = None
    """Names of the questions that a person has left as they are, as `Questions.kept`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """The result of a draft: the model directory that it has written."""

    directory: Path
    notes: tuple[str, ...]
    """What was found, and what was left out, in sentences."""
    decisions: int
    """Comments that ask for a decision."""
    complete: bool
    """Whether it has a model, so that it may register."""


def draft(wish: Wish, out: Path | None, trust: Trust) -> Drafted:
    """Write a model directory from records and, where there is one, a model.

    The directory is `out`; where `out` is None, its name is the wished id or comes from the file of records.

    Raises `ModelRefused` where the records or the model cannot be read, or do not fit each other; `Undecided` where a
    question that the draft must not guess has no answer. Nothing is then written.
    """
    if wish.id is not None and not re.fullmatch(ID, wish.id):
        raise ModelRefused(f'--id "{wish.id}" must be of lower-case letters, digits, ".", "_" and "-", at most 64')
    directory = Path(wish.id or _plain_id(wish.data.stem)) if out is None else out
    for name in (MANIFEST, REFERENCE, ANSWERS):
        _refuse_existing(directory / name)
    flags = {FAVOURABLE: wish.favourable, THRESHOLD: None if wish.threshold is None else repr(wish.threshold)}
    given = {**wish.answers, **{name: answer for name, answer in flags.items() if answer is not None}}
    return _Drafting(wish=wish, directory=directory, trust=trust, questions=Questions(given, wish.kept)).run()


@dataclass(slots=True)
class _Drafting:
    """The steps of one draft."""

    wish: Wish
    directory: Path
    trust: Trust
    questions: Questions
    notes: list[str] = field(default_factory=list)

    def run(self) -> Drafted:
        """Take all steps of the draft; files are written only after the last decision."""
        wish = self.wish
        records = read_records(wish.data)
        facts = self._facts(records)
        artifact = None if facts is NO_MODEL or facts.remote else self.directory / facts.file
        if artifact is not None and artifact.exists() and artifact.read_bytes() != facts.content:
            _refuse_existing(artifact)
        cut_off = self.questions.ask(POINTS if facts.output is Output.POINTS else CUT_OFF)
        threshold = None if cut_off is None else float(cut_off)
        scores = self._scores(records)
        labels = None
        if wish.label is not None:
            texts = records.column(wish.label, "the label")
            labels = labels_of(wish.label, texts, self.questions.given.get(FAVOURABLE))
            if left := records.count - len(labels.rows):
                self.notes.append(f"{left} records without a value of {labels.name} are left out of the reference.")
                records, scores = records.of(labels.rows), None if scores is None else scores[labels.rows]
        elif facts is NO_MODEL and FAVOURABLE in self.questions.given:
            raise ModelRefused("--favourable names a value of the label: say --label too")
        for name in wish.drop:
            records.column(name, "--drop")
        if wish.columns:
            records = replace(records, columns={name: records.column(name, "--columns") for name in wish.columns})
        left_out = {wish.label, *wish.drop} | ({wish.scores} - set(facts.names or ()))
        columns = columns_of(records, facts, self.questions, left_out=left_out, scored=scores is not None)
        sources = self._sources(facts, columns)
        features = [feature_of(source, columns[source.column], facts) for source in sources]
        self._ask_codes(facts, features)
        read_as_missing = sentinels(facts, features, columns, self.questions, scored=scores is not None)
        derive(features, columns, facts)
        combine(features, columns, exact=scores is not None)
        if facts is not NO_MODEL:
            self.notes += [_found(facts, features), *facts.notes]
        unused = [name for name in columns if name not in {feature.name for feature in features}]
        if unused:
            named = [name or "one without a name" for name in unused]
            self.notes.append(f"Columns that are no features: {listed(named)}.")
        favourable = self._favourable(labels, facts, columns, scores)
        better = self.questions.ask(BETTER) if labels is None and facts.output is Output.POINTS else None
        self.questions.settle()
        outcome = None
        if labels is not None and favourable is not None:
            outcome = Outcome(name=labels.name, favourable=labels.of(favourable), value=favourable)
            if facts.output is not Output.POINTS and not (facts.format is Format.LINEAR and (threshold or 0.0) >= 1.0):
                refuse_contradiction(outcome, scores)
        self._advise(features, columns, outcome)
        known = Known(
            facts=facts, features=features, columns=columns, outcome=outcome, scores=scores, favourable=favourable,
            better=better, threshold=threshold, sentinels=read_as_missing,
        )  # fmt: skip
        with whole(self.directory, [MANIFEST, REFERENCE, ANSWERS, *([] if artifact is None else [facts.file])]):
            self.directory.mkdir(parents=True, exist_ok=True)
            label = self._write_reference(known)
            if artifact is not None:
                artifact.write_bytes(facts.content)
            text = self._manifest(known, label, own_names(facts, features, sources))
            self.questions.close()
            (self.directory / MANIFEST).write_text(text, encoding="utf-8")
            (self.directory / ANSWERS).write_text(self.questions.text(), encoding="utf-8")
        decisions = sum("# " in line and line.endswith("?") for line in text.splitlines())
        return Drafted(
            directory=self.directory, notes=tuple(self.notes), decisions=decisions, complete=facts is not NO_MODEL
        )

    def _facts(self, records: Records) -> ModelFacts:
        """What is known of the model."""
        wish = self.wish
        if wish.url is not None and wish.model is not None:
            raise ModelRefused("say --model or --url: a model is a file, or at a server")
        if wish.url is not None:
            return served_model.read(wish.url, self.trust).over(records.columns)
        return NO_MODEL if wish.model is None else read_facts(wish.model, self.trust).over(records.columns)

    def _scores(self, records: Records) -> np.ndarray | None:
        given = self.wish.scores
        if given is None:
            return None
        if given in records.columns:
            scores, faults = parse_scores(records.columns[given], records.delimiter)
            if faults:
                raise ModelRefused(f'the column "{given}" is to hold scores, but {faults[0].detail}')
        else:
            path = Path(given)
            if not path.exists():
                raise ModelRefused(
                    f'--scores "{given}" is neither a file nor a column of {records.file}, which has '
                    f"{listed(list(records.columns))}"
                )
            scores = read_scores(path)
        if len(scores) != records.count:
            raise ModelRefused(
                f"there are {len(scores)} scores for {records.count} records; give one for each, in order"
            )
        return scores

    def _favourable(
        self, labels: Labels | None, facts: ModelFacts, columns: Mapping[str, Column], scores: np.ndarray | None
    ) -> str | None:
        """The value or class that the lender says is favourable; None where nothing asks for one, or not yet."""
        if labels is not None:
            return self.questions.ask(outcome_question(labels, columns, scores))
        if facts is NO_MODEL or facts.output is Output.POINTS:
            return None
        return self.questions.ask(class_question(facts.classes))

    def _advise(self, features: Sequence[FeatureDraft], columns: Mapping[str, Column], outcome: Outcome | None) -> None:
        """What people can change of each feature; of what nothing is known, the lender is asked."""
        unknown: list[str] = []
        for feature in features:
            column = columns[feature.name]
            question = change_question(column, outcome)
            answer = self.questions.ask(question) if question.name in self.questions.given else None
            if advise(feature, column, answer):
                self.questions.ask(question)
                unknown.append(feature.name)
            elif answer is None and outcome is not None and (doubt := doubted(feature, column, outcome)):
                self.questions.ask(
                    replace(question, why=(*question.why, doubt), keep=feature.keys.get("change", "any"))
                )
                feature.comments.append(doubt)
            if (term := terms_question(feature)) is not None:
                feature.keys |= TERMS[self.questions.ask(term) or "no"]
        ask_codes_once(features)
        if unknown:
            self.notes.append(
                f"Fixed, as neither name nor values say what they are: {listed(unknown)}. {ANSWERS} has the questions."
            )

    def _ask_codes(self, facts: ModelFacts, features: Sequence[FeatureDraft]) -> None:
        """Ask what codes of levels mean that the file does not name; scores may show it."""
        for feature in features:
            if feature.name not in facts.coded:
                continue
            order = [str(level) for level in feature.keys["categories"]]
            answer = self.questions.ask(Question(
                key="codes", column=feature.name, allowed=("yes", "no"), required=self.wish.scores is None,
                sentence=f'The model takes codes for "{feature.name}": are 0, 1, … its levels in the order '
                f"{listed(order)}?",
            ))  # fmt: skip
            if answer == "no":
                raise ModelRefused(f'write the codes that the model takes into "{feature.name}" of the records')

    def _sources(self, facts: ModelFacts, columns: Mapping[str, Column]) -> list[Source]:
        """Where the columns of the model come from."""
        if facts.input is Input.RAW and facts.names is None:
            usable = {
                name: column.numbers is not None or (len(column.levels) <= MOST_LEVELS and not column.constant)
                for name, column in columns.items()
            }
            return [Source(column=name) for name, use in usable.items() if use and not columns[name].names_records]
        if facts.input is Input.RAW:
            missing = [name for name in facts.names or () if name not in columns]
            if missing:
                raise ModelRefused(
                    f"{facts.file} takes columns that {self.wish.data.name} does not have: {listed(missing)}. It has "
                    f"{listed(list(columns))}"
                )
            return [Source(column=name) for name in facts.names or ()]
        if facts.names is not None:
            return match(facts.names, columns, facts.file)
        if facts.width is None:
            raise ModelRefused(f"{facts.file} does not say how many columns it takes; save it with their names")
        sources = match_width(facts.width, columns, facts.file)
        if not self.wish.columns:
            self.notes.append(
                f"{facts.file} has no names of columns; it is taken to have {listed([s.column for s in sources])}, in "
                "this order (--columns says another)."
            )
        return sources

    # --- the files ---

    def _write_reference(self, known: Known) -> str | None:
        """Write the records; returns the column of true outcomes, if there is one."""
        table: dict[str, Sequence[str]] = {
            feature.name: cells(feature, known.columns[feature.name].texts) for feature in known.features
        }
        label, outcome, scores = None, known.outcome, known.scores
        if outcome is not None:
            label = outcome.name if outcome.name not in table else LABEL_COLUMN
            table[label] = [str(int(yes)) for yes in outcome.favourable]
            self.notes.append(
                f'The favourable outcome is {outcome.name} = "{outcome.value}": '
                f"{outcome.favourable.sum():,} of {len(outcome.favourable):,} records."
            )
        if scores is not None and SCORE not in table:
            table[SCORE] = ["" if np.isnan(score) else repr(float(score)) for score in scores]
        write_reference(self.directory / REFERENCE, table)
        return label

    def _manifest(self, known: Known, label: str | None, named: dict[str, str | None] | None) -> str:
        """The text of the manifest; the other files are there.

        Parameters
        ----------
        label : column of true outcomes
        named : the model's names of columns, where the service does not recognise them
        """
        facts, outcome = known.facts, known.outcome
        head = self._head(facts)
        comments = {
            "title": "what letters call it?",
            "threshold": "smallest favourable output: the lender's own cut-off?",
        }
        if known.threshold is not None:
            del comments["threshold"]
        if named is not None:
            head["artifact"]["map"] = named
        if facts is NO_MODEL:
            comments["artifact"] = "the model: draft again with --model"
            chosen = Choice(manifest=head | {"threshold": known.threshold or 0.5})
        else:
            head["reference"] = REFERENCE
            chosen = choose(head, known, self.directory, self.trust, self.questions, self.notes)
        if chosen.own_threshold:
            comments.pop("threshold", None)
        if chosen.sentence:
            self.notes.append(f"{_tried(chosen)}: {chosen.sentence}.")
        manifest = dict(chosen.manifest)
        drafted = {feature["name"]: feature for feature in manifest.pop("features", [])}
        for feature in known.features:
            feature.keys = drafted.get(feature.name, feature.keys)
        if not chosen.sure:
            if open_now := [one for one in self.questions.open if one.key == PERCENT]:
                raise Undecided(open_now)
            checked = chosen.sentence or "not checked"
            if len(facts.encodings) > 1 and "encoding" in chosen.manifest:
                comments["encoding"] = f"standard, minmax or none: {checked}"
            if len(facts.choices) > 1:
                comments["artifact"] = f"{facts.undecided}: {checked}"
        if outcome is not None and label is not None:
            manifest["label"] = label
        manifest["reference"] = REFERENCE
        return manifest_text(manifest, comments, known.features)

    def _head(self, facts: ModelFacts) -> dict[str, Any]:
        name = self.wish.id or _plain_id(self.directory.name)
        if facts is NO_MODEL:
            artifact = {"format": "…", "path": "…", "sha256": "…"}
        else:
            file = {} if facts.remote else {"path": facts.file, "sha256": hashlib.sha256(facts.content).hexdigest()}
            artifact = {"format": facts.format.value, **file, **facts.artifact}
        return {
            "id": name,
            "version": "1",
            "title": name,
            "artifact": artifact,
            "input": facts.input.value,
            "output": facts.output.value,
        }


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise ModelRefused(f"{path} exists already; say --out with another directory")


def _plain_id(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:64] or "model"


def _tried(chosen: Choice) -> str:
    manifest = chosen.manifest
    tried = {key: manifest.get(key) for key in ("favourable", "better")}
    tried["encoding"] = manifest.get("encoding", {}).get("continuous")
    tried["activation"] = manifest["artifact"].get("architecture", {}).get("activation")
    return ", ".join(f"{key}: {value}" for key, value in tried.items() if value is not None)


def _found(facts: ModelFacts, features: Sequence[FeatureDraft]) -> str:
    takes = "the table of records" if facts.input is Input.RAW else "encoded columns"
    return f"The model is of the format {facts.format.value}, takes {takes}, and has {len(features)} features."
