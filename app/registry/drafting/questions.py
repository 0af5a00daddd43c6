"""What a draft asks of the lender rather than guess, and the answers: by flags, from a file, or in a terminal."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from app.errors import ModelRefused
from app.registry.safe_yaml import read_yaml

ANSWERS = "answers.yaml"
"""The file of a draft's directory with the answers that it used and the questions that are open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question of a draft to the lender."""

    key: str
    """The question's key in an answers file, such as `favourable`; it has no dot."""
    column: str | None = None
    """The column of the records that it is about; the file then has `key: {column: answer}`."""
    sentence: str
    why: tuple[str, ...] = ()
    """What the draft sees and believes, in sentences."""
    allowed: tuple[str, ...] = ()
    """The answers; any number where empty."""
    flag: str = ""
    """The flag that answers it too; `--answer KEY=VALUE` answers every question."""
    required: bool = True
    """Whether the draft cannot go on without an answer."""
    keep: str = ""
    """What stays without an answer; a terminal asks what is not required too, where this is said."""

    @property
    def name(self) -> str:
        """The name by which answers refer to the question: `favourable`, or `change.income` for the column `income`."""
        return self.key if self.column is None else f"{self.key}.{self.column}"

    @property
    def flags(self) -> str:
        """The flags of the command line that answer the question, one for each allowed answer, as one text."""
        given = [f"{self.flag} {shlex.quote(one)}" if self.flag else f"--answer {shlex.quote(f'{self.name}={one}')}"
                 for one in self.allowed or ("NUMBER",)]  # fmt: skip
        return " or ".join(given)

    @property
    def sample(self) -> str:
        """What an answers file shows in place of a missing answer: the default answer, or else all allowed answers."""
        return self.keep if self.keep in self.allowed else " or ".join(self.allowed) or "NUMBER"

    def read(self, answer: str) -> str:
        """The allowed answer that `answer` stands for; where a question allows any number, the number as written.

        Raises `ModelRefused` where `answer` stands for no allowed answer.
        """
        plain = answer.strip()
        if not self.allowed and _number(plain) is not None:
            return plain
        found = [one for one in self.allowed if one == plain] or [one for one in self.allowed if same(one, plain)]
        if len(found) != 1:
            allowed = " or ".join(self.allowed) or "a number"
            raise ModelRefused(f'{self.flag or self.name} "{answer}" must be {allowed}, in answer to: {self.sentence}')
        return found[0]


class Undecided(ModelRefused):
    """Raised where a draft has open questions; the message lists all of them, with the flags that answer them."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self.questions = tuple(questions)
        texts = "\n\n".join(text_of(k, question) for k, question in enumerate(questions, start=1))
        example = yaml.safe_dump(nested({one.name: one.sample for one in questions}), sort_keys=False)
        super().__init__(
            f"The draft does not guess this, so it asks; nothing is written.\n\n{texts}\n\n"
            f"Answer with these flags, or in a file with --answers FILE:\n\n{example.strip()}"
        )


@dataclass(slots=True)
class Questions:
    """All questions of one draft, and the answers that the lender has given."""

    given: Mapping[str, str]
    """Answers by the name of the question."""
    kept: frozenset[str] | None = None
    """Questions that a person has left as they are; None where nobody is there to ask what is not required."""
    asked: dict[str, Question] = field(default_factory=dict)

    def ask(self, question: Question) -> str | None:
        """The answer to a question, or None without one. The draft counts the question as asked from now on.

        Without an answer, a draft goes on with the likeliest one. `settle` later refuses a required question without an
        answer.
        """
        self.asked[question.name] = question
        given = self.given.get(question.name)
        return None if given is None else question.read(given)

    @property
    def open(self) -> list[Question]:
        """The questions that were asked and have no answer."""
        return [question for name, question in self.asked.items() if name not in self.given]

    def settle(self) -> None:
        """Raise `Undecided` where a required question was asked and has no answer."""
        if needed := [question for question in self.open if question.required]:
            raise Undecided(needed)

    def close(self) -> None:
        """Check, after the last question, that nothing is open and that each given answer belongs to a question.

        Raises `Undecided` where a required question has no answer, or where a person at a terminal has yet to be asked
        a question; `ModelRefused` for an answer without a question.
        """
        self.settle()
        if self.kept is not None and (more := [one for one in self.open if one.keep and one.name not in self.kept]):
            raise Undecided(more)
        if strange := [name for name in self.given if name not in self.asked]:
            asked = ", ".join(self.asked) or "nothing"
            raise ModelRefused(f'"{strange[0]}" is answered, which the draft does not ask; it asks {asked}')

    def text(self) -> str:
        """The text of an answers file: the answers that the draft used, and its open questions as comments."""
        lines = ["# The answers of this draft: `recourse models draft` takes them again with --answers FILE."]
        if self.open:
            lines.append("# Questions that are open stand behind #; without it, a line answers its question.")
        for key in dict.fromkeys(question.key for question in self.asked.values()):
            of_key = [question for question in self.asked.values() if question.key == key]
            indent = "" if of_key[0].column is None else "  "
            lines += [f"{key}:"] if indent else []
            lines += [line for question in of_key for line in self._lines(question, indent)]
        return "\n".join(lines) + "\n"

    def _lines(self, question: Question, indent: str) -> list[str]:
        """One question in the file."""
        key = _flow(question.column or question.key)
        if question.name in self.given:
            return [f"{indent}{key}: {_flow(question.read(self.given[question.name]))}"]
        allowed = ", ".join(question.allowed) or "a number"
        return [f"{indent}# {question.sentence} {allowed}:", f"{indent}# {key}: {question.sample}"]


def read_answers(path: Path) -> dict[str, str]:
    """The answers in a YAML or JSON file, as texts; a dict whose keys are names of questions, such as `change.income`.

    Raises `ModelRefused` where the file cannot be read, or has another form.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelRefused(f"--answers {path} cannot be read: {error.strerror}") from error
    form = f'--answers {path} must be a mapping, such as "favourable: 0" or "change: {{income: increase}}"'
    try:
        found = read_yaml(content, texts=True)
    except ValueError as error:
        raise ModelRefused(f"--answers {path} {error}") from None
    if not found:
        return {}
    if not isinstance(found, dict):
        raise ModelRefused(form)
    answers: dict[str, str] = {}
    for key, value in found.items():
        each = {f"{key}.{column}": one for column, one in value.items()} if isinstance(value, dict) else {key: value}
        for name, answer in each.items():
            if not isinstance(answer, str):
                raise ModelRefused(f'{form}; "{name}" is neither')
            if answer:
                answers[name] = answer
    return answers


def answers_of(pairs: Iterable[str]) -> dict[str, str]:
    """The answers in texts such as `favourable=0`; a dict whose keys are names of questions.

    Raises `ModelRefused` for a text that is not `KEY=VALUE`.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, sign, answer = pair.rpartition("=")
        if not sign or not name:
            raise ModelRefused(f'--answer "{pair}" must be KEY=VALUE, such as favourable=0 or change.income=increase')
        found[name] = answer
    return found


def text_of(number: int, question: Question) -> str:
    """The lines that show a question on a terminal: its number, sentence, reasons and flags."""
    lines = [f"{number}. {question.sentence}", *(f"   {one}" for one in question.why), f"   Say {question.flags}"]
    return "\n".join(lines)


def nested(answers: Mapping[str, str]) -> dict[str, Any]:
    """The answers as an answers file has them: `change.income` becomes the key `income` in the mapping `change`."""
    found: dict[str, Any] = {}
    for name, answer in answers.items():
        key, dot, column = name.partition(".")
        if dot:
            found.setdefault(key, {})[column] = answer
        else:
            found[key] = answer
    return found


def same(text: str, value: object) -> bool:
    """Whether a cell of the records has this value: "True" has the value true, "1" and "1.0" have the value 1."""
    if text == str(value).strip() or text.lower() == str(value).strip().lower():
        return True
    first, second = _number(text), _number(str(value))
    return first is not None and first == second


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _flow(text: str) -> str:
    """A key as YAML writes it."""
    return str(yaml.safe_dump(text, allow_unicode=True)).removesuffix("...\n").strip()
