"""What the name of a column suggests about what a person can change. A person decides; a draft is careful."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

SCALES: tuple[tuple[str, ...], ...] = (
    ("none", "little", "moderate", "quite rich", "rich"),
    ("none", "some", "much"),
    ("none", "low", "medium", "high"),
    ("very low", "low", "moderate", "high", "very high"),
    ("low", "medium", "high"),
    ("small", "medium", "large"),
    ("poor", "fair", "good", "very good", "excellent"),
    ("bad", "good"),
    ("never", "rarely", "sometimes", "often", "always"),
    ("primary", "secondary", "tertiary"),
    ("none", "school", "college", "university"),
    ("no", "yes"),
    ("n", "y"),
    ("false", "true"),
    ("absent", "present"),
)
"""Levels whose words give them an order, from lowest to highest."""


Pace = Literal["", "job", "savings"]


@dataclass(frozen=True, slots=True)
class Hint:
    """Manifest keys and a comment that a draft adds to a feature because of the feature's name or levels."""

    pattern: re.Pattern[str]
    comment: str
    keys: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    types: frozenset[str] | None = None
    """Types of features that it is about; all where None."""
    most: float | None = None
    """Largest number that is proposed."""
    terms: bool = False
    """Whether few values are all that the lender offers."""
    pace: Pace = ""
    """What a change waits for: nothing, another job, or money that is put aside every month."""

    def takes(self, low: float, high: float, levels: int = 0) -> dict[str, float]:
        """The mapping `takes` of a feature, such as `{"months_per_unit": 0.5}`; empty where the hint has no pace.

        Parameters
        ----------
        low, high : smallest and largest usual quantity of a number
        levels : number of levels, for a feature with levels
        """
        if self.pace == "job":
            return {"months": JOB_MONTHS}
        if self.pace and levels > 1:
            return {"months_per_level": min(JOB_MONTHS, YEAR / (levels - 1))}
        return {"months_per_unit": months_per_unit(low, high)} if self.pace and high > low else {}


JOB_MONTHS = 3
"""How long it takes to find another job, or to save enough for the next level."""

YEAR = 12
"""Months in which people may get from one end of what is usual to the other by what they put aside."""


def months_per_unit(low: float, high: float) -> float:
    """Months that a change by one unit takes if a change from `low` to `high` takes a year."""
    return float(f"{YEAR / (high - low):.2g}")


ORDERED = frozenset({"integer", "continuous", "ordinal"})
NUMBERS = frozenset({"integer", "continuous"})


def _hint(
    words: str,
    comment: str,
    types: frozenset[str] | None = None,
    most: float | None = None,
    pace: Pace = "",
    **keys: Any,
) -> Hint:
    return Hint(re.compile(rf"(^|_)({words})(_|$)"), comment, MappingProxyType(keys), types, most, pace=pace)


def _fixed(words: str, why: str, types: frozenset[str] | None = None) -> Hint:
    return _hint(words, f"change: none, {why}", types, change="none")


_SCHOOLING = "education|school|schooling|schl|degree|qualification|edu|education_num|grade_level"
_RISES = "change: increase, as it only rises; takes says a year for each {}: is that so? cost: 2 makes it hard"
_PAST = "because it lies in the past"
_BURDEN = (
    "dti|debtinc|debt_ratio|debt_to_income|payment_to_income|loan_to_income|(percent|share|ratio)_\\w*income|income_(ratio|share)|"
    "utili[sz]ation\\w*|\\w*util|\\w*burden|(revol\\w*|card|loan|credit|outstanding)_bal(ance)?|trades_w_\\w*balance|"
    "expenses|expenditure|spending"
)
_DEBTS = "debt|debts|owed|overdraft|loans|(num|number|open|existing|active|other|current)_(of_)?credits|principal"
_YEAR = "takes: a year for all of advice"
_OWES = f"change: decrease, by half at most, as nobody is to owe more; {_YEAR}"
_OTHERS = "because others set it; what it depends on may be a feature of its own"

HINTS = (
    _fixed(
        "(car|vehicle|house|home|building)_age|age_(of_)?(car|vehicle|house|home|building)",
        "as nobody buys a newer one to get a loan"),
    _fixed("(account|credit|loan|file|trade|line)s?_age|age_of_\\w+", _PAST),
    _hint(
        "age|agep|birth\\w*|dob|alter|edad|idade|geburt\\w*",
        "protected, by its name; where changes take years, moves_with_time: {per_year: 1} lets it grow",
        protected=True,
    ),
    _hint(
        "sex|sexo|sexe|gender|genero|geschlecht|race|racial|ethnic|ethnicity|colou?r|religion|nationality|citizen|"
        "citizenship|staatsangeh\\w*|immigra\\w*|veteran|foreign|foreigner|foreign_worker|native|native_country|"
        "native_language|country_of_birth|disab\\w*|pregnan\\w*|orientation|rac1p|relp|relshipp|pobp|(?<!_)mar(?!_)|"
        "marital|marital_status|marriage|married|maritalstatus|civil_status|estado_civil|relationship|spouse|partner|"
        "romantic|personal_status|personal_status_sex|familienstand|zivilstand|family_status|salutation|"
        "health(?!_insurance)|illness|disease|diagnos\\w*",
        "protected, by its name: never advice, never in a sentence",
        protected=True,
    ),
    _hint(
        "dependents?|dependants?|children|kids|household|fam\\w*|people_liable|num_people|siblings|guardian|"
        "mother|father|parents?|parental|[mfp]_?(edu|job|status)|co_?applicants?|coborrower|joint",
        "change: none, as a family is no matter of advice, nor a reason to state",
        change="none", reason={"named": False},
    ),
    _fixed(
        "zip|zipcode|zip3|postcode|postal|region|state|city|district|county|country|address|addr|urban|rural|"
        "neighbou?rhood|location|distance|travel_?time|commut\\w*|population",
        "as a place to live is no matter of advice"),
    _fixed(
        "weekday|hour|appr|process|channel|branch|officer|dealer|application_type|contract_type|list_status|"
        "document|type_suite|verification\\w*|days_last_phone_change|flag_\\w*(phone|mobile?|email)",
        "as it tells how the application came about"),
    _fixed(
        "late|lates|delinq\\w*|delq\\w*|dlq\\w*|default|defaults|defaulted|bankrupt\\w*|arrears|derog\\w*|collections?|coll|"
        "history|hist|past|credit_history|previous|inquiries|inq\\w*|ninq|enquiries|req_credit|credit_bureau|pub_rec\\w*|"
        "public_records?|dpd\\w*|overdue|missed|since|ago|oldest|earliest|first|issued?|year|date|month_issued|vintage|"
        "failures?|prior|absen\\w*|nursery|preschool|kindergarten|childhood|last|last_?\\d+\\w*|in_file|on_file|ever\\d*|"
        "satisfactory|clage|on_book|mob|social_circle|(re)?pay(ment)?_(status_?)?\\d+|(pay|bill|paid)_?(amt|amount)_?\\d+|"
        "bill_\\w+|repayment_status\\w*|pymnt|recover\\w*|charge_?offs?|charged_off\\w*|foreclos\\w*|judge?ments?|liens?|"
        "settlement|worst|total_acc|days_(?!employed)\\w+",
        _PAST),
    _fixed(
        "property|properties|housing|realty|real_estate|home|home_owner\\w*|own_home|mortgage_status|own_car|car|vehicle|"
        "apartments?|mort_acc|mortdue",
        "as nobody buys a home to get a loan"),
    _fixed(
        "limit|limits|limit_bal|lim|hi_lim|ltv|loan_to_value|^value|apprais\\w*|valuation|collateral_\\w+|price|"
        "goods_price|funded|funded_\\w+|granted|approved_\\w+|annuity|instal?lments?(?!_(rate|plan))|emi|"
        "monthly_payment|ext_source\\w*|external_\\w+|bureau\\w*|tier|segment",
        _OTHERS),
    _hint(
        "telephone|phone|internet|email",
        "change: increase, as nobody is advised to give it up",
        types=frozenset({"binary"}), change="increase",
    ),
    _fixed(
        "purpose|reason|intent", "as what a loan is for is no matter of advice",
    ),
    _fixed(
        "fnlwgt|weight|sample_weight|wgt", "because it weighs records; is it a feature?",
    ),
    _fixed(
        "tenure|seniority|experience|emp_length|employment_length|employment_duration|years_at|months_at|"
        "years_in|months_in|time_in|time_at|residence|present_residence|job_years|years_employed|months_employed|"
        "days_employed|yoj|employed_(for|months|years)",
        "because only time moves it; moves_with_time: {per_year: …} in its own unit says so"),
    _hint(
        _SCHOOLING, _RISES.format("unit"), types=NUMBERS, change="increase", takes={"months_per_unit": 12},
    ),
    _hint(
        _SCHOOLING, _RISES.format("level"), types=frozenset({"ordinal"}), change="increase",
        takes={"months_per_level": 12},
    ),
    _fixed(
        _SCHOOLING,
        "as nobody can lower it and its levels have no order here; type: ordinal would let it rise",
        frozenset({"categorical"})),
    _fixed(
        "grade|sub_grade|gpa|marks?|score|scores|fico\\w*|rating|risk\\w*|risk_estimate|int_rate|interest_rate|apr",
        _OTHERS),
    Hint(
        re.compile(r"^([a-z]|var|variable|col|column|feat|feature|attr|attribute|field)_?\d+$"),
        "change: none, because the name does not say what it is; label says it, and can people change it?",
        MappingProxyType({"change": "none"}),
    ),
    _fixed(
        "cow|occp|code|codes|cd|naics|isco|soc",
        "as numbers that are codes have no order; give the model texts, and it is a category", types=NUMBERS),
    _fixed(
        "occupation|occp|job|profession|employer|workclass|cow|industry|sector",
        "as nobody takes up another profession to get a loan", types=frozenset({"categorical"})),
    _fixed("loss|losses", "as a loss is no matter of advice"),
    _hint(
        "hours|wkhp|working_time",
        "change: increase, and not beyond 60; max_change: {absolute: 10} limits it further",
        types=NUMBERS, most=60.0, change="increase",
    ),
    _hint(_BURDEN, _OWES, types=NUMBERS, pace="savings", change="decrease", max_change={"relative": 0.5}),
    _hint(
        "income|inc|annual_inc|salary|wage|wages|earnings|revenue|einkommen|gehalt",
        "change: increase, by a fifth at most, and in 3 months, as by another job; is that so?",
        types=NUMBERS, pace="job", change="increase", max_change={"relative": 0.2},
    ),
    _hint(
        "(?<!_)amount(?!_)|(loan|credit|requested)_(amount|amnt|amt)|(amount|amnt|amt)_(credit|requested|financed)|^loan$",
        "change: decrease, by half at most, as nobody is to borrow more, nor gets by with next to nothing",
        types=NUMBERS, change="decrease", max_change={"relative": 0.5},
    ),
    _hint(
        "income|salary|wage|wages|earnings|revenue|savings|assets|balance|capital_gain|deposits?|down_?payment|"
        "checking|checking_\\w+",
        f"change: increase; {_YEAR}; how far can it move, as by max_change: {{relative: 0.2}}?",
        types=ORDERED, pace="savings", change="increase",
    ),
    _hint(
        f"{_BURDEN}|{_DEBTS}",
        f"change: decrease, as nobody is advised to owe more; {_YEAR}",
        types=ORDERED, pace="savings", change="decrease",
    ),
    _hint(
        "[dw]?alc|alcohol|drink\\w*|smok\\w*|cigarettes?|gambl\\w*",
        "change: decrease, as nobody is advised to have more of it",
        types=ORDERED, change="decrease",
    ),
    _hint("guarantors?|guarantee|co_?signers?", "", types=frozenset({"binary", "categorical"})),
    replace(_hint("term|duration|tenor|maturity", "a shorter or longer loan; which terms are there?"), terms=True),
)  # fmt: skip

LEVELS = (
    (
        frozenset({"male", "female", "m", "f", "man", "woman", "men", "women", "weiblich", "männlich", "maennlich",
                   "homme", "femme", "hombre", "mujer", "masculino", "femenino", "feminino"}),
        "sex",
    ),
    (
        frozenset({"married", "single", "divorced", "widowed", "widow", "separated", "unmarried", "never married",
                   "civil marriage", "single not married", "married civ spouse", "verheiratet", "ledig", "geschieden",
                   "verwitwet"}),
        "marital status",
    ),
    (
        frozenset({"white", "black", "asian", "hispanic", "latino", "african american", "caucasian", "native american",
                   "asian pac islander", "amer indian eskimo"}),
        "origin",
    ),
    (frozenset({"christian", "muslim", "jewish", "hindu", "buddhist", "catholic", "protestant"}), "religion"),
)  # fmt: skip
"""Levels of which two say what people may not be judged by, whatever the name of their column."""

MONEY = re.compile(r"account|overdrawn|overdraft|guarantor|co-?applicant|\b(dm|eur|usd|gbp|\$|€)\b", re.IGNORECASE)
"""Levels that say what they are, such as "200 DM or more"."""


_TERMS = re.compile(
    r"^((loan|credit|requested)_)?(amount|amnt|amt)(_(credit|requested|financed))?$|^loan$|^loan_amount_\w+$|"
    r"^((loan|credit|repayment)_)?(term|duration|tenor|maturity)(_in)?(_(months?|years?))?$|"
    r"^((loan|credit)_)?(int|interest)_rate$|^apr$|^((loan|credit)_)?(product|product_type)$|^loan_type$"
)
"""Names of what a lender sets in a contract."""


def names_a_term(name: str) -> bool:
    """Whether a column's name suggests a term of the contract, which the lender sets."""
    return _TERMS.search(plain_name(name)) is not None


def hint_of_levels(levels: Sequence[str]) -> Hint | None:
    """The hint that the levels of a column give, whatever the name of the column; None without such a hint."""
    plain = {re.sub(r"[^a-z0-9äöü]+", " ", level.lower()).strip() for level in levels}
    for words, what in LEVELS:
        if len(plain & words) >= 2:
            comment = f"protected, as its levels tell the {what}: never advice, never in a sentence"
            return Hint(re.compile(""), comment, MappingProxyType({"protected": True}))
    return Hint(re.compile(""), "") if any(MONEY.search(level) for level in levels) else None


_NOT_PROPOSED = re.compile(
    r"\?|n/a|.*\b(unknown|missing|not (available|stated|applicable|provided|reported)|exempt|undisclosed|unpaid|"
    r"without.pay|never.worked|unemployed|retired|deceased|unskilled|non.resident|homeless|overdrawn|"
    r"no ((checking|current|bank|savings) )?(account|savings|income|job|employment|insurance|property))\b.*"
)


def proposed(level: str) -> bool:
    """Whether a draft lets advice name this level as a goal; false for levels such as "unknown" or "unemployed"."""
    return _NOT_PROPOSED.fullmatch(level.strip().lower()) is None


def plain_name(name: str) -> str:
    """A column's name as lower-case words with underscores between them."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", split.lower()).strip("_")


def hint_of(name: str, type: str) -> Hint | None:
    """The first hint that fits the name and the type of a feature; None where none fits."""
    plain = plain_name(name)
    fitting = (hint for hint in HINTS if hint.types is None or type in hint.types)
    return next((hint for hint in fitting if hint.pattern.search(plain)), None)


def scale_of(levels: tuple[str, ...]) -> tuple[str, ...] | None:
    """The levels from low to high, as their words suggest; None where they suggest no order."""
    plain = {level.strip().lower(): level for level in levels}
    for scale in SCALES:
        if len(plain) == len(levels) and set(plain) <= set(scale):
            return tuple(plain[level] for level in scale if level in plain)
    for place_of in (_place, _schooling):
        places = {level: place_of(text) for text, level in plain.items()}
        if len(levels) > 2 and None not in places.values() and len(set(places.values())) == len(levels):
            return tuple(sorted(levels, key=lambda level: places[level] or 0.0))
    return None


SCHOOLS = (
    (r"no school\w*", 0.0), (r"nursery|pre ?school", 0.3), (r"kindergarten", 0.5), (r"ged", 12.4),
    (r"(regular )?high|hs", 12.5), (r"(some )?college( but)? (under|less than) 1 year", 12.8),
    (r"some college|1 or more years of college", 13.0), (r"assoc\w* voc\w*", 14.0), (r"assoc\w*", 14.5),
    (r"bachelor\w*", 16.0), (r"master\w*", 18.0), (r"prof\w* (school|degree)", 19.0), (r"doctor\w*|phd", 20.0),
)  # fmt: skip
"""Beginnings of the names of schools and degrees, in plain words, and about how many years lead there."""


def _schooling(text: str) -> float | None:
    """Where a level of education lies, such as "9th", "HS-grad" or "Bachelors"; None for other words."""
    words = re.sub(r"[^a-z0-9]+", " ", text)
    if grade := re.match(r"(?:grade (\d+)|(\d+)(?:st|nd|rd|th))\b", words):
        return float(grade[1] or grade[2])
    return next((years for begins, years in SCHOOLS if re.match(rf"({begins})\b", words)), None)


def _place(text: str) -> float | None:
    """Where a range in words lies, such as "under 1 year", "1 to 3 years", "3-7" or "7+"; None for other words."""
    if re.fullmatch(r"none|no|never|nothing|no (savings( account)?|deposits|income|debts?)", text):
        return -1.0
    found = re.match(r"(?:(under|below|less than|up to|<=?|over|above|more than|at least|>=?) *)?([0-9][0-9.,]*)", text)
    if found is None or re.search(r"[a-z][0-9]", text):
        return None
    start = float(found[2].replace(",", "").rstrip(".") or 0)
    side = found[1] or ""
    below = side.startswith(("under", "below", "less", "up", "<"))
    above = bool(side) and not below
    return start + (-0.5 if below else 0.5 if above else 0.0)
