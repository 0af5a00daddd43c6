"""A report as one HTML file without scripts: for each part a sentence, a plot and a table; also dark and in print."""

from collections.abc import Callable, Mapping
from html import escape

from app.portfolio.comparison_page import may_replace, verdict, versions
from app.portfolio.page_parts import LEVEL, bars, html_file, points, section, table, version_name
from app.questions.answers import Json
from app.recourse.shares import percent

SOURCES = {
    "reference": "the records that the version was registered with",
    "records": "those that the report was asked about",
    "ledger": "the newest question of everybody who asked in the period",
}
"""Kinds of sources in words."""

LIMITS = {
    "advice": "what may be advised", "change": "which way it may change", "max_change": "how far it may change",
    "immutable": "must stay as it is", "exclude": "ruled out", "direction": "which way it may change",
    "bounds": "between which values", "horizon_months": "how long changes may take",
}  # fmt: skip
"""Limits in words."""

NAMED = 3
"""Limits that sentences name; a table has all."""

COST = (
    "A cost of 1 is a change by the usual distance between two applicants’ values, times the weight that the lender "
    "gives the feature. Retrained models are trained again on records like today’s: which share of them accepts the "
    "change too."
)


def page(found: Json, compared: Json | None = None) -> str:
    """The HTML page of a report.

    Parameters
    ----------
    found : a `ReportAnswer` as plain data
    compared : a `ComparisonAnswer` as plain data, of this version with one that may replace it
    """
    title = f"Refused by {version_name(found['model'])}: who can get a yes, and how"
    parts = [
        _short(found, compared), _head(found), _limits(found), _levers(found), _cost(found), _ways(found),
        _groups(found), "" if compared is None else versions(compared), _ending(found),
    ]  # fmt: skip
    return html_file(title, parts)


def _proven(found: Json) -> int:
    proven: Mapping[str, int] = found["preclusion"]["proven"]
    return sum(proven.values())


def _short(found: Json, compared: Json | None) -> str:
    """A sentence for each question that the page answers."""
    refused, proven, limits, ways = found["records"]["refused"], _proven(found), found["limits"], found["common_ways"]
    shut_out = proven + found["preclusion"]["open"]
    lines = [f"Without a way to a yes under today’s limits: {shut_out:,} of {refused:,} refused ({proven:,} proven)."]
    if limits:
        first = f"{_limit(limits[0], found['labels'])} ({limits[0]['blocks']:,})"
        lines.append(f"The limit that alone shuts out most: {first}.")
    if found["groups"]:
        lines.append(_beyond(found))
    if ways:
        reach = percent(ways[-1]["reach"])
        lines.append(f"Reached by what could be told to all alike: {reach}%, most by “{ways[0]['text']}”.")
    if compared is not None:
        lines.append(f"{may_replace(compared)} {verdict(compared)}")
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>" if refused else ""


def _beyond(found: Json) -> str:
    """For which groups it is harder than scores explain."""
    beyond = _named(found, lambda one: _flagged(one) and (one["value_at_equal_score"] or 0.0) > 0.5)
    return f"Harder than scores explain for: {beyond}."


def _named(found: Json, chosen: Callable[[Json], bool]) -> str:
    """The groups that are chosen by how hard it is for them by cost."""
    names = [
        f"{found['labels'].get(compared['by'], compared['by'])} {row['group']}"
        for compared in found["groups"]
        for row, one in _costs(compared)
        if chosen(one)
    ]
    return ", ".join(names) or "no group that is shown"


def about(found: Json) -> str:
    """The sentence that says how many records of which source the version refuses."""
    records, source = found["records"], SOURCES[found["source"]["kind"]]
    return f"{records['refused']:,} of {records['scored']:,} applicants are refused ({source})."


def shut_out(found: Json) -> str:
    """Sentences: how many have no way to a yes, what is proven of them, and which limits alone shut them out."""
    records, recourse, open_ = found["records"], found["recourse"], found["preclusion"]["open"]
    proven, text = _proven(found), "Nobody is refused."
    if recourse["share"] is not None:
        low, high = (percent(1.0 - end, 1) for end in reversed(recourse["interval"]))
        text = (
            f"{proven + open_:,} of {records['refused']:,} ({percent(1.0 - recourse['share'], 1)}%; 95 % interval "
            f"{low}% to {high}%): no change that today’s limits allow turns their no into a yes. "
            f"{recourse['found']:,} have such a change."
        )
    if proven:
        text += f" For {proven:,} this is proven: this version refuses every record they can reach."
    if open_:
        text += f" For {open_:,} the search found none; that is no proof."
    if found["limits"]:
        names = [f"{_limit(one, found['labels'])} ({one['blocks']:,})" for one in found["limits"][:NAMED]]
        text += f" Limits that alone shut people out, of whom several may hold one: {'; '.join(names)}."
    return text


def _head(found: Json) -> str:
    proven, open_, recourse = _proven(found), found["preclusion"]["open"], found["recourse"]
    rows = [("a change exists", recourse["found"]), ("none exists: proven", proven), ("none found, no proof", open_)]
    plot = bars("Refused applicants by whether a change exists", [(name, n, f"{n:,}") for name, n in rows])
    told = table("Refused applicants", ("outcome", "applicants"), rows)
    return f"<p>{escape(about(found))}</p>" + section(
        "How many are shut out, and by what?", shut_out(found), plot, told
    )


def _limits(found: Json) -> str:
    question = "Which of our limits could give, and by how much?"
    shut_out = found["preclusion"]["open"] + _proven(found)
    if not found["limits"]:
        none = "None alone: no limit that gives opens a way for anybody." if shut_out else "Nobody is shut out."
        return "" if found["limits"] is None else section(question, none)
    limits = [(_limit(one, found["labels"]), one) for one in found["limits"]]
    plot = bars("Applicants with a way without one limit", [(n, o["blocks"], f"{o['blocks']:,}") for n, o in limits])
    rows = [
        (
            name, "lender" if one["lender_set"] else "this request", f"{one['blocks']:,}",
            "; ".join(f"{_amount(step['by'], one['unit'])}: {step['people']:,}" for step in one["would_help"]) or "–",
        )
        for name, one in limits
    ]  # fmt: skip
    text = f"So many of the {shut_out:,} who are shut out would have a way if one limit alone gave more than today:"
    text += "".join(f" {gives(one, found['labels'])}" for _, one in limits[:NAMED])
    text += " What giving costs or risks is not measured."
    heads = ("limit", "set by", "applicants with a way without it", "applicants with a way if it gives more by")
    return section(question, text, plot, table("Limits", heads, rows))


def gives(one: Json, labels: Mapping[str, str]) -> str:
    """The sentence that says how many have a way where a limit gives, and without it."""
    name, blocks = _limit(one, labels), one["blocks"]
    steps = [f"{step['people']:,} with {_amount(step['by'], one['unit'])} more" for step in one["would_help"]]
    return f"{name[0].upper()}{name[1:]}: {', '.join([*steps, f'{blocks:,} without it'])}."


def _amount(by: float, unit: str | None) -> str:
    shown = f"{by:.3g}" if by < 1000.0 else f"{by:,.0f}"
    return shown if unit is None else f"{shown} {'points' if unit == '%' else unit}"


def _limit(one: Json, labels: Mapping[str, str]) -> str:
    words = LIMITS[one["limit"]]
    return words if one["feature"] is None else f"“{labels[one['feature']]}”, {words}"


def _levers(found: Json) -> str:
    if not found["levers"]:
        return ""
    levers, labels = found["levers"], found["labels"]
    used = [(labels[one["feature"]], one["used"], f"{percent(one['used'])}%") for one in levers]
    plot = bars("Share of the answers that change a feature", used)
    rows = [
        (labels[one["feature"]], f"{percent(one['used'], 1)}%", "–" if one["only"] is None else f"{one['only']:,}")
        for one in levers
    ]
    heads = ("what changes", "share of the answers", "no way without it, of answers with at most two changes")
    text = (
        "Each applicant with a way counts with the answer that they would be given. It may change more than the least, "
        "so that retrained models accept it too."
    )
    return section("What would have to change?", text, plot, table("Features that change", heads, rows))


def _cost(found: Json) -> str:
    recourse = found["recourse"]
    if recourse["cost"] is None:
        return ""
    named: list[tuple[str, Json, Callable[[float], str]]] = [
        ("cost", recourse["cost"], "{:.2f}".format),
        ("months", recourse["months"], "{:.1f}".format),
    ]
    if recourse["future_validity"] is not None:
        kept = ("retrained models that accept", recourse["future_validity"], lambda share: f"{percent(share)}%")
        named.append(kept)
    names = ("p10", "p25", "p50", "p75", "p90")
    plot = bars(
        "Applicants by the number of changes",
        [(f"{n} change{'s' if n != '1' else ''}", count, f"{count:,}") for n, count in recourse["changes"].items()],
    )
    rows = [(name, *(shown(values[one]) for one in names)) for name, values, shown in named]
    heads = ("measure", "10 % have at most", "25 %", "half", "75 %", "90 %")
    caption = f"Of the {recourse['found']:,} applicants with a way"
    return section("What does it cost them?", COST, plot, table(caption, heads, rows))


def _ways(found: Json) -> str:
    ways = found["common_ways"]
    if not ways:
        return ""
    last, count = ways[-1], f"{len(ways)} ways" if len(ways) > 1 else "One way"
    text = (
        f"{count} together reach {percent(last['reach'])}% of {last['people']:,} refused applicants; they were chosen "
        "on other people. A way is the same for everybody. It reaches an applicant whose own limits allow it as it "
        "stands, if the model accepts it. Where several reach somebody, that counts which costs least for each "
        "retrained model that accepts it. Ways are said of many; what one applicant is told comes from an answer to "
        "them."
    )
    reached = [
        (f"{k} way{'s' if k > 1 else ''}", one["reach"], f"{percent(one['reach'])}%") for k, one in enumerate(ways, 1)
    ]
    rows = [
        (
            f"{k}. {one['text']}", f"{percent(one['alone'], 1)}%",
            f"{percent(one['reach'], 1)}% ({percent(one['interval'][0], 1)}% to {percent(one['interval'][1], 1)}%)",
            "–" if one["cost"] is None else f"{one['cost']:.2f}",
            "–" if one["future_validity"] is None else f"{percent(one['future_validity'])}%",
        )
        for k, one in enumerate(ways, 1)
    ]  # fmt: skip
    heads = (
        "way", "reaches alone", "with those before it (95 % interval)", "mean cost with those",
        "retrained models that accept",
    )  # fmt: skip
    plot = bars("Share of the refused whom so many ways reach", reached, most=1.0)
    return section("What could we tell most people?", text, plot, table("Ways", heads, rows))


def _groups(found: Json) -> str:
    tables = found["groups"]
    if not tables:
        return ""
    harder = _named(found, lambda one: one["p"] <= LEVEL and one["value"] > 0.5)
    text = (
        f"Harder for: {harder}. {_beyond(found)} “Harder” is the chance that a member’s way "
        "costs more than that of an applicant of the other groups, or that only the member has none; 0.5 is alike. p "
        "says how often chance alone shows as much, adjusted for all comparisons of a table; at most 0.05 counts as a "
        "difference. “At equal score” compares within tenths of the model’s score. Costs are the lender’s own weights, "
        "not what a change takes in life. With few people, small differences stay unseen."
    )
    question = "Is it harder for some, and is that more than their scores?"
    return section(question, text, *(_group(compared, found["labels"]) for compared in tables))


def _costs(compared: Json) -> list[tuple[Json, Json]]:
    """Each group of a table, and by how much it is harder for it by cost."""
    return [(row, one) for row in compared["rows"] for one in row["harder"] if one["measure"] == "cost"]


def _flagged(one: Json) -> bool:
    """Whether there is a difference at equal score."""
    return bool(one["p_at_equal_score"] <= LEVEL)


def differences(compared: Json) -> str:
    """Sentences: for which groups of a table it is harder or easier by cost, and which are not shown."""
    rows, hidden = _costs(compared), ", ".join(compared["suppressed"])
    text = " ".join(sentence for row, one in rows if (sentence := _harder(row["group"], one)))
    text = text or ("No difference is found among those shown." if rows else "No group is large enough to be compared.")
    return text + (f" Not shown, as they are too small or could be had by subtraction: {hidden}." if hidden else "")


def _group(compared: Json, labels: Mapping[str, str]) -> str:
    by, rows = labels.get(compared["by"], compared["by"]), _costs(compared)
    drawn = [
        (row["group"], one["interval"][0], one["value"], one["interval"][1], one["p"] <= LEVEL and one["value"] > 0.5)
        for row, one in rows
    ]
    cells = [
        (
            row["group"], f"{row['refused']:,}", f"{percent(row['share'], 1)}%", f"{percent(row['within_budget'], 1)}%",
            f"{one['value']:.2f} ({one['interval'][0]:.2f} to {one['interval'][1]:.2f})", f"{one['p']:.3g}",
            "–" if one["value_at_equal_score"] is None else f"{one['value_at_equal_score']:.2f}",
            f"{one['p_at_equal_score']:.3g}",
        )
        for row, one in rows
    ]  # fmt: skip
    within = "within the budget" if compared["budget"] is None else f"within a cost of {compared['budget']:.3g}"
    heads = (
        "group",
        "refused",
        "with a way",
        within,
        "harder (95 %)",
        "p",
        "harder at equal score",
        "p at equal score",
    )
    plot = points(f"Harder, by {by}; marked: harder", drawn) if rows else ""
    return f"<h3>By {escape(by)}</h3><p>{escape(differences(compared))}</p>{plot}" + table(
        f"Groups by {by}", heads, cells
    )


def _harder(group: str, one: Json) -> str:
    """What is found of a group; empty where it is like all others."""
    plain, equal = one["p"] <= LEVEL, _flagged(one)
    if not plain and not equal:
        return ""
    now = _how(one["value"]) if plain else "no difference"
    return f"“{group}”: {now}; at equal score {_how(one['value_at_equal_score']) if equal else 'no difference'}."


def _how(value: float) -> str:
    return f"{'harder' if value > 0.5 else 'easier'} ({value:.2f})"


def besides(found: Json) -> list[str]:
    """Sentences: what else is worth knowing, and what is left out."""
    lines = list(found["warnings"])
    if found["terms_alone"] is not None:
        lines.append(
            f"{percent(found['terms_alone'], 1)}% of the refused would be accepted with other terms of the loan and "
            "nothing else changed."
        )
    if found["contestable"]:
        lines.append(
            f"{found['contestable']:,} refused are accepted as they are by at least half of the retrained models: "
            "their refusal is worth a second look."
        )
    return lines


def _ending(found: Json) -> str:
    measured = (
        "A report measures a version under today’s limits. It says nothing of who applied, whether records are right, "
        "or causes, and it is no finding about discrimination or compliance."
    )
    return "<h2>What else is worth knowing?</h2>" + "".join(
        f"<p>{escape(line)}</p>" for line in (*besides(found), measured)
    )
