"""What pages of reports and comparisons are made of: sections, plots and tables, without scripts; also in print."""

from collections.abc import Sequence
from html import escape

from app.questions.answers import Json

WIDTH, ROW, NOTE = 640, 46, 110
"""Of a plot, the height of a row with its label above, and the width of what is said beside a bar, in units of the
SVG."""

EDGE = 10
"""Left and right of a scale."""

LETTERS = 56
"""Of a label: so many fit also on a phone, where letters are larger in these units."""

LEVEL = 0.05
"""Of tests, and of the recommended condition on a new version."""

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#d5d9de;--mark:#2f6f9f;--flag:#b5482f;--soft:#9aa5b1}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#14181d;--line:#39424d;--mark:#6cb0e0;--flag:#f08a6c}}
@media print{:root{--ink:#000;--paper:#fff;--line:#bbb;--mark:#2f6f9f;--flag:#b5482f}svg,tr{break-inside:avoid}
svg{max-width:28rem;font-size:17px!important}h2,h3,h2+p,h3+p,caption,thead,tr:first-child{break-after:avoid}}
body{font:15px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:var(--ink);
background:var(--paper)}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.4rem}h3{font-size:1rem;margin-top:1.6rem}svg{width:100%;height:auto;font-size:13px}
svg text{fill:currentColor}svg rect,svg circle{fill:var(--mark)}svg .flag{fill:var(--flag)}
svg line{stroke:var(--mark);stroke-width:2}svg .middle{stroke:var(--soft);stroke-dasharray:3 3;stroke-width:1}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;margin:.5rem 0}
caption{text-align:left}th,td{text-align:left;padding:.2rem .5rem;border-bottom:1px solid var(--line)}
@media screen and (max-width:40rem){svg{font-size:20px}thead{display:none}table,caption,tbody{display:block}
tr{display:block;padding:.4rem 0;border-bottom:1px solid var(--line)}
td{display:flex;justify-content:space-between;gap:1rem;border:0;padding:.1rem 0;text-align:right}
td:first-child{font-weight:600;text-align:left}td+td::before{content:attr(data-head);text-align:left}}
"""


def html_file(title: str, parts: Sequence[str]) -> str:
    """A page with a title and parts, in HTML."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main><h1>{escape(title)}</h1>"
        f"{''.join(parts)}</main></body></html>\n"
    )


def section(question: str, answer: str, *more: str) -> str:
    """A heading, the sentences that answer it, and plots or tables below them."""
    return f"<h2>{escape(question)}</h2><p>{escape(answer)}</p>{''.join(more)}"


def version_name(version: Json) -> str:
    """The name of a version, such as `loan@2`."""
    return f"{version['id']}@{version['version']}"


def bars(title: str, rows: Sequence[tuple[str, float, str]], *, most: float | None = None) -> str:
    """An SVG of horizontal bars.

    Parameters
    ----------
    rows : of each bar, its label, its length, and the text beside it
    most : length of a whole bar; None for the longest
    """
    longest = most or max((value for _, value, _ in rows), default=0.0) or 1.0
    drawn = []
    for k, (label, value, note) in enumerate(rows):
        y, width = ROW * k + 22, (WIDTH - NOTE) * value / longest
        drawn.append(
            f'{_label(label, y)}<rect x="0" y="{y}" width="{width:.1f}" height="16"/>'
            f'<text x="{width + 8:.1f}" y="{y + 14}">{escape(note)}</text>'
        )
    return _svg(title, ROW * len(rows), drawn)


def points(title: str, rows: Sequence[tuple[str, float, float, float, bool]]) -> str:
    """An SVG of values between 0 and 1 with their intervals, and a line at one half.

    Parameters
    ----------
    rows : of each value, its label, the lower end of its interval, the value, the upper end, and whether it is marked
    """

    def at(value: float) -> str:
        return f"{EDGE + (WIDTH - 2 * EDGE) * value:.1f}"

    height = ROW * len(rows)
    drawn = [f'<line class="middle" x1="{at(0.5)}" x2="{at(0.5)}" y1="0" y2="{height}"/>']
    drawn += [
        f'<text x="{at(tick)}" y="{height + 20}" text-anchor="{anchor}">{text}</text>'
        for tick, anchor, text in ((0.0, "start", "0: easier"), (0.5, "middle", "0.5"), (1.0, "end", "1: harder"))
    ]
    for k, (label, low, value, high, marked) in enumerate(rows):
        y = ROW * k + 30
        drawn.append(
            f'{_label(label, y - 8)}<line x1="{at(low)}" x2="{at(high)}" y1="{y}" y2="{y}"/>'
            f'<circle class="{"flag" if marked else "calm"}" cx="{at(value)}" cy="{y}" r="5"/>'
        )
    return _svg(title, height + 28, drawn)


def _label(label: str, y: float) -> str:
    """The name of a row, above what is drawn from `y` on."""
    short = label if len(label) <= LETTERS else label[: LETTERS - 1] + "…"
    return f'<text x="0" y="{y - 5}">{escape(short)}</text>'


def _svg(title: str, height: int, drawn: Sequence[str]) -> str:
    return f'<svg role="img" aria-label="{escape(title)}" viewBox="0 0 {WIDTH} {height}">{"".join(drawn)}</svg>'


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with a caption, names of its columns, and rows of texts or numbers."""
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
    body = "".join(
        f"<tr>{''.join(_cell(name, cell) for name, cell in zip(heads, row, strict=True))}</tr>" for row in rows
    )
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(head: str, value: object) -> str:
    """A cell; on a phone each is a line that begins with the name of its column."""
    return f'<td data-head="{escape(head)}">{escape(f"{value:,}" if isinstance(value, int) else str(value))}</td>'
