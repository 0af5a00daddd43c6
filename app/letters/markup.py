"""A filled template as plain text and as an HTML page: headings, paragraphs, lists, and lines that are not joined.

``# `` begins the title, ``## `` a heading and ``### `` a label; ``- `` an entry of a list and ``1. `` one of a numbered
list, ``| `` a line of an address, ``> `` one of the addressee's and ``_ `` one below a signature; an empty line ends a
paragraph. Everything else is text, and nothing in it is markup of a page.
"""

import base64
import hashlib
import re
import textwrap
from dataclasses import dataclass
from html import escape
from itertools import groupby

WIDTH = 76
"""Columns of plain text."""

SIGNED = "_" * 30
"""The line of a signature in plain text."""

NUMBERED = re.compile(r"(?<=\d) (?=[\w%€$£¥])|(?<=\d\.) (?=[^\W\d])")
"""A space at which no line ends: an amount stays with its unit."""

KINDS = {
    "# ": "title", "## ": "heading", "### ": "label", "- ": "list", "1. ": "steps", "| ": "lines", "> ": "addressee",
    "_ ": "signature",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Block:
    kind: str
    """One of `KINDS`, or `text`."""
    entries: tuple[str, ...]


def to_text(filled: str) -> str:
    """A filled template as plain text with wrapped lines."""
    return "\n\n".join(_as_text(block) for block in _blocks(filled)) + "\n"


def to_html(filled: str, *, language: str, css: str) -> str:
    """A filled template as an HTML page that has `css` as its style sheet."""
    blocks = _blocks(filled)
    title = next((block.entries[0] for block in blocks if block.kind == "title"), "")
    body = "\n".join(_as_html(block) for block in blocks)
    return (
        f'<!doctype html>\n<html lang="{escape(language)}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{css}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def policy(css: str) -> str:
    """The content security policy of a page that may use the inline style `css` and may load nothing."""
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def policy_of(page: str) -> str:
    """The content security policy of `page`, an earlier result of `to_html`: only its inline style is allowed."""
    return policy(page.partition("<style>")[2].partition("</style>")[0])


def _blocks(filled: str) -> list[_Block]:
    blocks: list[_Block] = []
    for paragraph in filled.split("\n\n"):
        lines = [_marked(line) for line in paragraph.split("\n") if line.strip()]
        for kind, group in groupby(lines, key=lambda line: line[0]):
            entries = tuple(text for _, text in group)
            if kind == "text":
                entries = (" ".join(entries),)
            if kind not in ("lines", "addressee", "signature"):
                entries = tuple(NUMBERED.sub("\u00a0", entry) for entry in entries)
            blocks.append(_Block(kind, entries))
    return blocks


def _marked(line: str) -> tuple[str, str]:
    line = re.sub(" +", " ", line.strip())  # where a template says nothing, it leaves its spaces
    for mark, kind in KINDS.items():
        if line.startswith(mark):
            return kind, line[len(mark) :].strip()
    return "text", line


def _as_text(block: _Block) -> str:
    first = block.entries[0]
    match block.kind:
        case "title":
            return f"{first}\n{'=' * min(len(first), WIDTH)}"
        case "heading":
            return f"{first}\n{'-' * min(len(first), WIDTH)}"
        case "label":
            return _wrapped(first, "")
        case "lines" | "addressee":
            return "\n".join(block.entries)
        case "signature":
            return "\n".join(["", "", SIGNED, *block.entries])
        case "list":
            return "\n".join(_wrapped(entry, "- ") for entry in block.entries)
        case "steps":
            return "\n".join(_wrapped(entry, f"{i}. ") for i, entry in enumerate(block.entries, start=1))
    return _wrapped(first, "")


def _wrapped(text: str, mark: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark), break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _as_html(block: _Block) -> str:
    entries = [escape(entry) for entry in block.entries]
    match block.kind:
        case "title":
            return f"<h1>{entries[0]}</h1>"
        case "heading":
            return f"<h2>{entries[0]}</h2>"
        case "label":
            return f'<p class="label">{entries[0]}</p>'
        case "lines" | "addressee" | "signature":
            return f'<p class="{block.kind}">{"<br>".join(entries)}</p>'
        case "list" | "steps":
            tag = "ul" if block.kind == "list" else "ol"
            return f"<{tag}>{''.join(f'<li>{entry}</li>' for entry in entries)}</{tag}>"
    return f"<p>{entries[0]}</p>"
