"""Templates: what a value cannot do, and what a template cannot reach."""

import pytest

from app.errors import TemplateFaulty
from app.letters.markup import to_html
from app.letters.template import Template

NAMES = {"name", "list", "flag", "lender"}


def filled(text: str, **values: object) -> str:
    return Template({"a.txt": text}, "a.txt", NAMES).fill(values)


@pytest.mark.parametrize("mark", ["\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"])
def test_a_value_begins_no_line_of_its_own(mark: str) -> None:
    text = filled("# {{ name }}", name=f"Save{mark}## YOU ARE ACCEPTED")
    assert text == "# Save ## YOU ARE ACCEPTED"
    assert "<h2>" not in to_html(text, language="en", css="")


@pytest.mark.parametrize(
    "shape", ["{{ name }}", "{% for one in list %}{{ one }}{% endfor %}", "{{ list | join(' ') }}"]
)
def test_a_value_hides_and_turns_nothing(shape: str) -> None:
    value = "a\u202eb\0c"
    assert filled(shape, name=value, list=[value]) == "a\ufffdb\ufffdc"


def test_a_value_is_no_template_and_nothing_is_empty() -> None:
    assert filled("{{ name }}", name="{{ flag }}{% if flag %}") == "{{ flag }}{% if flag %}"
    assert filled("<{{ name }}>", name=None) == "<>"


@pytest.mark.parametrize(
    "text",
    ["{{ name.__class__ }}", "{{ name.mro }}", "{{ name | attr('__class__') | attr('mro') }}",
     "{{ name['__class__'].x }}",
     "{{ range(3) }}", "{{ self }}", "{% set x = lender.append(1) %}"],
)  # fmt: skip
def test_a_template_reaches_nothing_but_the_letter(text: str) -> None:
    with pytest.raises(TemplateFaulty, match=r"a\.txt"):
        filled(text, name="Ann", lender=[])


def test_faults_of_a_file_that_is_extended_name_that_file() -> None:
    files = {"a.txt": "{% extends 'b.txt' %}", "b.txt": "one\n{{ nmae }}"}
    with pytest.raises(TemplateFaulty, match=r"b\.txt: line 2 names nmae; there are flag, lender, list, name"):
        Template(files, "a.txt", NAMES)


def test_what_a_letter_states_is_known_by_reading_it() -> None:
    files = {
        "a.txt": "{% extends 'b.txt' %}{% block x %}{{ lender.flag }}{% endblock %}",
        "b.txt": "{{ lender.name }}{% block x %}{% endblock %}",
    }
    assert Template(files, "a.txt", NAMES).used == {"lender", "flag", "name"}


@pytest.mark.parametrize(
    ("own", "fault"),
    [
        ("{% extends 'b.txt' %}\n{% set kinds = list %}", r"a\.txt: line 2 sets kinds, which no letter names"),
        ("{% extends 'b.txt' %}\n{% block less %}{% endblock %}", r"a\.txt: line 2 fills the block less, which b\.txt"),
        ("{% extends 'b.txt' %}{% block x %}{% block y %}{% endblock %}{% endblock %}", None),
        ("{% extends 'b.txt' %}{% set kinds = list %}{% block x %}{{ kinds }}{% endblock %}", None),
    ],
)
def test_what_a_file_says_and_no_letter_would_is_refused(own: str, fault: str | None) -> None:
    """A lender's file for an earlier release, of which Jinja would leave out the words."""
    files = {"a.txt": own, "b.txt": "{% extends 'c.txt' %}", "c.txt": "{% block x %}{% endblock %}"}
    if fault is None:
        Template(files, "a.txt", NAMES)
        return
    with pytest.raises(TemplateFaulty, match=fault):
        Template(files, "a.txt", NAMES)
