"""The letter as plain text and as a page."""

from app.letters.markup import WIDTH, policy, to_html, to_text

LETTER = """| Bank
| Street

# Title

One
paragraph.
## Why
- a & b
- <script>

### Way 1
1. first
1. second
"""


def test_plain_text_has_lines_headings_and_numbered_steps() -> None:
    assert to_text(LETTER) == (
        "Bank\nStreet\n\nTitle\n=====\n\nOne paragraph.\n\nWhy\n---\n\n- a & b\n- <script>\n\nWay 1\n\n"
        "1. first\n2. second\n"
    )


def test_plain_text_is_wrapped() -> None:
    lines = to_text("- " + "word " * 60).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert all(line.startswith("  ") for line in lines[1:])


def test_no_line_ends_between_a_number_and_its_unit() -> None:
    for indent in range(12):
        said = f"- {'x' * indent} " + "saves 1,000 to 5,000 EUR in 42 % of 12 months, for 9 $; " * 9
        assert not [line for line in to_text(said).splitlines() if line[-1].isdigit()]
    assert "5,000\u00a0EUR in 42\u00a0%" in to_html(said, language="en", css="")
    assert "1 Street" in to_text("| 1 Street")


def test_a_page_escapes_everything() -> None:
    page = to_html(LETTER + "\n# </title><img src=x>", language='d"e', css="p { margin: 0; }")
    assert "<script>" not in page
    assert "<img" not in page
    assert "<li>a &amp; b</li><li>&lt;script&gt;</li>" in page
    assert '<html lang="d&quot;e">' in page
    assert '<p class="lines">Bank<br>Street</p>' in page
    assert "<ol><li>first</li><li>second</li></ol>" in page
    assert "<title>Title</title>" in page


def test_the_policy_allows_the_pages_own_style_only() -> None:
    assert policy("a") != policy("b")
    assert policy("a").startswith("default-src 'none'; style-src 'sha256-")
