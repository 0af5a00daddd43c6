"""The draft of a model directory, from a lender's records and model."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.errors import ModelRefused
from app.recourse.features import ABSENT, written
from app.recourse.models.black_box import Input
from app.recourse.models.score import Output
from app.registry.artifact import Format
from app.registry.drafting import served_model
from app.registry.drafting.artifacts import read_facts
from app.registry.drafting.candidates import Known
from app.registry.drafting.choosing import BETTER, CUT_OFF, THRESHOLD, cells, choose
from app.registry.drafting.columns import Column, describe, mark_among, strays
from app.registry.drafting.evidence import Choice
from app.registry.drafting.facts import ModelFacts
from app.registry.drafting.features import (
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
from app.registry.drafting.sentinels import fill, sentinels
from app.registry.drafting.writing import manifest_text, whole, write_reference
from app.registry.lender_scores import SCORE, parse_scores, read_scores
from app.registry.manifest import ID, MANIFEST
from app.registry.trust import Trust

REFERENCE = "reference.csv"

NO_MODEL = ModelFacts(format=Format.SKLEARN, file="", content=b"", input=Input.RAW)
"""What is known of a model that is not given."""

POINTS = Question(
    key=THRESHOLD, sentence="What is the smallest number of points with which people get a yes?", flag="--threshold",
    why=("where fewer points are better, the largest; such as 620",),
)  # fmt: skip
DECIMAL = Question(
    key="decimal", sentence="Have the numbers of the records a decimal point or a decimal comma?",
    allowed=("point", "comma"),
)  # fmt: skip

DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2}|$)|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|[A-Za-z]{3,9}[- ]\d{2,4}$|"
    r"\d{1,2}[- ][A-Za-z]{3,9}[- ,]+\d{2,4}$"
)
"""How dates are written, such as 2015-12-01, 1/12/2015 or Dec-2015."""

PERCENT = "percent"
"""Key of the questions about percentages."""

LABEL_COLUMN = "favourable_outcome"
"""Name of the label in the reference where its own is that of a feature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the lender says."""

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
    """As in `Questions`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """A directory that was written."""

    directory: Path
    notes: tuple[str, ...]
    """What was found, and what was left out, in sentences."""
    decisions: int
    """Comments that ask for a decision."""
    complete: bool
    """Whether it has a model, so that it may register."""


def draft(wish: Wish, out: Path | None, trust: Trust) -> Drafted:
    """Write a model directory.

    Raises
    ------
    ModelRefused : the records or the model cannot be read, or do not fit each other; nothing is written
    Undecided : questions are open that the draft does not guess; nothing is written
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
        """All steps; files are written once everything is known."""
        wish = self.wish
        records = read_records(wish.data)
        facts = self._facts(records)
        artifact = None if facts is NO_MODEL or facts.remote else self.directory / facts.file
        if artifact is not None and artifact.exists() and artifact.read_bytes() != facts.content:
            _refuse_existing(artifact)
        threshold = self._threshold(facts)
        scores = self._scores(records)
        labels = None
        if wish.label is not None:
            labels = labels_of(
                wish.label, records.column(wish.label, "the label"), self.questions.given.get(FAVOURABLE)
            )
            records, scores = self._labelled(records, scores, labels)
        elif facts is NO_MODEL and FAVOURABLE in self.questions.given:
            raise ModelRefused("--favourable names a value of the label: say --label too")
        columns = self._columns(records, facts)
        sources = self._sources(facts, columns)
        features = [feature_of(source, columns[source.column], facts) for source in sources]
        self._ask_codes(facts, features)
        fill(facts, features, columns, self.questions, scored=scores is not None)
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

    def _threshold(self, facts: ModelFacts) -> float | None:
        """The lender's own; asked for where the model gives points."""
        if facts.output is Output.POINTS:
            answer = self.questions.ask(POINTS)
            return None if answer is None else float(answer)
        answer = self.questions.ask(CUT_OFF)
        return None if answer is None else float(answer)

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

    def _labelled(
        self, records: Records, scores: np.ndarray | None, labels: Labels
    ) -> tuple[Records, np.ndarray | None]:
        """The records whose outcome is known."""
        left = records.count - len(labels.rows)
        if not left:
            return records, scores
        self.notes.append(f"{left} records without a value of {labels.name} are left out of the reference.")
        return records.of(labels.rows), None if scores is None else scores[labels.rows]

    def _columns(self, records: Records, facts: ModelFacts) -> dict[str, Column]:
        """The columns that may be features."""
        for name in self.wish.drop:
            records.column(name, "--drop")
        if self.wish.columns:
            table = {name: records.column(name, "--columns") for name in self.wish.columns}
            records = replace(records, columns=table)
        stated = {self.wish.label, *self.wish.drop} | ({self.wish.scores} - set(facts.names or ()))
        levels = {
            name: {level for level in facts.levels.get(name, ()) if level is not None}
            for name in records.columns
            if name not in stated
        }
        mark = self._mark(records, [name for name, known in levels.items() if not known])
        columns: dict[str, Column] = {}
        for name, known in levels.items():
            texts = records.columns[name]
            found = describe(name, texts, known, facts.codes.get(name, ()), mark)
            if found.numbers is None and not known and not found.flag and name in (facts.names or levels):
                _require_numbers(records, name, mark, facts)
            columns[name] = self._percent(found) if found.percent and name in (facts.names or levels) else found
        family = {code for column in columns.values() for code in column.codes}
        return {name: column.with_codes_of(family) for name, column in columns.items()}

    def _mark(self, records: Records, names: Sequence[str]) -> str:
        """The decimal mark of the records."""
        found = mark_among(records.columns[name] for name in names)
        try:
            mark = found.of(records.delimiter)
        except ValueError as error:
            raise ModelRefused(f"{records.file} {error}") from None
        if mark is None:
            answer = self.questions.ask(replace(DECIMAL, why=(f'{records.file} has "{found.either}"',)))
            return "," if answer == "comma" else "."
        return mark

    def _percent(self, column: Column) -> Column:
        """A column of percentages as the model takes it; scores may show how that is."""
        shown = f"{next(text for text in column.texts if text)}%"
        answer = self.questions.ask(Question(
            key=PERCENT, column=column.name, allowed=("number", "share"), required=self.wish.scores is None,
            sentence=f'"{column.name}" is written with %: what does the model take?',
            why=(f"{shown} is {shown[:-1]} (number) or {float(shown[:-1]) / 100:g} (share)",),
        ))  # fmt: skip
        return column.share if answer == "share" else column

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
            used = [column for column in columns.values() if not column.names_records and len(column.levels) <= 200]
            used += [column for column in columns.values() if column.numbers is not None and column not in used]
            order = list(columns)
            return [
                Source(column=column.name)
                for column in sorted(used, key=lambda column: order.index(column.name))
                if not column.names_records and not (column.numbers is None and column.constant)
            ]
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
        comments = {"title": "for people", "threshold": "smallest favourable output: the lender's own cut-off?"}
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
            comments |= self._unsure(facts, chosen)
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
            "title": name.replace("-", " ").replace("_", " ").capitalize(),
            "artifact": artifact,
            "input": facts.input.value,
            "output": facts.output.value,
        }

    def _unsure(self, facts: ModelFacts, chosen: Choice) -> dict[str, str]:
        """Comments where evidence is weak."""
        found: dict[str, str] = {}
        if len(facts.encodings) > 1 and "encoding" in chosen.manifest:
            found["encoding"] = f"standard, minmax or none: {chosen.sentence or 'not checked'}"
        if len(facts.choices) > 1:
            found["artifact"] = f"{facts.undecided}: {chosen.sentence or 'not checked'}"
        return found


def _require_numbers(records: Records, name: str, mark: str, facts: ModelFacts) -> None:
    """Refuse a column that is one of numbers but for some cells, or that the model takes as numbers."""
    texts = records.columns[name]
    what = f'the model takes "{name}" as a number' if name in facts.numbers else f'"{name}" is a column of numbers'
    if wrong := strays(texts, mark):
        count = "1 cell is none" if len(wrong) == 1 else f"{len(wrong)} cells are none"
        raise ModelRefused(
            f"{what}, but {count}, in {records.place(wrong[0])}: {texts[wrong[0]]}; correct it, or leave it "
            "empty where the value is missing"
        )
    if name in facts.numbers:
        first = next(i for i, text in enumerate(texts) if text.strip() not in ABSENT and written(text, mark) is None)
        way_out = (
            "write the number that the model takes in place of the date, such as the days or months until the record"
            if DATE.match(texts[first].strip()) else "leave the cell empty where the value is missing"
        )  # fmt: skip
        raise ModelRefused(
            f'{what}, but there are texts, such as "{texts[first]}" in {records.place(first)}; {way_out}'
        )


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise ModelRefused(f"{path} exists already; say --out with another directory")


def _plain_id(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:64] or "model"


def _tried(chosen: Choice) -> str:
    encoding = chosen.manifest.get("encoding", {}).get("continuous")
    keys = [key for key in ("favourable", "better") if key in chosen.manifest]
    said = [f"{key}: {chosen.manifest[key]}" for key in keys]
    said += [f"encoding: {encoding}"] if encoding else []
    activation = chosen.manifest["artifact"].get("architecture", {}).get("activation")
    return ", ".join([*said, *([f"activation: {activation}"] if activation else [])])


def _found(facts: ModelFacts, features: Sequence[FeatureDraft]) -> str:
    takes = "the table of records" if facts.input is Input.RAW else "encoded columns"
    return f"The model is of the format {facts.format.value}, takes {takes}, and has {len(features)} features."
