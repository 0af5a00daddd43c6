"""A comparison as one HTML file: whether the new version may replace the other, with a plot and tables."""

from app.portfolio.conditions import MEASURES
from app.portfolio.page_parts import LEVEL, bars, html_file, section, table, version_name
from app.questions.answers import Json
from app.recourse.shares import percent


def comparison_page(compared: Json) -> str:
    """The HTML page of a comparison; `compared` is a `ComparisonAnswer` as plain data."""
    names = (version_name(compared[one]) for one in ("baseline", "candidate"))
    return html_file(" and ".join(names), [versions(compared)])


def sentences(compared: Json) -> list[str]:
    """What changes, in sentences: decisions, ways, costs, and answers of the baseline beside what was expected."""
    before, after = version_name(compared["baseline"]), version_name(compared["candidate"])
    records, found = compared["records"], compared["comparison"]
    decisions, recourse, cost, precluded = (found[one] for one in ("decisions", "recourse", "cost", "precluded"))
    promises, beyond = found["promises"], found["beyond_retraining"]
    told = [
        f"Of {records['scored']:,} applicants {after} refuses {decisions['yes_no']:,} whom {before} accepts, and "
        f"accepts {decisions['no_yes']:,} whom it refuses. {recourse['lost']:,} lose every way, "
        f"{recourse['gained']:,} gain one or a yes" + ("." if recourse["p"] is None else f" (p {recourse['p']:.2g}).")
    ]
    if records["unscored"]:
        told.append(f"{records['unscored']:,} records have no decision.")
    if precluded["proven"] or precluded["open"]:
        proven, open_ = precluded["proven"], precluded["open"]
        told.append(f"With {after}, {proven:,} are proven to have no way, {open_:,} are open.")
    if cost["ratio"] is not None:
        low, high = cost["interval"]
        told.append(
            f"Of {cost['pairs']:,} with a way in both, {percent(cost['dearer'])}% pay more; the median cost is "
            f"{cost['ratio']:.2f} times as high, the median change {cost['median_change']:+.2f} ({low:+.2f} to "
            f"{high:+.2f})."
        )
    if promises["share"] is not None:
        low, high = (percent(end, 1) for end in promises["interval"])
        told.append(
            f"{after} refuses {promises['broken']:,} of {promises['given']:,} changes to which {before} says yes "
            f"({percent(promises['share'], 1)}%; 95 % interval {low}% to {high}%)."
        )
    if promises["told"] is not None:
        told.append(f"By what the answers promise, {percent(promises['told'], 1)}% were to be expected.")
    if beyond is not None:
        models = found["retrainings"]
        told.append(
            f"{round(beyond * (models + 1)) - 1} of {models} mere retrainings of {before} refuse as many (p "
            f"{beyond:.2g}); below {LEVEL:g}, the new version breaks more than retraining explains."
        )
    return [*told, *compared["warnings"]]


def may_replace(compared: Json) -> str:
    """The question that a comparison answers."""
    return f"May {version_name(compared['candidate'])} replace {version_name(compared['baseline'])}?"


def verdict(compared: Json) -> str:
    """The answer: by the conditions or, where there are none, by what retrainings break; empty without either."""
    conditions, beyond = compared["conditions"], compared["comparison"]["beyond_retraining"]
    if conditions:
        failed = sum(not one["holds"] for one in conditions)
        return f"No: {failed} of {len(conditions)} conditions fail." if failed else "Yes: all conditions hold."
    return (
        "" if beyond is None else f"{'No' if beyond < LEVEL else 'Yes'}, by what retrainings break (limit {LEVEL:g})."
    )


def versions(compared: Json) -> str:
    """The section about a comparison, in HTML; `compared` is a `ComparisonAnswer` as plain data."""
    before, after = version_name(compared["baseline"]), version_name(compared["candidate"])
    found = compared["comparison"]
    decisions, conditions = found["decisions"], compared["conditions"]
    judged = [
        (
            "holds" if one["holds"] else "fails", f"{one['text']}: {MEASURES[one['measure']]}",
            "–" if one["value"] is None else f"{one['value']:.3f}",
            "–" if one["interval"] is None else f"{one['interval'][0]:.3f} to {one['interval'][1]:.3f}",
        )
        for one in conditions
    ]  # fmt: skip
    rows = [
        ("accepted by both", f"{decisions['yes_yes']:,}"), (f"accepted by {before} only", f"{decisions['yes_no']:,}"),
        (f"accepted by {after} only", f"{decisions['no_yes']:,}"), ("refused by both", f"{decisions['no_no']:,}"),
    ]  # fmt: skip
    shares = ("refused by the new version", "share"), ("to be expected", "told")
    drawn = [
        (label, share, f"{percent(share, 1)}%")
        for label, one in shares
        if (share := found["promises"][one]) is not None
    ]
    heads = ("verdict", "fails if: what is measured", "value", "95 % interval")
    caption = f"Conditions; baseline: {before}, candidate: {after}"
    return section(
        may_replace(compared), " ".join(filter(None, [verdict(compared), *sentences(compared)])),
        bars("Share of the changes", drawn),
        table(caption, heads, judged) if judged else "",
        table("Decisions", ("decision", "applicants"), rows),
    )  # fmt: skip
