"""A draft asks what it would have to guess, all at once; flags, a file and a terminal answer alike."""

import json
import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from app.errors import ModelRefused
from app.models.draft_command import QUESTIONS_OPEN
from app.recourse.models.score import sigmoid
from app.registry.drafting.columns import describe
from app.registry.drafting.draft import Drafted, Wish, draft
from app.registry.drafting.outcome import signs
from app.registry.drafting.questions import Question, Questions, Undecided, answers_of, read_answers
from app.registry.trust import Trust

NAMES = (
    "SeriousDlqin2yrs", "TARGET", "loan_status", "default", "not.fully.paid", "charged_off", "dpd90", "BAD", "bad_flag",
    "good", "repaid", "y", "label", "target", "class", "Class", "Risk", "risk", "RiskPerformance", "outcome", "status",
    "default.payment.next.month", "default_ind", "isDefault", "Default", "is_default", "loan_default", "defaulted",
    "fpd", "delinquent", "delinquency_flag", "late_90", "ever_60dpd", "npl", "writeoff", "chargeoff", "fraud",
    "isFraud", "fraud_flag", "approved", "accepted", "denied", "rejected", "Loan_Status", "credit_risk",
    "creditability", "bad_loan", "good_bad", "gb_flag", "GB",
    "income", "survived", "churn", "Response", "result", "paid", "fully_paid",
    "payment_ok",
)  # fmt: skip
"""Usual names of outcomes, some of good ones, some of bad ones, some of either."""


def records(path: Path, label: str = "default", **more: list[str]) -> Path:
    """Records whose outcome 1 is a default, at a rate that a word about it cannot tell."""
    rng = np.random.default_rng(0)
    late, income = rng.poisson(0.6, 400), rng.integers(900, 6000, 400)
    bad = rng.random(400) < sigmoid(1.2 * late - income / 1_500)
    columns = {"late_payments": late, "monthly_income": income, label: bad.astype(int), **more}
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines))
    return path


def model(path: Path) -> Path:
    path.write_text(
        json.dumps({"space": "raw", "intercept": 0.0, "weights": {"late_payments": 1.2, "monthly_income": -0.0007}})
    )
    return path


def drafted(tmp_path: Path, **wish: Any) -> Drafted:
    given: dict[str, Any] = {"data": records(tmp_path / "loans.csv"), "model": model(tmp_path / "m.json"), **wish}
    return draft(Wish(**given), tmp_path / "loan", Trust())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("values", [("0", "1"), ("No", "Yes"), ("good", "bad")])
def test_no_name_and_no_word_decides_which_outcome_is_good(tmp_path: Path, name: str, values: tuple[str, str]) -> None:
    data = records(tmp_path / "loans.csv", name)
    lines = data.read_text().splitlines()
    data.write_text("\n".join([lines[0], *(f"{line[:-1]}{values[int(line[-1])]}" for line in lines[1:])]))
    with pytest.raises(Undecided) as caught:
        draft(Wish(data=data, model=model(tmp_path / "m.json"), label=name), tmp_path / "loan", Trust())
    (question,) = caught.value.questions
    assert (question.name, sorted(question.allowed)) == ("favourable", sorted(values))
    assert not (tmp_path / "loan").exists()


def test_the_question_shows_what_the_records_say(tmp_path: Path) -> None:
    with pytest.raises(Undecided) as caught:
        drafted(tmp_path, label="default")
    said = str(caught.value)
    assert "people with default = 1 have more late payments or defaults (late_payments: 1." in said
    assert "people with default = 1 have lower incomes (monthly_income: " in said
    assert "so 0 looks like the outcome of people who repay; is that so?" in said
    assert "Say --favourable 0 or --favourable 1" in said


@pytest.mark.parametrize(
    ("name", "words"),
    [("payment_to_income", "larger debts beside their income"), ("monthly_income", "higher incomes"), ("to_come", "")],
)
def test_a_payment_beside_an_income_is_a_debt_and_no_income(name: str, words: str) -> None:
    has = np.arange(100) >= 50
    column = describe(name, [str(10 * row) for row in range(100)])
    assert [said[0] for said in signs({name: column}, has)] == ([words] if words else [])


def test_scores_are_shown_beside_the_outcomes_and_stop_a_contradiction(tmp_path: Path) -> None:
    """The lender's own probability of repaying, low with default = 1: it agrees with 0 alone."""
    rng = np.random.default_rng(0)
    late, income = rng.poisson(0.6, 400), rng.integers(900, 6000, 400)
    scores = sigmoid(income / 1_500 - 1.2 * late)
    (tmp_path / "own.csv").write_text("\n".join(map(repr, scores.tolist())))
    with pytest.raises(Undecided, match=r"your scores are 0\.\d+ on average with 1, 0\.\d+ with 0"):
        drafted(tmp_path, label="default", scores=str(tmp_path / "own.csv"))
    with pytest.raises(ModelRefused, match="lower where default is 1, the favourable outcome"):
        drafted(tmp_path, label="default", scores=str(tmp_path / "own.csv"), favourable="1")


def test_without_outcomes_the_class_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(Undecided, match="Which class of the model is the good outcome"):
        drafted(tmp_path)
    drafted(tmp_path, favourable="0", drop=("default",))
    assert yaml.safe_load((tmp_path / "loan/model.yaml").read_text())["favourable"] == 0


def test_outcomes_that_say_nothing_of_the_model_do_not_choose_its_class(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    data = records(tmp_path / "other.csv", "x", result=rng.choice(["good", "bad"], 400).tolist())
    wish: dict[str, Any] = {"data": data, "label": "result", "favourable": "good", "drop": ("x",)}
    with pytest.raises(Undecided, match="Which class of the model goes with the good outcome"):
        drafted(tmp_path, **wish)
    assert not (tmp_path / "loan").exists()
    drafted(tmp_path, **wish, answers={"class": "0"})
    assert yaml.safe_load((tmp_path / "loan/model.yaml").read_text())["favourable"] == 0


def test_all_questions_are_asked_at_once(tmp_path: Path) -> None:
    card = "feature,from,to,category,points\n,,,,500\nlate_payments,,1,,60\nlate_payments,1,,,0\n"
    (tmp_path / "card.csv").write_text(card)
    with pytest.raises(Undecided) as caught:
        drafted(tmp_path, model=tmp_path / "card.csv")
    assert [question.name for question in caught.value.questions] == ["threshold", "better"]
    answers = {"threshold": "530", "better": "lower"}
    drafted(tmp_path, model=tmp_path / "card.csv", answers=answers)
    manifest = yaml.safe_load((tmp_path / "loan/model.yaml").read_text())
    assert (manifest["threshold"], manifest["better"]) == (530.0, "lower")
    assert read_answers(tmp_path / "loan/answers.yaml").items() >= answers.items()


def test_a_file_that_answers_nothing_yet_is_no_answer(tmp_path: Path) -> None:
    """What a refusal shows as a file may be copied as it stands: it must not decide which outcome is good."""
    (tmp_path / "card.csv").write_text("feature,from,to,category,points\n,,,,500\nlate_payments,,,,60\n")
    with pytest.raises(Undecided) as caught:
        drafted(tmp_path, model=tmp_path / "card.csv", label="default")
    (tmp_path / "answers.yaml").write_text(str(caught.value).rpartition("\n\n")[2])
    answers = read_answers(tmp_path / "answers.yaml")
    assert answers == {"threshold": "NUMBER", "favourable": "0 or 1"}
    for name, answer in answers.items():
        with pytest.raises(ModelRefused, match=f'"{answer}" must be '):
            drafted(tmp_path, model=tmp_path / "card.csv", label="default", answers={name: answer})


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("favourable: No\n", {"favourable": "No"}),
        ('{"favourable": 0, "change": {"a.b": "none"}}', {"favourable": "0", "change.a.b": "none"}),
        ("threshold: 0.50\nchange:\n  # x: none\n", {"threshold": "0.50"}),
        ("", {}),
        ("# nothing\n", {}),
    ],
)
def test_answers_are_the_texts_of_a_file(tmp_path: Path, text: str, answers: dict[str, str]) -> None:
    (tmp_path / "answers").write_text(text)
    assert read_answers(tmp_path / "answers") == answers


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- favourable", "must be a mapping"),
        ("favourable: [0]", '"favourable" is neither'),
        ("favourable: 0\nfavourable: 1", '"favourable" is given twice'),
        ("a: &a {b: *a}", "has an alias"),
        ("{", "is not YAML"),
    ],
)
def test_answers_of_another_form_are_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "answers").write_text(text)
    with pytest.raises(ModelRefused) as caught:
        read_answers(tmp_path / "answers")
    assert said in str(caught.value)


def test_answers_to_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match=r'"change\.incme" is answered, which the draft does not ask; it asks '):
        drafted(tmp_path, label="default", favourable="0", answers={"change.incme": "none"})
    with pytest.raises(ModelRefused, match='--favourable "2" must be 0 or 1, in answer to: Which value of default'):
        drafted(tmp_path, label="default", favourable="2")
    with pytest.raises(ModelRefused, match="must be KEY=VALUE"):
        answers_of(["favourable"])
    with pytest.raises(ModelRefused, match="cannot be read: No such file"):
        read_answers(tmp_path / "none.yaml")
    assert not (tmp_path / "loan").exists()


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("loan_amount", "more", {"terms": True, "better": "more"}), ("LoanTerm", "either", {"terms": True}),
        ("int_rate", "less", {"terms": True, "better": "less"}), ("duration", None, {}), ("credit_amount", "no", {}),
        ("employment_duration", None, None), ("amount_overdue", None, None), ("income", None, None),
    ],
)  # fmt: skip
def test_what_the_lender_sets_is_asked_by_its_name(
    tmp_path: Path, name: str, answer: str | None, said: dict[str, Any] | None
) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(10, 90, 200)
    good = rng.random(200) < sigmoid(2.0 * (values % 7 - 3.0))
    rows = [f"{name},x,good", *(f"{v},{v % 7},{int(g)}" for v, g in zip(values, good, strict=True))]
    (tmp_path / "d.csv").write_text("\n".join(rows))
    weights = {"space": "raw", "intercept": 0.0, "weights": {name: 0.001, "x": 1.0}}
    (tmp_path / "w.json").write_text(json.dumps(weights))
    answers = {} if answer is None else {f"terms.{name}": answer}
    wish = Wish(data=tmp_path / "d.csv", model=tmp_path / "w.json", label="good", favourable="1", answers=answers)
    draft(wish, tmp_path / "loan", Trust())
    feature = yaml.safe_load((tmp_path / "loan/model.yaml").read_text())["features"][0]
    assert {key: feature[key] for key in ("terms", "better") if key in feature} == (said or {})
    assert ("terms:" in (tmp_path / "loan/answers.yaml").read_text()) is (said is not None)


def test_an_answers_file_has_what_was_used_and_what_is_open(tmp_path: Path) -> None:
    questions = Questions({"favourable": "0"})
    assert questions.ask(Question(key="favourable", sentence="Which?", allowed=("0", "1"))) == "0"
    for column in ("NUMTRADES", "a: b"):
        more = Question(
            key="change", column=column, sentence="Can it?", allowed=("increase", "none"), required=False, keep="none"
        )  # fmt: skip
        assert questions.ask(more) is None
    questions.close()
    (tmp_path / "answers.yaml").write_text(questions.text())
    assert read_answers(tmp_path / "answers.yaml") == {"favourable": "0"}
    (tmp_path / "answers.yaml").write_text(questions.text().replace("  # NUMTR", "  NUMTR").replace("  # 'a", "  'a"))
    assert read_answers(tmp_path / "answers.yaml") == {
        "favourable": "0", "change.NUMTRADES": "none", "change.a: b": "none",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "sign", "asked"),
    [
        ("debts", 1, "change: decrease, by its name, but people with the good outcome have more of it"),
        ("monthly_income", -1, "change: increase, by its name, but people with the good outcome have less of it"),
        ("duration", -1, "either direction may be advised, and people with the good outcome have less of it"),
        ("debts", -1, ""), ("monthly_income", 1, ""), ("duration", 0, ""),
        ("age", -1, ""), ("NumberOfLatePayments", 1, ""),
    ],
)  # fmt: skip
def test_a_direction_that_the_outcomes_contradict_is_asked_and_told(
    tmp_path: Path, name: str, sign: int, asked: str
) -> None:
    rng = np.random.default_rng(1)
    values, other = rng.integers(1_000, 5_000, 600), rng.normal(0, 1, 600).round(3)
    good = rng.random(600) < sigmoid(sign * (values - 3_000) / 1_000 + other)
    rows = [f"{name},x,good", *(f"{v},{o},{int(g)}" for v, o, g in zip(values, other, good, strict=True))]
    (tmp_path / "d.csv").write_text("\n".join(rows))
    weights = {"space": "raw", "intercept": 0.0, "weights": {name: 0.001 * sign, "x": 1.0}}
    (tmp_path / "w.json").write_text(json.dumps(weights))
    wish = Wish(data=tmp_path / "d.csv", model=tmp_path / "w.json", label="good", favourable="1")
    with pytest.raises(Undecided) as caught:
        draft(replace(wish, kept=frozenset({"threshold"})), tmp_path / "loan", Trust())
    doubts = {one.name: one.why[-1] for one in caught.value.questions if one.key == "change"}
    assert not (tmp_path / "loan").exists()
    assert doubts.pop("change.x")
    assert asked in doubts.get(f"change.{name}", "")
    assert bool(doubts) == bool(asked)
    draft(wish, tmp_path / "loan", Trust())  # nobody is there to ask
    text = (tmp_path / "loan/model.yaml").read_text()
    assert asked in " ".join(text.replace("#", " ").split())
    changes = (tmp_path / "loan/answers.yaml").read_text().partition("terms:")[0]
    assert (f"# {name}:" in changes) == bool(asked)
    if asked:
        draft(replace(wish, answers={f"change.{name}": "none"}), tmp_path / "fixed", Trust())
        first, _ = yaml.safe_load((tmp_path / "fixed/model.yaml").read_text())["features"]
        assert first["change"] == "none"


# --- the command -----------------------------------------------------------------------------------------------------


def command(tmp_path: Path, *more: str) -> list[str]:
    data, own = records(tmp_path / "loans.csv"), model(tmp_path / "m.json")
    arguments = ["models", "draft", str(data), "--model", str(own), "--label", "default", *more]
    return [sys.executable, "-m", "app.cli", *arguments, "--out", str(tmp_path / "loan")]


@pytest.mark.slow
def test_without_a_terminal_the_command_ends_with_its_questions(tmp_path: Path) -> None:
    done = subprocess.run(command(tmp_path), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert (done.returncode, done.stdout) == (QUESTIONS_OPEN, "")
    assert "Say --favourable 0 or --favourable 1" in done.stderr
    assert not (tmp_path / "loan").exists()
    done = subprocess.run(command(tmp_path, "--answer", "favourable=0"), capture_output=True, text=True, check=True)
    first = (tmp_path / "loan/model.yaml").read_text()
    (tmp_path / "loan").rename(tmp_path / "first")
    again = command(tmp_path, "--answers", str(tmp_path / "first/answers.yaml"))
    subprocess.run(again, capture_output=True, check=True)
    assert (tmp_path / "loan/model.yaml").read_text() == first


def test_in_a_terminal_the_command_asks_until_it_has_an_answer(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(command(tmp_path), stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = ""
        # What is not required is asked too; without an answer it stays.
        for prompt, typed in (("0 or 1: ", "2"), ("0 or 1: ", "0"), ("model's file]: ", "0,6"), ("file]: ", "")):
            while not said.endswith(prompt):
                said += os.read(ours, 4096).decode()
            os.write(ours, f"{typed}\n".encode())
            said += os.read(ours, 1).decode()
        while True:
            try:
                said += os.read(ours, 4096).decode()
            except OSError:  # the terminal is closed
                break
        assert process.wait(60) == 0
    assert '--favourable "2" must be 0 or 1' in said
    assert '--threshold "0,6" must be a number' in said
    assert "It registers: accepts " in said
    assert read_answers(tmp_path / "loan/answers.yaml")["favourable"] == "0"
