"""Templates: what they repeat, leave out and refuse."""

import pytest

from app.letters.markup import to_html
from app.letters.template import Template

NAMES = {"name", "list", "other", "flag"}


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("Dear {{name}}, {{ name }}", {"name": "Ann"}, "Dear Ann, Ann"),
        ("{{#list}}<{{.}}>{{/list}}", {"list": ["a", "b"]}, "<a><b>"),
        ("{{#list}}{{name}}{{other}} {{/list}}", {"list": [{"name": "x"}, {"name": "y"}], "other": 1}, "x1 y1 "),
        ("{{#flag}}yes{{/flag}}{{^flag}}no{{/flag}}", {"flag": True}, "yes"),
        ("{{#flag}}yes{{/flag}}{{^flag}}no{{/flag}}", {"flag": False}, "no"),
        ("{{#list}}x{{/list}}{{^list}}none{{/list}}", {"list": []}, "none"),
        ("{{#name}}{{name}}!{{/name}}", {"name": "Ann"}, "Ann!"),
        ("{{#name}}{{name}}!{{/name}}", {"name": None}, ""),
        ("{{#name}}{{name}}!{{/name}}", {"name": ""}, ""),
        ("a\n{{#flag}}\nb\n{{/flag}}\nc", {"flag": True}, "a\nb\nc"),
        ("a\n{{#flag}}\nb\n{{/flag}}\nc", {"flag": False}, "a\nc"),
        ("{{name}}", {"name": "a\n# b"}, "a # b"),
        ("{{name}}", {"name": "{{other}}", "other": "secret"}, "{{other}}"),
    ],
)
def test_fills(text: str, values: dict[str, object], expected: str) -> None:
    assert Template(text, NAMES).fill(values) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\n{{nmae}}", "line 2 names nmae; there are flag, list, name, other"),
        ("\n\n{{#list}}\na", "line 3 begins list, which does not end"),
        ("{{#flag}}\n{{#list}}\n{{/flag}}", "line 3 ends flag, which does not begin before it"),
        ("{{/flag}}", "line 1 ends flag, which does not begin before it"),
    ],
)
def test_faults_name_their_line(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Template(text, NAMES)


@pytest.mark.parametrize("mark", ["\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"])
def test_a_value_begins_no_line_of_its_own(mark: str) -> None:
    filled = Template("# {{name}}", ["name"]).fill({"name": f"Save{mark}## YOU ARE ACCEPTED"})
    assert filled == "# Save ## YOU ARE ACCEPTED"
    assert "<h2>" not in to_html(filled, language="en", css="")
    assert "<h2>" not in to_html(f"Save{mark.replace(chr(10), '')}## NO", language="en", css="")


def test_a_value_hides_and_turns_nothing() -> None:
    assert Template("{{name}}", ["name"]).fill({"name": "a\u202eb\0c"}) == "a\ufffdb\ufffdc"
