"""What the lender calls things: reasons for a refusal, advice as people would say it, and both in German."""

from collections.abc import Mapping
from typing import Any

from app.recourse.features import ReasonWords, Sentence, Words

GERMAN: dict[str, Words] = {
    "age": Words(label="Alter", unit="Jahre"),
    "monthly_income": Words(
        label="Nettoeinkommen im Monat",
        sentence=Sentence(increase="Ihr Nettoeinkommen im Monat von {from} auf {to} steigern"),
    ),
    "monthly_debt": Words(
        label="Monatliche Raten für andere Schulden",
        sentence=Sentence(
            decrease="Andere Schulden, nicht mit diesem Kredit, so weit tilgen, "
            "dass monatlich {to} statt {from} fällig sind"
        ),
    ),
    "card_utilisation": Words(
        label="Ausschöpfung von Karten- und Dispolimits",
        sentence=Sentence(
            decrease="Karten- und Dispokredite, nicht mit diesem Kredit, zurückzahlen, "
            "bis noch {to} statt {from} der Limits ausgeschöpft sind"
        ),
    ),
    "late_payments": Words(
        label="Verspätete Zahlungen in den letzten 24 Monaten",
        reason=ReasonWords(too_high="Zu viele verspätete Zahlungen in den letzten 24 Monaten"),
    ),
    "amount": Words(
        label="Kreditbetrag", sentence=Sentence(decrease="Wenn Sie uns schreiben, um {to} statt {from} Kredit bitten")
    ),
    "term": Words(
        label="Laufzeit",
        unit="Monate",
        reason=ReasonWords(too_high="Laufzeit zu lang", too_low="Laufzeit zu kurz"),
        sentence=Sentence(any="Wenn Sie uns schreiben, um {to} statt {from} Laufzeit bitten"),
    ),
    "employment": Words(
        label="Zeit im jetzigen Arbeitsverhältnis",
        levels={
            "under 1 year": "unter 1 Jahr",
            "1 to 3 years": "1 bis 3 Jahre",
            "3 to 7 years": "3 bis 7 Jahre",
            "over 7 years": "über 7 Jahre",
        },
        reason=ReasonWords(too_low="Zu kurze Zeit im jetzigen Arbeitsverhältnis"),
        sentence=Sentence(increase="Im jetzigen Arbeitsverhältnis bleiben: {to} statt {from}"),
    ),
    "savings": Words(
        label="Ersparnisse",
        levels={
            "none": "keine",
            "under 1,000 EUR": "etwas, aber unter 1.000 EUR",
            "1,000 to 5,000 EUR": "1.000 bis 5.000 EUR",
            "5,000 to 15,000 EUR": "5.000 bis 15.000 EUR",
            "over 15,000 EUR": "über 15.000 EUR",
        },
        reason=ReasonWords(too_low="Zu geringe Ersparnisse"),
        sentence=Sentence(increase="Ersparnisse aufbauen und bis zur Entscheidung behalten: {to} statt {from}"),
    ),
    "housing": Words(
        label="Wohnsituation",
        levels={
            "rented": "zur Miete",
            "with family": "bei der Familie",
            "mortgaged": "belastetes Eigentum",
            "owned": "Eigentum",
        },
        sentence=Sentence(to={"rented": "Zur Miete ziehen", "with family": "Zur Familie ziehen"}),
    ),
    "purpose": Words(
        label="Verwendungszweck",
        levels={
            "car": "Auto",
            "home improvement": "Renovierung",
            "debt consolidation": "Umschuldung",
            "education": "Ausbildung",
            "other": "Sonstiges",
        },
    ),
    "guarantor": Words(
        label="Bürgschaft für den Kredit",
        reason=ReasonWords(too_low="Keine Bürgschaft für den Kredit"),
        sentence=Sentence(to={"true": "Eine Bürgschaft beibringen, die wir anerkennen"}),
    ),
}

REASONS: dict[str, ReasonWords] = {
    "age": ReasonWords(code="R01"),
    "monthly_income": ReasonWords(code="R02"),
    "monthly_debt": ReasonWords(code="R03"),
    "card_utilisation": ReasonWords(code="R04", too_high="Too much of card and overdraft limits in use"),
    "late_payments": ReasonWords(code="R05", too_high="Too many late payments in the last 24 months"),
    "amount": ReasonWords(code="R06"),
    "term": ReasonWords(code="R07", too_high="Repayment term too long", too_low="Repayment term too short"),
    "employment": ReasonWords(code="R08", too_low="Too short a time in the current job"),
    "savings": ReasonWords(code="R09", too_low="Savings too low"),
    "housing": ReasonWords(code="R10"),
    "purpose": ReasonWords(code="R11"),
    "guarantor": ReasonWords(code="R12", too_low="No guarantor for the loan"),
}

SENTENCES: dict[str, Sentence] = {
    "monthly_income": Sentence(increase="Raise your net monthly income from {from} to {to}"),
    "monthly_debt": Sentence(decrease="Pay off other debts, not with this loan, until {to} a month is due, not {from}"),
    "card_utilisation": Sentence(
        decrease="Pay down cards and overdrafts, not with this loan, to {to} of their limits, from {from}"
    ),
    "amount": Sentence(decrease="When you write to us, ask for {to} instead of {from}"),
    "term": Sentence(any="When you write to us, ask to repay over {to} instead of {from}"),
    "employment": Sentence(increase="Stay in your current job: {to} instead of {from}"),
    "savings": Sentence(increase="Build up savings and keep them until we decide: {to} instead of {from}"),
    "housing": Sentence(to={"rented": "Move into a rented home", "with family": "Move in with family"}),
    "guarantor": Sentence(to={"true": "Find a guarantor whom we accept"}),
}


def words_of(name: str) -> Mapping[str, Any]:
    """The words of a feature, as its arguments."""
    return {
        "reason": REASONS[name],
        "sentence": SENTENCES.get(name, Sentence()),
        "words": {"de": GERMAN[name]},
    }
