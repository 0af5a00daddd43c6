"""A report as one HTML file without scripts: for each part a sentence, a plot and a table; also dark and in print."""

from collections.abc import Mapping, Sequence
from html import escape

from app.questions.answers import Json
from app.recourse.shares import percent

WIDTH, LABEL, ROW = 640, 220, 26
"""Of a plot, of its labels, and the height of a row, in units of the SVG."""

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#d5d9de;--mark:#2f6f9f;--flag:#b5482f;--soft:#9aa5b1}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#14181d;--line:#39424d;--mark:#6cb0e0;--flag:#f08a6c}}
@media print{:root{--ink:#000;--paper:#fff;--line:#bbb;--mark:#2f6f9f;--flag:#b5482f}svg,tr{break-inside:avoid}
h2,caption{break-after:avoid}}
body{font:15px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:var(--ink);
background:var(--paper)}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}svg{width:100%;height:auto;font-size:13px}
svg text{fill:currentColor}svg rect,svg circle{fill:var(--mark)}svg .flag{fill:var(--flag)}
svg line{stroke:var(--mark);stroke-width:2}svg .middle{stroke:var(--soft);stroke-dasharray:3 3;stroke-width:1}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;margin:.5rem 0}
caption{text-align:left}th,td{text-align:left;padding:.2rem .5rem;border-bottom:1px solid var(--line)}
"""


def page(found: Json) -> str:
    """The HTML page of a report; `found` is a `ReportAnswer` as plain data."""
    model = f"{found['model']['id']}@{found['model']['version']}"
    title = f"Recourse of the applicants whom {model} refuses"
    parts = [
        _head(found), _levers(found), _cost(found), _limits(found), _ways(found),
        *(_groups(table, found["labels"]) for table in found["groups"]), _ending(found)
    ]  # fmt: skip
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main><h1>{escape(title)}</h1>"
        f"{''.join(parts)}</main></body></html>\n"
    )


def bars(title: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """An SVG of horizontal bars.

    Parameters
    ----------
    rows : of each bar, its label, its length, and the text beside it
    """
    longest = max((value for _, value, _ in rows), default=0.0) or 1.0
    drawn = []
    for k, (label, value, note) in enumerate(rows):
        y, width = ROW * k + 4, (WIDTH - LABEL - 110) * value / longest
        drawn.append(
            f'<text x="{LABEL - 8}" y="{y + 14}" text-anchor="end">{escape(_short(label))}</text>'
            f'<rect x="{LABEL}" y="{y}" width="{width:.1f}" height="18"/>'
            f'<text x="{LABEL + width + 6:.1f}" y="{y + 14}">{escape(note)}</text>'
        )
    return _svg(title, ROW * len(rows) + 6, drawn)


def points(title: str, rows: Sequence[tuple[str, float, float, float, bool]]) -> str:
    """An SVG of values between 0 and 1 with their intervals, and a line at one half.

    Parameters
    ----------
    rows : of each value, its label, the lower end of its interval, the value, the upper end, and whether it is marked
    """

    def at(value: float) -> str:
        return f"{LABEL + (WIDTH - LABEL - 20) * value:.1f}"

    height = ROW * len(rows)
    drawn = [f'<line class="middle" x1="{at(0.5)}" x2="{at(0.5)}" y1="0" y2="{height}"/>']
    drawn += [
        f'<text x="{at(tick)}" y="{height + 16}" text-anchor="middle">{tick:g}</text>' for tick in (0.0, 0.5, 1.0)
    ]
    for k, (label, low, value, high, marked) in enumerate(rows):
        y = ROW * k + 13
        drawn.append(
            f'<text x="{LABEL - 8}" y="{y + 4}" text-anchor="end">{escape(_short(label))}</text>'
            f'<line x1="{at(low)}" x2="{at(high)}" y1="{y}" y2="{y}"/>'
            f'<circle class="{"flag" if marked else "calm"}" cx="{at(value)}" cy="{y}" r="5"/>'
        )
    return _svg(title, height + 22, drawn)


def _svg(title: str, height: int, drawn: Sequence[str]) -> str:
    return f'<svg role="img" aria-label="{escape(title)}" viewBox="0 0 {WIDTH} {height}">{"".join(drawn)}</svg>'


def _short(label: str) -> str:
    return label if len(label) <= 26 else label[:25] + "…"


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _head(found: Json) -> str:
    records, recourse, none = found["records"], found["recourse"], found["preclusion"]
    proven = none["proven"]["enumerated"] + none["proven"]["optimised"]
    text = f"{records['refused']:,} of {records['scored']:,} applicants are refused."
    if recourse["share"] is not None:
        low, high = recourse["interval"]
        text += (
            f" {recourse['found']:,} of them ({percent(recourse['share'], 1)}%; 95 % interval {percent(low, 1)}% to "
            f"{percent(high, 1)}%) have a change that this version accepts and that today’s limits allow."
        )
    if proven:
        text += f" {proven:,} have none, proven: under today’s limits this version refuses every record they can reach."
    if none["open"]:
        text += f" For {none['open']:,} the search found none; that is no proof."
    rows = [("a change exists", recourse["found"]), ("none exists: proven", proven), ("open", none["open"])]
    plot = bars("Refused applicants by whether a change exists", [(name, n, f"{n:,}") for name, n in rows])
    return f"<p>{escape(text)}</p>{plot}" + _table("Refused applicants", ("outcome", "applicants"), rows)


def _levers(found: Json) -> str:
    if not found["levers"]:
        return ""
    levers = found["levers"]
    labels = found["labels"]
    used = [(labels[one["feature"]], one["used"], f"{percent(one['used'])}%") for one in levers]
    plot = bars("Share of the answers that change a feature", used)
    rows = [
        (labels[one["feature"]], f"{percent(one['used'], 1)}%", "–" if one["only"] is None else f"{one['only']:,}")
        for one in levers
    ]
    heads = ("feature", "share of the answers", "applicants for whom no way without it is found")
    text = "A way without a feature is looked for where the answer changes it and at most one more."
    return f"<h2>What would have to change</h2><p>{text}</p>{plot}" + _table(
        "Features that answers change", heads, rows
    )


def _cost(found: Json) -> str:
    recourse = found["recourse"]
    if recourse["cost"] is None:
        return ""
    named = [("cost", recourse["cost"]), ("months", recourse["months"])]
    if recourse["future_validity"] is not None:
        named.append(("share of future models that accept", recourse["future_validity"]))
    names = ("p10", "p25", "p50", "p75", "p90")
    plot = bars(
        "Applicants by the number of changes",
        [(f"{n} change{'s' if n != '1' else ''}", count, f"{count:,}") for n, count in recourse["changes"].items()],
    )
    rows = [(name, *(f"{values[one]:.3g}" for one in names)) for name, values in named]
    note = "Costs are the lender’s own weights times how far a feature moves, in spreads between people."
    return f"<h2>What it costs</h2><p>{note}</p>{plot}" + _table(
        f"Of {recourse['found']:,} applicants", ("measure", "10 %", "25 %", "median", "75 %", "90 %"), rows
    )


def _limits(found: Json) -> str:
    if not found["limits"]:
        return ""
    limits = [(_limit(one, found["labels"]), one) for one in found["limits"]]
    plot = bars("Applicants with a way without one limit", [(n, o["blocks"], f"{o['blocks']:,}") for n, o in limits])
    rows = [
        (
            name,
            "lender" if one["lender_set"] else "request",
            f"{one['blocks']:,}",
            "; ".join(f"{point['by']:.3g}: {point['people']:,}" for point in one["would_help"]) or "–",
        )
        for name, one in limits
    ]
    text = "Of those without a way: how many would have one without this limit alone, or if it gave so much."
    heads = ("limit", "set by", "without it", "if it gives, raw units: applicants")
    return f"<h2>Which limit stands in the way</h2><p>{text}</p>{plot}" + _table("Limits", heads, rows)


def _ways(found: Json) -> str:
    ways = found["common_ways"]
    if not ways:
        return ""
    first = ways[0]
    text = (
        f"Each way is the same for everybody. It counts for an applicant where their own limits allow it as it stands "
        f"and the model accepts it. Chosen on reference records, measured on {first['people']:,} other refused "
        f"applicants. Cost and future models are those of the way, of the first so many, that costs an applicant least "
        "for each future model that accepts it. Ways describe all of them and are no advice to one."
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
    heads = ("way", "reaches alone", "with those before it (95 %)", "mean cost so far", "future models that accept")
    plot = bars("Share of the refused whom so many ways reach", reached)
    return f"<h2>A handful of ways</h2><p>{escape(text)}</p>{plot}" + _table("Ways", heads, rows)


def _limit(one: Json, labels: Mapping[str, str]) -> str:
    return "time" if one["feature"] is None else f"{labels[one['feature']]}: {one['limit'].replace('_', ' ')}"


def _groups(table: Json, labels: Mapping[str, str]) -> str:
    by = labels.get(table["by"], table["by"])
    rows = [(row, one) for row in table["rows"] for one in row["harder"] if one["measure"] == "cost"]
    hidden = ", ".join(table["suppressed"])
    text = (
        "Chance that a member has it harder, by cost or by having no way, than somebody else; 0.5 is alike. "
        + ("" if table["budget"] is None else f"The budget is a cost of {table['budget']:.3g}. ")
        + "Marked: "
        f"p at most 0.05, adjusted for {table['tests']} comparisons. Costs compare the lender’s weights as much as "
        "lives. A small difference cannot be seen in few people: that none is marked does not show that there is none."
        + (f" Not shown, as they are too small or could be had by subtraction: {hidden}." if hidden else "")
    )
    plot = points(
        f"Harder, by {by}",
        [(row["group"], one["interval"][0], one["value"], one["interval"][1], one["p"] <= 0.05) for row, one in rows],
    )
    cells = [
        (
            row["group"], f"{row['refused']:,}", f"{percent(row['share'], 1)}%", f"{percent(row['within_budget'], 1)}%",
            f"{one['value']:.2f} ({one['interval'][0]:.2f} to {one['interval'][1]:.2f})", f"{one['p']:.3g}",
            f"{one['p_at_equal_score']:.3g}",
        )
        for row, one in rows
    ]  # fmt: skip
    heads = ("group", "refused", "with a way", "within the budget", "harder", "p", "p at equal score")
    return f"<h2>By {escape(by)}</h2><p>{escape(text)}</p>{plot if rows else ''}" + _table(
        f"Groups by {by}", heads, cells
    )


def _ending(found: Json) -> str:
    lines = list(found["warnings"])
    if found["terms_alone"] is not None:
        lines.append(
            f"{percent(found['terms_alone'], 1)}% of the refused would be accepted with other terms of the loan and "
            "nothing else changed."
        )
    if found["contestable"]:
        lines.append(
            f"{found['contestable']:,} refused are accepted as they are by at least half of the future models, which "
            "are retrainings on records like today’s: their refusal is worth a second look."
        )
    lines.append(
        "This measures one version under today’s limits. It says nothing of who applied, whether records are right, "
        "or causes, and it is no finding about discrimination or compliance."
    )
    return "<h2>To know besides</h2>" + "".join(f"<p>{escape(line)}</p>" for line in lines)
