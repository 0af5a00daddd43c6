"""German Credit (UCI 144): its features with what a person can do about them, its codes in words, and how to read it.

Expects a CSV with the columns named below and `label`, 1 for a good credit risk. The published file has no header and
calls a good risk 1 and a bad one 2.
"""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np

from app.recourse.features import (
    Advice,
    Better,
    Change,
    Feature,
    FeatureSpace,
    FeatureType,
    MaxChange,
    MovesWithTime,
    ReasonWords,
    Sentence,
    Takes,
    Words,
    parse_column,
)


def _number(
    name: str,
    label: str,
    low: int,
    high: int,
    unit: str | None = None,
    change: Change = Change.ANY,
    *,
    reason: tuple[ReasonWords, ReasonWords] = (ReasonWords(), ReasonWords()),
) -> Feature:
    return Feature(
        name=name,
        type=FeatureType.INTEGER,
        label=label,
        unit=unit,
        min=low,
        max=high,
        step=1,
        change=change,
        reason=reason[0],
        words={"de": Words(label=GERMAN[name], unit=GERMAN_UNITS.get(unit or "", unit), reason=reason[1])},
    )


def _codes(name: str, label: str, change: Change = Change.ANY, *, protected: bool = False) -> Feature:
    return Feature(
        name=name, type=FeatureType.CATEGORICAL, label=label, categories=tuple(CODES[name]), level_names=CODES[name],
        change=change, protected=protected,
        words={"de": Words(label=GERMAN[name], levels=dict(zip(CODES[name], GERMAN_LEVELS[name], strict=True)))},
    )  # fmt: skip


def _classes(
    name: str, label: str, *, named: bool = True, too_low: tuple[str | None, str | None] = (None, None)
) -> Feature:
    """A number that the data have in classes, from 1 on."""
    levels = tuple(str(k) for k in range(1, len(CLASSES[name]) + 1))
    english, german = (dict(zip(levels, words, strict=True)) for words in zip(*CLASSES[name], strict=True))
    return Feature(
        name=name, type=FeatureType.ORDINAL, label=label, categories=levels, level_names=english,
        reason=ReasonWords(named=named, too_low=too_low[0]),
        words={"de": Words(label=GERMAN[name], levels=german, reason=ReasonWords(too_low=too_low[1]))},
    )  # fmt: skip


CLASSES: dict[str, tuple[tuple[str, str], ...]] = {
    "installment_rate": (("35% or more", "35 % oder mehr"), ("25% to 35%", "25 % bis 35 %"),
                         ("20% to 25%", "20 % bis 25 %"), ("under 20%", "unter 20 %")),
    "present_residence": (("under 1 year", "unter 1 Jahr"), ("1 to 4 years", "1 bis 4 Jahre"),
                          ("4 to 7 years", "4 bis 7 Jahre"), ("7 years or more", "7 Jahre oder mehr")),
    "number_credits": (("1", "1"), ("2 or 3", "2 oder 3"), ("4 or 5", "4 oder 5"), ("6 or more", "6 oder mehr")),
    "people_liable": (("0 to 2", "0 bis 2"), ("3 or more", "3 oder mehr")),
}  # fmt: skip
"""What the classes 1, 2, … mean, in English and German."""

CODES: dict[str, dict[str, str]] = {
    "status": {
        "A11": "below 0 DM",
        "A12": "0 to 200 DM",
        "A13": "200 DM or more, or salary paid in for a year",
        "A14": "no everyday bank account",
    },
    "credit_history": {
        "A30": "no credits taken, or all paid back duly",
        "A31": "all credits at this bank paid back duly",
        "A32": "existing loans repaid on time so far",
        "A33": "delay in paying off in the past",
        "A34": "critical account, or credits elsewhere",
    },
    "purpose": {
        "A40": "new car",
        "A41": "used car",
        "A42": "furniture or equipment",
        "A43": "radio or television",
        "A44": "domestic appliances",
        "A45": "repairs",
        "A46": "education",
        "A48": "retraining",
        "A49": "business",
        "A410": "other",
    },
    "savings": {
        "A61": "below 100 DM",
        "A62": "100 to 500 DM",
        "A63": "500 to 1,000 DM",
        "A64": "1,000 DM or more",
        "A65": "unknown, or none",
    },
    "employment_duration": {
        "A71": "none, unemployed",
        "A72": "under 1 year",
        "A73": "1 to 4 years",
        "A74": "4 to 7 years",
        "A75": "7 years or more",
    },
    "personal_status_sex": {
        "A91": "male, divorced or separated",
        "A92": "female, divorced, separated or married",
        "A93": "male, single",
        "A94": "male, married or widowed",
    },
    "other_debtors": {"A101": "none", "A102": "co-applicant", "A103": "guarantor"},
    "property": {
        "A121": "real estate",
        "A122": "building society savings or life insurance",
        "A123": "car or other",
        "A124": "unknown, or none",
    },
    "other_installment_plans": {"A141": "bank", "A142": "stores", "A143": "none"},
    "housing": {"A151": "rent", "A152": "own", "A153": "rent-free"},
    "job": {
        "A171": "unemployed or unskilled, non-resident",
        "A172": "unskilled, resident",
        "A173": "skilled employee or official",
        "A174": "management, self-employed, highly qualified",
    },
    "telephone": {"A191": "none", "A192": "yes, under the customer's name"},
    "foreign_worker": {"A201": "yes", "A202": "no"},
}
"""What each code means, in the order of the codes. A47 (vacation) does not occur in the data."""

GERMAN_UNITS = {"months": "Monate", "years": "Jahre"}

GERMAN: dict[str, str] = {
    "status": "Girokonto", "duration": "Laufzeit", "credit_history": "Bisherige Kredite", "purpose": "Verwendungszweck",
    "amount": "Kreditbetrag", "savings": "Ersparnisse", "employment_duration": "Zeit im jetzigen Arbeitsverhältnis",
    "installment_rate": "Rate als Anteil am Einkommen", "personal_status_sex": "Familienstand und Geschlecht",
    "other_debtors": "Mitantragsteller oder Bürgen", "present_residence": "Wohndauer",
    "property": "Vermögen", "age": "Alter", "other_installment_plans": "Andere Ratenkredite",
    "housing": "Wohnsituation", "number_credits": "Kredite bei dieser Bank", "job": "Beruf",
    "people_liable": "Unterhaltsberechtigte", "telephone": "Telefon",
    "foreign_worker": "Gastarbeiter",
}  # fmt: skip
"""What each feature is called in German."""

GERMAN_LEVELS: dict[str, tuple[str, ...]] = {
    "status": ("unter 0 DM", "0 bis 200 DM", "200 DM oder mehr, oder ein Jahr lang Gehaltskonto", "kein Girokonto"),
    "credit_history": ("keine Kredite, oder alle pünktlich zurückgezahlt", "alle Kredite dieser Bank zurückgezahlt",
                       "laufende Kredite bisher pünktlich", "früher Verzug", "kritisches Konto, oder Kredite anderswo"),
    "purpose": ("Neuwagen", "Gebrauchtwagen", "Möbel oder Einrichtung", "Radio oder Fernseher", "Haushaltsgeräte",
                "Reparaturen", "Ausbildung", "Umschulung", "Geschäft", "Sonstiges"),
    "savings": ("unter 100 DM", "100 bis 500 DM", "500 bis 1.000 DM", "1.000 DM oder mehr", "unbekannt, oder keine"),
    "employment_duration": ("keine, arbeitslos", "unter 1 Jahr", "1 bis 4 Jahre", "4 bis 7 Jahre", "7 Jahre oder mehr"),
    "personal_status_sex": ("Mann, geschieden oder getrennt", "Frau, geschieden, getrennt oder verheiratet",
                            "Mann, ledig", "Mann, verheiratet oder verwitwet"),
    "other_debtors": ("keine", "Mitantragsteller", "Bürge"),
    "property": ("Immobilie", "Bausparvertrag oder Lebensversicherung", "Auto oder anderes", "unbekannt, oder keines"),
    "other_installment_plans": ("bei einer Bank", "bei Geschäften", "keine"),
    "housing": ("zur Miete", "Eigentum", "mietfrei"),
    "job": ("arbeitslos oder ungelernt, nicht ansässig", "ungelernt, ansässig", "Facharbeiter oder Beamter",
            "leitend, selbständig, hoch qualifiziert"),
    "telephone": ("keines", "ja, auf den Namen des Kunden"),
    "foreign_worker": ("ja", "nein"),
}  # fmt: skip
"""What each level is called in German, in the order of `CODES`."""

ALL = (
    _codes("status", "Everyday bank account"),
    _number(
        "duration",
        "Repayment term",
        4,
        72,
        "months",
        reason=(
            ReasonWords(too_high="Repayment term too long", too_low="Repayment term too short"),
            ReasonWords(too_high="Laufzeit zu lang", too_low="Laufzeit zu kurz"),
        ),
    ),
    _codes("credit_history", "Credit history"),
    _codes("purpose", "Purpose"),
    _number("amount", "Credit amount", 250, 20000, "DM"),
    _codes("savings", "Savings"),
    _codes("employment_duration", "Time in current job"),
    _classes("installment_rate", "Loan payments as a share of the income"),
    _codes("personal_status_sex", "Personal status and sex", Change.NONE, protected=True),
    _codes("other_debtors", "Other debtors or guarantors"),
    _classes(
        "present_residence",
        "Time at the present residence",
        too_low=("Too short a time at the present residence", "Zu kurze Zeit in der jetzigen Wohnung"),
    ),
    _codes("property", "Property"),
    _number("age", "Age", 18, 100, "years", Change.INCREASE),
    _codes("other_installment_plans", "Other payment plans"),
    _codes("housing", "Housing"),
    _classes("number_credits", "Credits at this bank"),
    _codes("job", "Job"),
    _classes("people_liable", "People to maintain", named=False),
    _codes("telephone", "Telephone"),
    _codes("foreign_worker", "Foreign worker", Change.NONE, protected=True),
)
"""All twenty, 61 encoded columns."""

FOUR = tuple(feature for feature in ALL if feature.name in ("duration", "amount", "personal_status_sex", "age"))
"""The four that the papers use, 7 encoded columns."""

OLDER = MovesWithTime(per_year=1)
LENDER = tuple(
    replace(one, change=Change.NONE, moves_with_time=OLDER) if one.name == "age" else one
    for one in ALL
    if one.name != "installment_rate"
)
"""What a lender can ask about other terms: a smaller loan is a smaller share of the income, which the data lack. An age
moves with time, unlike in the papers."""

FEATURES = {"all": ALL, "four": FOUR, "lender": LENDER}
"""The schemas, as `train.py --features` names them."""

FIXED = {
    "credit_history", "purpose", "employment_duration", "installment_rate", "present_residence", "property", "age",
    "housing", "number_credits", "job", "people_liable",
}  # fmt: skip
"""What the papers let a person change, and no lender would advise to."""

ADVISED = {
    "status": ("A12", "A13"), "savings": ("A62", "A63", "A64"), "other_debtors": ("A102", "A103"),
    "other_installment_plans": ("A143",), "telephone": ("A192",),
}  # fmt: skip
"""Categories that a lender would advise; the data call "no account" and "none" the best."""


TERMS = {"amount": 200, "duration": 3}
"""What the lender sets, with the least change worth advising; each changes by half at most, as nobody is helped by a
tenth of a loan or can repay six times as much a month."""

TAKES = {"status": 1, "savings": 3, "other_installment_plans": 3}
"""Months of a change."""

SENTENCES: dict[str, tuple[Sentence, Sentence]] = {
    "status": (
        Sentence(to={"A12": "Have 0 DM or more in your everyday bank account until we decide",
                     "A13": "Have 200 DM or more in your everyday bank account until we decide"}),
        Sentence(to={"A12": "0 DM oder mehr bis zur Entscheidung auf dem Girokonto haben",
                     "A13": "200 DM oder mehr bis zur Entscheidung auf dem Girokonto haben"}),
    ),
    "duration": (Sentence(any="When you write to us, ask to repay over {to} instead of {from}"),
                 Sentence(any="Wenn Sie uns schreiben, um {to} statt {from} Laufzeit bitten")),
    "amount": (Sentence(decrease="When you write to us, ask for {to} instead of {from}"),
               Sentence(decrease="Wenn Sie uns schreiben, um {to} statt {from} Kredit bitten")),
    "savings": (Sentence(any="Have savings of {to}, and keep them until we decide"),
                Sentence(any="Ersparnisse von {to} haben und bis zur Entscheidung behalten")),
    "other_debtors": (
        Sentence(to={"A102": "Find a co-applicant whom we accept", "A103": "Find a guarantor whom we accept"}),
        Sentence(to={"A102": "Mit jemandem beantragen, den wir anerkennen",
                     "A103": "Eine Bürgschaft beibringen, die wir anerkennen"})),
    "other_installment_plans": (Sentence(to={"A143": "Pay off your other payment plans"}),
                                Sentence(to={"A143": "Andere Ratenkredite abbezahlen"})),
    "telephone": (Sentence(to={"A192": "Have a telephone in your own name"}),
                  Sentence(to={"A192": "Einen Telefonanschluss auf den eigenen Namen haben"})),
}  # fmt: skip
"""Advice as people say it, in English and German."""


def for_applicants(space: FeatureSpace) -> FeatureSpace:
    """The same columns with what a lender would advise, where the schema has what the papers search."""

    def advised(feature: Feature) -> Feature:
        if feature.name in FIXED:
            return replace(feature, change=Change.NONE)
        english, german = SENTENCES.get(feature.name, (Sentence(), Sentence()))
        return replace(
            feature, advice=Advice(categories=ADVISED.get(feature.name)), sentence=english,
            takes=Takes(months=TAKES.get(feature.name, 0)),
            terms=feature.name in TERMS, better=Better.MORE if feature.name == "amount" else None,
            max_change=MaxChange(relative=0.5) if feature.name in TERMS else None, least_change=TERMS.get(feature.name),
            words={"de": replace(feature.words["de"], sentence=german)},
        )  # fmt: skip

    return FeatureSpace([advised(feature) for feature in space.schema])


def load(path: Path, features: tuple[Feature, ...] = ALL) -> tuple[np.ndarray, np.ndarray]:
    """Raw rows ``(n, p)`` of the named features, and labels ``(n,)``, 1 for a good credit risk.

    Raises
    ------
    ValueError : a column is missing or a value is not in the schema
    """
    with path.open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file))
    columns: list[np.ndarray] = []
    for feature in features:
        if not records or feature.name not in records[0]:
            raise ValueError(f"{path} has no column {feature.name}")
        column, faults = parse_column(feature, [record[feature.name] for record in records])
        if faults:
            row, reason = faults[0]
            raise ValueError(f"{path}, record {row + 1}: {feature.name} {reason}")
        columns.append(column)
    return np.column_stack(columns), np.array([int(record["label"]) for record in records])


def halves(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of a training half and a test half, drawn at random."""
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[: n // 2]), np.sort(order[n // 2 :])
