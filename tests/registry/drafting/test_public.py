"""Drafts of tables like public ones advise nothing that lies in the past, is protected or unknown."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from app.compute.tryout import attempt
from app.registry.drafting.draft import Wish, draft
from app.registry.drafting.questions import Undecided
from app.registry.trust import Trust
from app.settings import Settings
from tests.registry.drafting.public import PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_an_unedited_draft_advises_only_what_people_can_move(name: str, tmp_path: Path) -> None:
    public = PUBLIC[name]()
    data, model = public.write(tmp_path)
    wish = Wish(data=data, model=model, label=public.label)
    with pytest.raises(Undecided) as caught:
        draft(wish, tmp_path / "loan", Trust())
    assert {question.name for question in caught.value.questions} <= {"favourable"}
    draft(Wish(data=data, model=model, label=public.label, favourable=public.values[0]), tmp_path / "loan", Trust())
    manifest = yaml.safe_load((tmp_path / "loan/model.yaml").read_text())
    free = {
        feature["name"] for feature in manifest["features"]
        if not feature.get("protected") and not feature.get("derived") and feature.get("change") != "none"
    }  # fmt: skip
    assert free <= public.movable
    if not free:
        return  # nothing of Taiwan's columns is a person's to change, until the lender says so
    settings = Settings(models_store=tmp_path / "store", state_dir=tmp_path / "state")
    found = attempt(tmp_path / "loan", settings, count=20)
    changed = [[feature for feature, _ in one.changes] for one in found.asked if one.changes]
    assert changed
    assert {feature for one in changed for feature in one} <= public.movable
    assert np.median([len(one) for one in changed]) <= 3
