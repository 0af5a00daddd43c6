"""Letters that were sent, reviews and case files, over HTTP: what was said is recorded, and all of it shown."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.cases.schema import CaseFile, Review, SentLetter
from app.ledger.chain import Entry, Kind
from app.settings import Settings
from tests.api.asking import APPLICANT, document, faults, problem, question
from tests.conftest import Running, run
from tests.letters.test_letter import LENDER

UNKNOWN = "rec_01KAHQ0W3MZC9Y7T5X2V8RDB4E"
ADDRESSEE = ["Ms <Ada> Example", "1 Street", "12345 Town"]


@pytest.fixture
def case(client: httpx.Client) -> str:
    """The address of a refused application with a way to a yes."""
    answer = client.post("/recourse", json=question(reference="A/7 & co")).json()
    assert answer["status"] == "found"
    return f"/recourse/{answer['id']}"


def posted(client: httpx.Client, address: str, **body: Any) -> dict[str, Any]:
    return document(client.post(address, json=body))


# --- letters ---------------------------------------------------------------------------------------------------------


def test_what_is_recorded_is_the_letter_with_its_addressee(client: httpx.Client, case: str) -> None:
    sent_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    letter = posted(client, f"{case}/notice", channel="post", language="en", addressee=ADDRESSEE, sent_at=sent_at)
    SentLetter.model_validate(letter, strict=False)
    assert (letter["channel"], letter["language"], letter["addressee"]) == ("post", "en", ADDRESSEE)
    assert datetime.fromisoformat(letter["sent_at"]) == datetime.fromisoformat(sent_at)
    plain = client.get(f"{case}/notice?format=text&lang=en").text
    assert "\n".join(ADDRESSEE) in letter["text"]
    assert letter["text"].replace("\n".join(ADDRESSEE) + "\n\n", "") == plain
    assert "Ms &lt;Ada&gt; Example<br>1 Street" in letter["page"]
    address = f"{case}/letters/{letter['id']}"
    assert client.get(address).json() == letter
    page = client.get(address, headers={"Accept": "text/html"})
    assert page.text == letter["page"]
    style = letter["page"].partition("<style>")[2].partition("</style>")[0]
    assert (
        client.get(f"{case}/notice?format=html").headers["content-security-policy"]
        == (page.headers["content-security-policy"])
    )
    assert style


def test_a_letter_in_a_language_that_the_model_has_no_words_in_is_not_recorded(client: httpx.Client, case: str) -> None:
    before = client.get(f"{case}/case").json()["letters"]
    refused = client.post(f"{case}/notice", json={"channel": "post", "language": "de"})
    assert (refused.status_code, refused.json()["code"]) == (409, "notice-incomplete")
    assert client.get(f"{case}/case").json()["letters"] == before


def test_a_text_of_the_lenders_own_is_kept_as_it_is(client: httpx.Client, case: str) -> None:
    text = "Dear Ms Example,\n\n# not markup, <b> neither\n\nÄ " + "long " * 40
    letter = posted(client, f"{case}/notice", channel="email", text=text)
    assert (letter["text"], letter["page"], letter["language"], letter["addressee"]) == (text, None, None, [])
    page = client.get(f"{case}/letters/{letter['id']}?format=html")
    assert page.headers["content-type"] == "text/plain; charset=utf-8"
    assert page.text == text


@pytest.mark.parametrize(
    ("body", "pointer", "said"),
    [
        ({}, "/channel", "is missing"),
        ({"channel": "pigeon"}, "/channel", "must be 'post'"),
        ({"channel": "post", "sent_at": "2020-01-01T00:00:00Z"}, "/sent_at", "must be after the answer"),
        ({"channel": "post", "sent_at": "2199-01-01T00:00:00Z"}, "/sent_at", "not in the future"),
        ({"channel": "post", "sent_at": "2030-01-01T00:00:00"}, "/sent_at", "time zone"),
        ({"channel": "post", "language": "xx"}, "/language", "must be one of de, en"),
        ({"channel": "post", "addressee": ["a\nb"]}, "/addressee/0", "printable"),
        ({"channel": "post", "addressee": [""]}, "/addressee/0", "empty"),
        ({"channel": "post", "addressee": ["a"] * 9}, "/addressee", "8"),
        ({"channel": "post", "text": "a\u0000"}, "/text", "printable"),
        ({"channel": "post", "text": "a", "language": "en"}, "/text", "one of them"),
        ({"channel": "post", "to": "a"}, "/to", "addressee"),
    ],
)
def test_what_cannot_be_recorded_is_named(
    client: httpx.Client, case: str, body: dict[str, Any], pointer: str, said: str
) -> None:
    found = faults(client.post(f"{case}/notice", json=body))
    assert said in found[pointer]
    assert client.get(f"{case}/case").json()["letters"] == []


def test_a_letter_that_may_not_go_out_is_not_recorded(models_store: Path) -> None:
    settings = Settings(models_store=models_store, trust_pickle=True, lanes_sync=1, lender_name="")
    for nobody in run(settings):
        with httpx.Client(base_url=nobody.url, timeout=30) as client:
            case = f"/recourse/{client.post('/recourse', json=question()).json()['id']}"
            refused = problem(client.post(f"{case}/notice", json={"channel": "post"}), 409, "notice-incomplete")
            assert "RECOURSE_LENDER_NAME" in refused["detail"]
            assert client.get(f"{case}/case").json()["letters"] == []
            assert posted(client, f"{case}/notice", channel="post", text="our own")["text"] == "our own"


def test_the_signatory_stands_above_the_lenders_name(
    running: Running, client: httpx.Client, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    signed = replace(LENDER, signatory=("Erika Muster", "Head of Credit"))
    monkeypatch.setattr(running.service.notices, "_lender", signed)
    text = client.get(f"{case}/notice?format=text").text
    assert "Yours sincerely\n\n\n\n" + "_" * 30 + "\nErika Muster\nHead of Credit\nBank & <Sons>\n" in text
    page = client.get(f"{case}/notice?format=html").text
    assert '<p class="signature">Erika Muster<br>Head of Credit<br>Bank &amp; &lt;Sons&gt;</p>' in page


# --- reviews ---------------------------------------------------------------------------------------------------------


def test_a_corrected_record_is_asked_about_again(client: httpx.Client, case: str) -> None:
    corrected = {"income": 6000.0, "guarantor": True, "amount": 1000.0}
    review = posted(client, f"{case}/reviews", by="Sam", reason="payslips", corrections=corrected)
    Review.model_validate(review, strict=False)
    assert (review["corrections"], review["decision"], review["by"]) == (corrected, None, "Sam")
    alone = client.post("/models/loan/predict", json={"records": [APPLICANT | corrected]}).json()["predictions"][0]
    assert review["asked"]["favourable"] == alone["favourable"] is True
    again = client.get(f"/recourse/{review['asked']['id']}").json()
    assert (again["status"], again["reference"]) == ("already_favourable", "A/7 & co")
    assert again["factual"]["probability"] == alone["probability"]


def test_a_corrected_record_that_is_refused_has_ways_of_its_own(client: httpx.Client, case: str) -> None:
    corrected = {"income": APPLICANT["income"] + 10.0}
    asked = posted(client, f"{case}/reviews", by="Sam", reason="r", corrections=corrected)["asked"]
    assert (asked["status"], asked["favourable"]) == ("found", False)
    again = client.get(f"/recourse/{asked['id']}").json()
    first = client.get(case).json()
    assert again["method"] == first["method"]
    # As if that had been asked at first.
    same = client.post("/recourse", json=question(applicant=APPLICANT | corrected, detail="full")).json()
    assert again["counterfactuals"] == same["counterfactuals"]
    assert client.get(f"/recourse/{asked['id']}/notice").status_code == 200


def test_a_person_decides_whatever_the_model_says(client: httpx.Client, case: str) -> None:
    review = posted(client, f"{case}/reviews", by="Sam", reason="guarantor\noverlooked", decision="accepted")
    assert (review["decision"], review["asked"], review["corrections"]) == ("accepted", None, {})
    assert client.get(case).json()["factual"]["favourable"] is False


@pytest.mark.parametrize(
    ("body", "pointer", "said"),
    [
        ({"reason": "r", "decision": "accepted"}, "/by", "missing"),
        ({"by": "Sam", "decision": "accepted"}, "/reason", "missing"),
        ({"by": "Sam", "reason": "r"}, "", "a review has corrections"),
        ({"by": "Sam", "reason": "r", "decision": "perhaps"}, "/decision", "'accepted' or 'refused'"),
        ({"by": "Sam", "reason": "r", "corrections": {"income": "much"}}, "/corrections/income", ""),
        ({"by": "Sam", "reason": "r", "corrections": {"shoe": 43}}, "/corrections/shoe", ""),
        (
            {"by": "Sam", "reason": "r", "corrections": {"income": 1}, "model": "open"},
            "/model",
            "another|not a version",
        ),
    ],
)
def test_what_is_no_review_is_named(
    client: httpx.Client, case: str, body: dict[str, Any], pointer: str, said: str
) -> None:
    code = "invalid-record" if "/corrections" in pointer else "invalid-request"
    found = faults(client.post(f"{case}/reviews", json=body), code=code)
    assert any(part in found[pointer] for part in said.split("|"))
    assert client.get(f"{case}/case").json()["reviews"] == []


# --- the case file ---------------------------------------------------------------------------------------------------


def test_a_case_file_has_all_of_it_and_its_proof(client: httpx.Client, case: str) -> None:
    letters = [
        posted(client, f"{case}/notice", channel="post", addressee=ADDRESSEE),
        posted(client, f"{case}/notice", channel="email", text="again"),
    ]
    corrections = {"income": APPLICANT["income"] + 10.0}
    reviews = [
        posted(client, f"{case}/reviews", by="Sam", reason="r1", corrections=corrections),
        posted(client, f"{case}/reviews", by="Kim", reason="r2", decision="refused"),
    ]
    file = client.get(f"{case}/case").json()
    CaseFile.model_validate(file, strict=False)
    answer = client.get(case).json()
    assert (file["answer"], file["reference"], file["letters"], file["reviews"]) == (
        answer, "A/7 & co", letters, reviews,
    )  # fmt: skip
    assert file["request"]["applicant"] == APPLICANT
    alone = client.post("/reasons", json={"model": "loan", "applicant": APPLICANT}).json()
    assert [one["text"] for one in file["reasons"]["reasons"]] == [one["text"] for one in alone["reasons"]]
    assert (file["later"], file["asked_by"], file["holds"]) == ([], None, True)
    _, *others = file["proof"]
    assert [one["kind"] for one in file["proof"]] == ["given", "sent", "sent", "reviewed", "reviewed"]
    assert {one["about"] for one in others} == {answer["id"]}
    # The hash of a letter can be computed from what is said.
    sent = others[0]
    entry = Entry(
        number=sent["number"], kind=Kind.SENT, id=sent["id"], at=sent["at"], status="post", digest=sent["digest"],
        about=answer["id"],
    )  # fmt: skip
    assert entry.hash(sent["before"]) == sent["hash"]
    fields = [
        sent["before"], sent["number"], "sent", sent["id"], sent["at"], None, None, None, None, "post",
        sent["digest"], answer["id"],
    ]  # fmt: skip
    text = json.dumps(fields, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == sent["hash"]


def test_the_page_of_a_case_says_all_of_it(client: httpx.Client, case: str) -> None:
    letter = posted(client, f"{case}/notice", channel="in_person", addressee=ADDRESSEE)
    review = posted(
        client, f"{case}/reviews", by="<i>Sam</i>", reason="payslips", corrections={"income": 2222.0},
        decision="accepted",
    )  # fmt: skip
    answer = client.get(case).json()
    response = client.get(f"{case}/case", headers={"Accept": "text/html"})
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert "<i>" not in response.text
    said = unescape(" ".join(response.text.split()))
    file = client.get(f"{case}/case").json()
    expected = [
        "Case A/7 & co", answer["model"]["sha256"], "in person", *ADDRESSEE, "<i>Sam</i>", "2,222", "payslips",
        review["asked"]["id"], "Decision: <b>accepted</b>", "No later version", letter["id"],
        *(link["hash"] for link in file["proof"]),
        *(change["text"] for way in answer["counterfactuals"] for change in way["changes"]),
        *(reason["text"] for reason in file["reasons"]["reasons"]),
        " ".join(letter["text"].split()),
    ]  # fmt: skip
    for part in expected:
        assert part in said, part
    assert "not as they were written" not in said


def test_the_page_of_a_case_has_the_steps_in_the_order_of_the_letter(demo: Any) -> None:
    young = {
        "age": 19, "monthly_income": 1899, "monthly_debt": 519, "card_utilisation": 3.1, "late_payments": 2,
        "amount": 14100, "term": 36, "employment": "1 to 3 years", "savings": "1,000 to 5,000 EUR",
        "housing": "with family", "purpose": "car", "guarantor": False,
    }  # fmt: skip
    with httpx.Client(base_url=demo.url, timeout=60) as client:
        body = {"model": "consumer-loan", "applicant": young, "count": 3, "robustness": {"future_validity": 0.9}}
        answer = client.post("/recourse", json=body).json()
        said = unescape(client.get(f"/recourse/{answer['id']}/case?format=html").text)
    ordered = [[step["feature"] for step in way["steps"]] for way in answer["counterfactuals"]]
    assert ordered != [[one["feature"] for one in way["changes"]] for way in answer["counterfactuals"]]
    ways = said.partition("Ways to a yes")[2].split("<h3>")[1:]
    for way, names, part in zip(answer["counterfactuals"], ordered, ways, strict=True):
        texts = {one["feature"]: one["text"] for one in way["changes"]}
        places = [part.index(texts[name]) for name in names]
        assert places == sorted(places)


def test_cases_without_a_way_have_a_file_too(client: httpx.Client) -> None:
    fixed = {"immutable": ["income", "amount", "age"]}
    rich = {**APPLICANT, "income": 19_000.0}
    for body in (question(constraints=fixed), question(applicant=rich)):
        answer = client.post("/recourse", json=body).json()
        page = client.get(f"/recourse/{answer['id']}/case?format=html")
        assert page.status_code == 200
        assert unescape(page.text).count(answer["detail"] or "None was needed.") == 1


def test_later_versions_say_whether_they_keep_the_promise(loans: Path) -> None:
    """`loan@2` is stricter, `loan@3` has another schema."""
    for one in run(Settings(models_store=loans, lanes_sync=1)):
        with httpx.Client(base_url=one.url, timeout=30) as client:
            answer = client.post("/recourse", json=question(model="loan@1")).json()
            case = f"/recourse/{answer['id']}"
            later = client.get(f"{case}/case").json()["later"]
            assert [version["model"] for version in later] == ["loan@2", "loan@3"]
            for version in later:
                body = {"model": version["model"]}
                asked = client.post(f"{case}/verify", json=body).json()["still_valid"]
                assert version["kept"] is asked
            assert client.get(f"{case}/case?format=html").text.count("loan@2") == 1


def test_what_is_not_there_has_no_case(client: httpx.Client, case: str) -> None:
    for address in (f"/recourse/{UNKNOWN}", "/recourse/none"):
        problem(client.get(f"{address}/case"), 404, "unknown-recourse")
        problem(client.get(f"{address}/letters/let_1"), 404, "unknown-recourse")
        problem(client.post(f"{address}/notice", json={"channel": "post"}), 404, "unknown-recourse")
        body = {"by": "Sam", "reason": "r", "decision": "refused"}
        problem(client.post(f"{address}/reviews", json=body), 404, "unknown-recourse")
    problem(client.get(f"{case}/letters/let_none"), 404, "unknown-recourse")
    later = datetime.now(UTC) + timedelta(hours=3)
    assert posted(client, f"{case}/notice", channel="post", text="t", sent_at=later.isoformat())["text"] == "t"
