"""Trying a model directory: the answers are those of the service, nothing stays, and what is odd is said."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from app.errors import ModelRefused
from app.futures.records import reference_records
from app.futures.spec import Material, choices_of, outlook, specified
from app.letters.given import word_gaps
from app.models.oddities import Asked, oddities
from app.models.tryout import QUESTIONS, Tryout, attempt
from app.models.tryout_command import share_text, text_of
from app.recourse.features import Change, Feature, FeatureSpace, FeatureType
from app.recourse.problem import Reference
from app.registry.manifest import PARTIAL
from app.registry.registry import Registry
from app.settings import Settings
from tests.api.asking import CARRIED
from tests.futures.models import registered
from tests.registry.adapters.card import by_hand, carded
from tests.registry.loan import ModelDirectory, make_linear


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(models_store=tmp_path / "store", state_dir=tmp_path / "state")


@pytest.fixture
def model(tmp_path: Path) -> ModelDirectory:
    return make_linear(tmp_path / "source")


def only(model: ModelDirectory, *names: str, **keys: Any) -> ModelDirectory:
    """Nothing but these features can be changed."""
    for feature in model.manifest["features"]:
        if feature["name"] not in names:
            feature["change"] = "none"
        else:
            feature.update(keys)
    return model


def tried(model: ModelDirectory, settings: Settings, **changes: Any) -> Tryout:
    return attempt(model.write(**changes), settings)


def test_a_few_rejected_records_are_answered_and_nothing_is_registered(
    model: ModelDirectory, settings: Settings
) -> None:
    found = tried(model, settings)
    assert not settings.models_store.exists()
    assert len(found.asked) == QUESTIONS == len({one.record for one in found.asked})
    loaded = Registry(settings.models_store).register(model.path).load()
    scores = loaded.reference.scores
    assert found.registration.favourable == (scores >= 0).sum()
    order = [scores[one.record] for one in found.asked]
    assert order == sorted(order)
    assert order[-1] < 0
    for one in found.asked:
        assert one.before["probability"] == pytest.approx(
            loaded.black_box.probability_of(scores[one.record]), rel=CARRIED
        )
        assert one.after is not None
        assert one.after["probability"] >= 0.5
        assert one.changes
    assert found.sound


def test_which_future_models_there_will_be_is_said(tmp_path: Path, settings: Settings) -> None:
    """The loan has no label; with one, its weights are fitted again, and those of a scorecard are not."""
    model = make_linear(tmp_path / "source")
    assert "none, as the manifest has no label; so no answer says" in tried(model, settings).futures
    model.label()
    assert "trained by the recipe of this model" in tried(model, settings).futures
    stated = tried(model, settings, futures={"source": "none"}).futures
    assert stated.startswith("Future models: none, as the manifest wants none")
    stated = tried(model, settings, futures={"source": "stand_in"}).futures
    assert stated.startswith("Future models: stand-ins of another kind (the manifest says so)")


@pytest.mark.parametrize(("kind", "said"), [("onnx", "stand-ins"), ("linear", "recipe of"), ("xgboost", "recipe of")])
def test_the_outlook_is_what_a_rehearsal_then_does(tmp_path: Path, kind: str, said: str) -> None:
    loaded = registered(tmp_path, kind).load()
    assert said in outlook(loaded)
    records = reference_records(loaded)
    (loaded.registered.directory / PARTIAL).mkdir()
    choices = replace(choices_of(loaded.registered), search=1, held_back=1)
    spec, _ = specified(loaded, records, choices, Material(), {})
    assert spec.source == ("retrained" if said == "recipe of" else "stand_in")


def test_the_feature_that_everything_needs_is_named(model: ModelDirectory, settings: Settings) -> None:
    found = tried(only(model, "income"), settings)
    assert found.sound
    assert found.findings[0].startswith("Every answer changes only income: can people do that?")


def test_a_model_that_leaves_nothing_to_do_is_not_sound(model: ModelDirectory, settings: Settings) -> None:
    found = tried(only(model), settings)
    assert not found.sound
    assert all(one.detail for one in found.asked)
    assert "do change, advice, takes and protected leave enough" in found.findings[0]


def test_the_words_that_letters_lack_are_named(model: ModelDirectory, settings: Settings) -> None:
    assert word_gaps(tried(model, settings).model, settings) == []
    (gap,) = word_gaps(tried(model, settings, titles={"de": "Kredit"}).model, settings)
    assert gap.startswith(
        "Letters in de are refused where they would state what model.yaml has no words for: words.de of"
    )


def test_a_feature_that_decides_all_distances_is_named(model: ModelDirectory, settings: Settings) -> None:
    only(model, "age", "income", "savings")
    model.manifest["features"][2]["spread"] = 100
    findings = tried(model, settings, encoding={"continuous": "standard"}).findings
    assert any("those of amount: a few very large values" in finding for finding in findings)


def test_a_threshold_that_rejects_none_leaves_nothing_to_ask(model: ModelDirectory, settings: Settings) -> None:
    found = tried(model, settings, threshold=1e-9)
    assert (found.asked, found.sound) == ((), False)
    assert found.findings == ("No reference record is rejected, so there was nothing to ask about",)
    assert "The model accepts all of its reference records" in found.registration.warnings[0]


def test_a_directory_with_faults_is_refused_as_by_a_registration(model: ModelDirectory, settings: Settings) -> None:
    with pytest.raises(ModelRefused) as tried_here:
        tried(model, settings, threshold=7)
    with pytest.raises(ModelRefused) as registered:
        Registry(settings.models_store).register(model.path)
    assert tried_here.value.faults == registered.value.faults


def test_records_without_a_way_are_counted_and_what_is_fixed_is_named(tmp_path: Path, settings: Settings) -> None:
    model = only(make_linear(tmp_path / "source"), "savings", change="increase")
    model.manifest["features"][0]["protected"] = True
    found = tried(model, settings)
    lost = sum(not one.changes for one in found.asked)
    assert QUESTIONS / 2 < lost < QUESTIONS
    assert f"Nothing was found for {lost} of {QUESTIONS} records: do change" in found.findings[0]
    assert found.findings[0].endswith("Fixed by change: none are income, amount, guarantor, housing")


def test_leaps_over_many_levels_are_counted(tmp_path: Path, settings: Settings) -> None:
    model = only(make_linear(tmp_path / "source"), "savings", change="increase")
    levels = ["none", "s1", "s2", "s3", "some", "much"]
    model.manifest["features"][3] |= {"categories": levels, "center": 0.0, "scale": 2.0}
    for record in model.records:
        record["savings"] = "none"
    model.records[0]["savings"] = "much"
    found = tried(model, settings)
    (leap,) = (sentence for sentence in found.findings if "levels or more at once" in sentence)
    count = sum(abs(after - before) >= 4 for one in found.asked for before, after in one.moved.values())
    assert count
    assert leap.startswith(f"In {count} of {sum(bool(one.changes) for one in found.asked)} answers savings moves by 4")
    model.manifest["features"][3]["takes"] = {"months_per_level": 0.1}
    assert not any("levels or more" in sentence for sentence in tried(model, settings, version="2").findings)


def test_each_oddity_names_the_line_that_mends_it(tmp_path: Path, settings: Settings) -> None:
    """With the line that a sentence names, the sentence is gone."""
    model = only(make_linear(tmp_path / "source"), "income", "amount")
    income = model.manifest["features"][1]
    found = attempt(model.write(), settings, count=20)
    assert len(found.asked) == 20
    (far,) = (sentence for sentence in found.findings if "income moves far in 0 months" in sentence)
    spread = np.subtract(*np.quantile([record["income"] for record in model.records], [0.95, 0.05]))
    moves = [one.moved["income"] for one in found.asked if "income" in one.moved]
    assert far.startswith(f"In {sum(after - before > spread / 4 for before, after in moves)} of 20 answers")
    (line,) = re.findall(r"takes: (\{.*?\}) allows a year", far)
    income["takes"] = yaml.safe_load(line)
    assert income["takes"]["months_per_unit"] * spread == pytest.approx(12, rel=0.05)
    again = attempt(model.write(version="2"), settings, count=20)
    assert not any("income moves far" in sentence for sentence in again.findings)


def test_a_smaller_loan_takes_no_time(tmp_path: Path, settings: Settings) -> None:
    found = tried(only(make_linear(tmp_path / "source"), "amount", change="decrease"), settings)
    changed = [one.moved["amount"] for one in found.asked if "amount" in one.moved]
    assert max(before - after for before, after in changed) > 2_000, "far enough to be said of an income"
    assert not [sentence for sentence in found.findings if "0 months" in sentence]


def test_answers_that_take_longer_than_one_is_valid_are_counted(tmp_path: Path, settings: Settings) -> None:
    model = only(make_linear(tmp_path / "source"), "income", takes={"months_per_unit": 0.002})
    found = attempt(model.write(), settings, count=20)
    timed = [one for one in found.asked if one.changes]
    for one in timed:
        (before, after) = one.moved["income"]
        assert one.takes_months == pytest.approx((after - before) * 0.002, abs=0.01)
        assert 0.0 < one.takes_months <= 3.0
        assert f"Then, in {np.ceil(10 * one.takes_months) / 10:g} month" in text_of(one)
    longer = sum(one.longer for one in found.asked)
    assert timed
    assert longer
    assert sum(f"For {longer} of 20 records only an answer was found" in one for one in found.findings) == 1


def test_changes_that_a_name_rules_out_are_odd(tmp_path: Path, settings: Settings) -> None:
    model = only(make_linear(tmp_path / "source"), "age", "income")
    model.manifest["features"][1]["change"] = "none"
    findings = attempt(model.write(), settings, count=20).findings
    assert any("answers age changes, which by its name is impossible: protected: true" in one for one in findings)


def test_changes_against_the_outcomes_are_odd(tmp_path: Path, settings: Settings) -> None:
    model = only(make_linear(tmp_path / "source"), "income")
    middle = float(np.median([record["income"] for record in model.records]))
    for record in model.records:
        record["outcome"] = int(record["income"] < middle)
    model.columns.append("outcome")
    findings = attempt(model.write(label="outcome", favourable=1), settings, count=20).findings
    assert any("income moves away from the records with the favourable outcome" in one for one in findings)


@pytest.mark.parametrize(("share", "text"), [(0.0, "0%"), (0.001, "<1%"), (0.5, "50%"), (0.999, ">99%"), (1.0, "100%")])
def test_only_nothing_is_no_per_cent(share: float, text: str) -> None:
    assert share_text(share) == text


def test_a_near_miss_does_not_read_like_the_cut_off() -> None:
    before, after = ({"probability": share, "points": None} for share in (0.9796, 0.9831))
    one = Asked(
        record=3, before=before, after=after, changes=(("income", "Increase the income."),), detail="", moved={},
        elapsed_s=0.1,
    )  # fmt: skip
    text = text_of(one, 0.98)
    assert "no (probability 97.96%)" in text
    assert "yes (probability 98.31%); needed: 98.00%" in text


def test_answers_of_a_scorecard_state_points(tmp_path: Path, settings: Settings) -> None:
    card = carded(tmp_path / "source")
    found = attempt(card.write(), settings)
    for one in found.asked:
        record = {name: None if value == "" else value for name, value in card.records[one.record].items()}
        assert one.before["points"] == by_hand(record)
        assert one.after is None or one.before["points"] < 391.5 <= one.after["points"]
        assert f"no ({one.before['points']:g} points)" in text_of(one)
    assert found.sound


def test_a_reason_against_the_stated_direction_is_a_finding_about_the_model(
    model: ModelDirectory, settings: Settings
) -> None:
    """The manifest says that less income is better; the model says otherwise."""
    for feature in model.manifest["features"]:
        if feature["name"] == "income":
            feature["change"] = "decrease"
    findings = tried(model, settings).findings
    assert any("income lowered the score for being lower than usual, though the manifest" in one for one in findings)
    model = make_linear(model.path.parent / "other")
    assert not any("lowered the score for being" in one for one in tried(model, settings).findings)


@pytest.mark.parametrize(
    ("name", "line", "law"),
    [("dependents", "reason: {named: false}", False), ("religion", "protected: true", False),
     ("age", "protected: true", True)],
)  # fmt: skip
def test_a_private_matter_named_as_a_reason_is_a_finding(name: str, line: str, law: bool) -> None:
    space = FeatureSpace([Feature(name=name, type=FeatureType.INTEGER, min=0, max=9, change=Change.NONE,
                                  center=4.0, scale=3.0)])  # fmt: skip
    rows = np.arange(10.0)[:, None]
    reference = Reference(space=space, rows_raw=rows, scores=5.0 - rows[:, 0], largest_distance=3.0)
    one = Asked(record=9, before={}, after=None, changes=(), detail="", moved={}, elapsed_s=0.0,
                reasons=((name, "too_high"),))  # fmt: skip
    (said,) = (said for said in oddities(reference, [one]) if "named as a reason" in said)
    assert f"In 1 of 1 refusals {name} is" in said
    assert f"{line} keeps it out of reasons, except in letters of the regime us" in said
    assert ("never against people of 62 or more (12 CFR 1002.6(b)(2))" in said) is law


@pytest.mark.parametrize("follows", [True, False])
def test_a_number_that_stays_while_one_changes_from_which_it_follows_is_odd(follows: bool) -> None:
    """An instalment is amount by months; a rent has nothing to do with either."""
    numbers = {"type": FeatureType.CONTINUOUS, "center": 0.0, "scale": 1.0}
    space = FeatureSpace([
        Feature(name="amount", change=Change.DECREASE, **numbers),
        Feature(name="months", **numbers),
        Feature(name="instalment", change=Change.NONE, **numbers),
    ])  # fmt: skip
    rng = np.random.default_rng(0)
    amount, months = rng.uniform(500.0, 9_000.0, 400), rng.choice([12.0, 24.0, 60.0], 400)
    rows = np.column_stack([amount, months, amount / months if follows else rng.uniform(20.0, 400.0, 400)])
    reference = Reference(space=space, rows_raw=rows, scores=rows[:, 0] - 4_000.0, largest_distance=3.0)
    one = Asked(record=9, before={}, after={}, changes=(("amount", "Reduce it."),), detail="",
                moved={"amount": (6_000.0, 3_000.0)}, elapsed_s=0.0)  # fmt: skip
    said = [sentence for sentence in oddities(reference, [one]) if "stays" in sentence]
    assert [sentence.split(", though")[0] for sentence in said] == (
        ["In 1 of 1 answers amount changes and instalment stays"] if follows else []
    )
