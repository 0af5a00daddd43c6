"""A scorecard over the records of `table`, and its sum by hand."""

from pathlib import Path
from typing import Any

from tests.registry.adapters.table import FEATURES, make
from tests.registry.loan import ModelDirectory

CARD = """\
feature,from,to,category,points
,,,,300
income,,1500,,0
income,1500,4000.5,,35
income,4000.5,,,60
income,,,missing,10
housing,,,owned|free,40
housing,,,rented,5
housing,,,missing,-7
purpose,,,1|2|5,12
purpose,,,10|11,3
savings,,,none,0
savings,,,some|much,22.5
guarantor,,,true,15
guarantor,,,false,0
months,,12,,1
months,12,-1,,2
"""
CARD = CARD.replace("months,12,-1,,2", "months,12,,,2").replace("months,,12,,1", "months,,12,,1\nmonths,,,-9,4")
MONTHS = FEATURES[2] | {"special": {-9: "no record"}}


def by_hand(record: dict[str, Any]) -> float:
    """The same card in Python."""
    income, months = record["income"], record["months"]
    found = 300 + (10 if income is None else 0 if income < 1500 else 35 if income < 4000.5 else 60)
    found += {"owned": 40, "free": 40, "rented": 5, None: -7}[record["housing"]]
    found += 12 if record["purpose"] in ("1", "2", "5") else 3
    found += 0 if record["savings"] == "none" else 22.5
    return found + 15 * record["guarantor"] + (4 if months == -9 else 1 if months < 12 else 2)


def carded(path: Path, card: str = CARD, suffix: str = "csv", **changes: Any) -> ModelDirectory:
    model = make(path, card.encode(), {"format": "scorecard", "path": f"card.{suffix}"})
    model.manifest["features"] = [*FEATURES[:2], MONTHS, *FEATURES[3:]]
    model.manifest |= {"output": "points", "threshold": 391.5, **changes}
    del model.manifest["favourable"]
    return model
