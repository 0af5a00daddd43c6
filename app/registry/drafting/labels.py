"""What people call a column: its name in words, without the abbreviations of programs."""

import re

UNITS = {
    "months": "months", "month": "months", "years": "years", "year": "years", "days": "days", "hours": "hours",
    "eur": "EUR", "usd": "USD", "gbp": "GBP", "dm": "DM", "pct": "%", "percent": "%", "percentage": "%",
}  # fmt: skip
"""Units that stand at the end of a name."""

CURRENCIES = frozenset({"EUR", "USD", "GBP", "DM"})
"""Units that a label does not repeat."""

ABBREVIATIONS = {
    "acc": "accounts", "acct": "account", "addr": "address", "amnt": "amount", "amt": "amount", "apr": "APR",
    "avg": "average", "bal": "balance", "bk": "bank", "ccj": "CCJ", "clage": "age of the oldest credit line",
    "cnt": "number of", "curr": "current", "debtinc": "debt-to-income ratio", "delinq": "delinquencies",
    "delq": "delinquency", "derog": "derogatory reports", "dpd": "days past due", "dti": "debt-to-income ratio",
    "edu": "education", "emi": "monthly instalment", "emp": "employment", "ext": "external", "fico": "FICO",
    "inc": "income", "inq": "inquiries", "install": "instalment", "int": "interest", "ltv": "loan-to-value ratio",
    "max": "highest", "min": "lowest", "mort": "mortgage", "mortdue": "mortgage due", "mths": "months",
    "naics": "NAICS", "ninq": "number of inquiries", "nr": "number of", "num": "number of", "pct": "percentage of",
    "prev": "previous", "pub": "public", "rec": "record", "req": "requested", "rev": "revolving", "revol": "revolving",
    "tot": "total", "util": "utilisation", "yoj": "years at the present job", "yr": "year", "yrs": "years",
}  # fmt: skip
"""Usual abbreviations in names of columns, and what people say."""

PHRASES = (
    (r"\bm (since|in)\b", r"months \1"),
    (r"\bw (balance|high)\b", r"with \1"),
    (r"^(amount|number of) (?:of )?(.+) total$", r"\1 total \2"),
    (r"^number (?!of\b)", "number of "),
    (r"^amount (?!of\b|\w+ed\b)(.+)", r"amount of \1"),
    (r"^percent (?!of\b)(.+)", r"percentage of \1"),
)
"""What is said of some words that stand together, in this order."""


def words_of(name: str) -> dict[str, str]:
    """The manifest keys `label` and `unit` that the name of a feature implies. A readable name gets no `label`."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    split = re.sub(r"(?<=\d)(?=(days|months|years)\b|[A-Z])|(?<=\d)(?=(days|months|years|mths|yrs))", " ", split)
    # The hyphen of 30-59 days is no blank.
    parts = [part for part in re.split(r"(?:(?!(?<=\d)-(?=\d))[\W_])+", split) if part]
    # In "inquiries_last_6_months" the months are a time in which something is counted.
    unit = UNITS.get(parts[-1].lower()) if len(parts) > 1 and not parts[-2].isdecimal() else None
    said = " ".join(_said(part.lower()) for part in (parts[:-1] if unit in CURRENCIES else parts))
    for words, better in PHRASES:
        said = re.sub(words, better, said)
    label = said[:1].upper() + said[1:]
    coded = re.fullmatch(r"[A-Za-z][\W_]?\d+", name)
    return ({} if said == name or not said or coded else {"label": label}) | ({"unit": unit} if unit else {})


def _said(part: str) -> str:
    """What people say for one part of a name; AMT1 is amount 1."""
    known = re.fullmatch(r"([a-z]+)(\d*)", part)
    if known is None or known[1] not in ABBREVIATIONS:
        return part
    return f"{ABBREVIATIONS[known[1]]} {known[2]}".strip()
