"""Drafts of tables like public ones advise nothing that lies in the past, is protected or unknown."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from app.models.tryout import attempt
from app.registry.drafting.draft import Wish, draft
from app.registry.drafting.questions import Undecided
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.settings import Settings
from tests.registry.drafting.public import PUBLIC


def settings_in(place: Path) -> Settings:
    return Settings(models_store=place / "store", state_dir=place / "state")


@pytest.mark.parametrize("name", PUBLIC)
def test_an_unedited_draft_advises_only_what_people_can_move(name: str, tmp_path: Path) -> None:
    public = PUBLIC[name]()
    data, model = public.write(tmp_path)
    wish = Wish(data=data, model=model, label=public.label)
    with pytest.raises(Undecided) as caught:
        draft(wish, tmp_path / "loan", Trust())
    assert {question.name for question in caught.value.questions} <= {"favourable"}
    wish = Wish(data=data, model=model, label=public.label, favourable=public.values[0])
    # Of 14 features at most 6 lines: questions in the file of answers, and in the manifest.
    assert draft(wish, tmp_path / "loan", Trust()).decisions <= 6
    manifest = yaml.safe_load((tmp_path / "loan/model.yaml").read_text())
    free = {
        feature["name"] for feature in manifest["features"]
        if not feature.get("protected") and not feature.get("derived") and feature.get("change") != "none"
    }  # fmt: skip
    assert free <= public.movable
    if not free:
        return  # nothing of Taiwan's columns is a person's to change, until the lender says so
    found = attempt(tmp_path / "loan", settings_in(tmp_path), count=20)
    changed = [[feature for feature, _ in one.changes] for one in found.asked if one.changes]
    assert changed
    assert {feature for one in changed for feature in one} <= public.movable
    assert np.median([len(one) for one in changed]) <= 3


def test_where_nothing_is_found_nothing_is_there_and_a_line_is_named(tmp_path: Path) -> None:
    """Every record that the two free columns of Home Credit allow is tried."""
    public = PUBLIC["Home Credit"]()
    data, model = public.write(tmp_path)
    draft(Wish(data=data, model=model, label=public.label, favourable="0"), tmp_path / "loan", Trust())
    found = attempt(tmp_path / "loan", settings_in(tmp_path), count=20)
    loaded = Registry(tmp_path / "other").register(tmp_path / "loan").load()
    space, rows = loaded.reference.space, loaded.reference.rows_raw
    income, credit = space.names.index("AMT_INCOME_TOTAL"), space.names.index("AMT_CREDIT")
    assert sum(not feature.is_fixed for feature in space.features) == 2
    without = [one.record for one in found.asked if not one.changes]
    assert without
    for record in without:
        incomes = np.arange(rows[record, income], 1.2 * rows[record, income] + 0.1, 500)
        credits = np.arange(rows[record, credit], 0.5 * rows[record, credit] - 0.1, -500)
        grid = np.array(np.meshgrid(incomes, credits)).reshape(2, -1).T
        tried = np.tile(rows[record], (len(grid), 1))
        tried[:, [income, credit]] = grid
        assert not loaded.black_box.accepts(loaded.black_box.score_raw(tried)).any()
    (line,) = [one for one in found.findings if one.startswith("Of the records without an answer")]
    assert "without the max_change of AMT_INCOME_TOTAL" in line
    # An income as high as others have, with the smallest legal loan, is a yes for as many as the line says at least.
    helped = 0
    for record in without:
        tried = np.tile(rows[record], (500, 1))
        tried[:, income] = np.linspace(rows[record, income], np.quantile(rows[:, income], 0.95), 500)
        tried[:, credit] = 0.5 * rows[record, credit]
        helped += bool(loaded.black_box.accepts(loaded.black_box.score_raw(tried)).any())
    assert helped >= len(without) / 3
