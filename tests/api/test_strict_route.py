"""Bodies that are not what they should be: refused with the place and the reason, never an error of ours."""

import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.recourse.actions.constraints import CHEAPEST, DEAREST
from app.recourse.features import LARGEST
from app.recourse.methods import METHODS
from tests.api.asking import APPLICANT, faults, problem, question

JSON = {"content-type": "application/json"}


def post(client: httpx.Client, body: bytes | str, path: str = "/recourse") -> httpx.Response:
    return client.post(path, content=body, headers=JSON)


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"{", b"nope", b"{'model': 1}", b'{"a": 1,}', b'{"a": 01}', b'{"a": 1} {"a": 2}', b"\xff\xfe{}",
        "{}".encode("utf-16"), b'"\x00"', b'{"model": "\\ud800"}', b'{"\\udfff": 1}',
        b"[" * 90_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000, b'{"applicant": ' + b"[" * 300 + b"]" * 300 + b"}",
        b"1" * 5_000, b"-", b'{"model": "loan", "model": "loan"}', b'{"applicant": {"age": 1, "age": 2}}',
        b'[{"a": [{"b": 1, "b": 2}]}]',
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/recourse", "/models/loan/predict"])
def test_what_is_not_one_json_value_is_malformed(client: httpx.Client, path: str, body: bytes) -> None:
    problem(post(client, body, path), 400, "malformed-json")


def test_a_byte_order_mark_is_no_part_of_the_value(client: httpx.Client) -> None:
    """Editors of Windows write one; a batch in lines begins with it where its file does."""
    plain = problem(post(client, b'{"model": "loan"}'), 422, "invalid-request")
    marked = problem(post(client, b'\xef\xbb\xbf{"model": "loan"}'), 422, "invalid-request")
    assert marked["errors"] == plain["errors"]
    lines = b'\xef\xbb\xbf{"model": "other"}\n{"applicant": {}}\n'
    response = client.post("/recourse/batch", content=lines, headers={"Content-Type": "application/x-ndjson"})
    problem(response, 404, "unknown-model")


def test_a_repeated_key_is_named(client: httpx.Client) -> None:
    detail = problem(post(client, b'{"applicant": {"age": 1, "age": 2}}'), 400, "malformed-json")["detail"]
    assert '"age"' in detail


def test_a_long_repeated_key_is_not_repeated_in_full(client: httpx.Client) -> None:
    key = json.dumps("k" * 100_000)
    response = post(client, f"{{{key}: 1, {key}: 2}}")
    problem(response, 400, "malformed-json")
    assert len(response.content) < 1_000


@pytest.mark.parametrize("body", ["null", "true", "1", '"loan"', "[]", "[{}]", "{}", '{"model": null}'])
def test_a_json_value_of_another_form_is_invalid(client: httpx.Client, body: str) -> None:
    assert faults(post(client, body))


@pytest.mark.parametrize(
    "content_type",
    [None, "", "text/plain", "application/xml", "application/x-www-form-urlencoded", "application/jsonp", "json", ";"],
)
def test_another_media_type_is_refused(client: httpx.Client, content_type: str | None) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    response = client.post("/recourse", content=json.dumps(question()), headers=headers)
    problem(response, 415, "unsupported-media-type")


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"content-encoding": "gzip"}, "gzip"),
        ({"content-encoding": "br, gzip"}, "br, gzip"),
        ({"content-type": "application/json; charset=utf-16"}, "utf-16"),
        ({"content-type": 'application/json; a=b; Charset="Latin-1"'}, "latin-1"),
    ],
)
@pytest.mark.parametrize("path", ["/recourse", "/recourse/batch"])
def test_another_encoding_is_named(client: httpx.Client, path: str, headers: dict[str, str], named: str) -> None:
    response = client.post(path, content=b"\x1f\x8b\x00", headers=JSON | headers)
    assert named in problem(response, 415, "unsupported-media-type")["detail"]


@pytest.mark.parametrize(
    "content_type",
    ["application/json", 'application/json; charset="UTF-8"', "Application/JSON; charset=utf-8", "application/json;"],
)
def test_json_is_taken_with_or_without_parameters(client: httpx.Client, content_type: str) -> None:
    response = client.post("/recourse", content=json.dumps(question()), headers={"content-type": content_type})
    assert response.status_code == 200


def test_a_body_that_is_too_large_is_refused_by_its_declared_length(client: httpx.Client) -> None:
    problem(post(client, b'"' + b"x" * 1_000_000 + b'"'), 413, "body-too-large")


def test_a_body_that_is_too_large_is_refused_although_it_declares_no_length(client: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        yield from [b'"', *[b"x" * 10_000] * 101]

    response = client.post("/recourse", content=chunks(), headers=JSON)
    problem(response, 413, "body-too-large")


def test_an_object_with_too_many_members_is_refused_at_once(client: httpx.Client) -> None:
    body = json.dumps({str(i): 0 for i in range(50_000)})
    problem(post(client, body), 422, "invalid-request")


@pytest.mark.parametrize("path", ["/recourse?x=1", "/models/loan/predict?dry_run=true"])
def test_query_parameters_are_refused(client: httpx.Client, path: str) -> None:
    problem(client.post(path, json=question()), 422, "invalid-request")


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("/models?limit=1", ["query"]),
        ("/methods?a", ["query"]),
        ("/health/live?x=%ff", ["query"]),
        ("/models/loan?v=1", ["query"]),
        ("/models/loan/calibration?method=probe", ["query"]),
        ("/jobs?page=1", ["only the query parameters cursor, kind, limit, model, "]),
        ("/jobs?limit=0", ["limit must be at least 1"]),
        ("/jobs?limit=201", ["limit must be at most 200"]),
        ("/jobs?limit=", ["limit must be a whole number"]),
        ("/jobs?limit=many", ["limit must be a whole number"]),
        ("/jobs?cursor=", ["cursor is not one that was given out"]),
        ("/jobs?cursor=job_%00", ["cursor is not one that was given out"]),
        ("/jobs?cursor=" + "x" * 101, ["cursor must have at most 100 characters"]),
        (
            "/jobs?kind=letters&status=done&since=0001-01-01T00:00:00%2B14:00",
            [
                "kind must be recourse, ",
                "status must be 'queued', 'running', 'succeeded', 'failed' or 'cancelled'",
                "since must be a time",
            ],
        ),
        ("/recourse?a=1", ["query"]),
        ("/recourse?limit=0", ["limit must be at least 1"]),
        ("/recourse?cursor=", ["cursor is not one that was given out"]),
        ("/recourse?cursor=rec_%00", ["cursor is not one that was given out"]),
        ("/recourse?reference=%00", ["reference"]),
        ("/recourse?reference=" + "x" * 201, ["reference"]),
        ("/recourse?since=0001-01-01T00:00:00%2B14:00", ["since must be a time"]),
        ("/recourse?version=1", ["version needs the parameter model"]),
        (
            "/recourse?status=maybe&since=2026-01-01T00:00:00&kept=perhaps",
            [
                "status must be 'found', 'already_favourable' or 'not_found'",
                "since must name its time zone",
                "kept must be true or false",
            ],
        ),
    ],
)
def test_what_is_wrong_with_a_query_is_named(client: httpx.Client, address: str, told: list[str]) -> None:
    detail = json.dumps(problem(client.get(address), 422, "invalid-request"))
    assert [sentence for sentence in told if sentence not in detail] == []


# --- one thing wrong with a valid question ---


HUGE = 10**400

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"model": 5}, "/model"),
    ({"model": ""}, "/model"),
    ({"model": "x" * 201}, "/model"),
    ({"applicant": []}, "/applicant"),
    ({"applicant": None}, "/applicant"),
    ({"reference": 5}, "/reference"),
    ({"reference": "x" * 201}, "/reference"),
    ({"reference": "a\nb"}, "/reference"),
    ({"reference": "\u202e"}, "/reference"),
    ({"seed": -1}, "/seed"),
    ({"seed": 2**63}, "/seed"),
    ({"seed": HUGE}, "/seed"),
    ({"seed": 1.5}, "/seed"),
    ({"seed": True}, "/seed"),
    ({"seed": "7"}, "/seed"),
    ({"seed": None}, "/seed"),
    ({"deadline_ms": 0}, "/deadline_ms"),
    ({"deadline_ms": 60_001}, "/deadline_ms"),
    ({"deadline_ms": True}, "/deadline_ms"),
    ({"nonsense": 1}, "/nonsense"),
    ({"a/b~c": 1}, "/a~1b~0c"),
    ({"body": 1}, "/body"),
    ({"method": "robust_mpm"}, "/method"),
    ({"method": {}}, "/method/name"),
    ({"method": {"name": "magic"}}, "/method/name"),
    ({"method": {"name": "robust_mpm", "epochs": 3}}, "/method/epochs"),
    ({"method": {"name": "robust_mpm", "robust_mpm": 3}}, "/method/robust_mpm"),
    ({"method": {"name": "robust_mpm", "samples": 10.5}}, "/method/samples"),
    ({"method": {"name": "robust_mpm", "samples": "100"}}, "/method/samples"),
    ({"method": {"name": "robust_mpm", "samples": 10**9}}, "/method/samples"),
    ({"method": {"name": "robust_mpm", "margin": -0.1}}, "/method/margin"),
    ({"method": {"name": "robust_mpm", "margin": False}}, "/method/margin"),
    ({"method": {"name": "robust_mpm", "margin": HUGE}}, "/method/margin"),
    ({"method": {"name": "robust_mpm", "divergence": "euclid"}}, "/method/divergence"),
    ({"constraints": []}, "/constraints"),
    ({"constraints": {"immutable": "age"}}, "/constraints/immutable"),
    ({"constraints": {"immutable": [1]}}, "/constraints/immutable/0"),
    ({"constraints": {"immutable": ["age", "shoe_size"]}}, "/constraints/immutable/1"),
    ({"constraints": {"immutable": ["x" * 101]}}, "/constraints/immutable/0"),
    ({"constraints": {"immutable": ["age"] * 1_001}}, "/constraints/immutable"),
    ({"constraints": {"direction": {"age": "up"}}}, "/constraints/direction/age"),
    ({"constraints": {"direction": {"housing": "increase"}}}, "/constraints/direction/housing"),
    ({"constraints": {"bounds": {"income": {"min": True}}}}, "/constraints/bounds/income/min"),
    ({"constraints": {"bounds": {"income": {"min": "low"}}}}, "/constraints/bounds/income/min"),
    ({"constraints": {"bounds": {"income": {"min": HUGE}}}}, "/constraints/bounds/income/min"),
    ({"constraints": {"bounds": {"income": {"min": 5, "max": 4}}}}, "/constraints/bounds/income"),
    ({"constraints": {"bounds": {"savings": {"max": 1}}}}, "/constraints/bounds/savings/max"),
    ({"constraints": {"bounds": {"savings": {"max": []}}}}, "/constraints/bounds/savings/max"),
    ({"constraints": {"bounds": {"housing": {}}}}, "/constraints/bounds/housing"),
    ({"constraints": {"bounds": {"income": {"least": 1}}}}, "/constraints/bounds/income/least"),
    ({"constraints": {"max_change": {"income": {}}}}, "/constraints/max_change/income"),
    ({"constraints": {"max_change": {"income": {"relative": 0}}}}, "/constraints/max_change/income/relative"),
    ({"constraints": {"max_change": {"income": {"absolute": HUGE}}}}, "/constraints/max_change/income/absolute"),
    ({"constraints": {"max_change": {"savings": {"absolute": 1}}}}, "/constraints/max_change/savings"),
    ({"constraints": {"max_change": {"shoe_size": {"absolute": 1}}}}, "/constraints/max_change/shoe_size"),
    ({"constraints": {"least_change": {"income": -1}}}, "/constraints/least_change/income"),
    ({"constraints": {"least_change": {"housing": 1}}}, "/constraints/least_change/housing"),
    ({"horizon_months": 0}, "/horizon_months"),
    ({"horizon_months": "6"}, "/horizon_months"),
    ({"horizon_months": 1201}, "/horizon_months"),
    ({"sequential": 1}, "/sequential"),
    ({"constraints": {"max_changes": 0}}, "/constraints/max_changes"),
    ({"constraints": {"max_changes": "2"}}, "/constraints/max_changes"),
    ({"constraints": {"maximum": 1}}, "/constraints/maximum"),
    ({"cost": {"weights": {"income": 0}}}, "/cost/weights/income"),
    ({"cost": {"weights": {"income": -1}}}, "/cost/weights/income"),
    ({"cost": {"weights": {"income": "2"}}}, "/cost/weights/income"),
    ({"cost": {"weights": {"income": HUGE}}}, "/cost/weights/income"),
    ({"cost": {"weights": {"shoe_size": 1}}}, "/cost/weights/shoe_size"),
    ({"cost": {"weights": [1]}}, "/cost/weights"),
]


@pytest.mark.parametrize(("changes", "pointer"), WRONG, ids=[f"{p}-{i}" for i, (_, p) in enumerate(WRONG)])
def test_the_place_of_a_fault_is_told(client: httpx.Client, changes: dict[str, Any], pointer: str) -> None:
    assert set(faults(client.post("/recourse", json=question(**changes)))) == {pointer}


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"seed": "?"}, "/seed"),
        ({"deadline_ms": "?"}, "/deadline_ms"),
        ({"method": {"name": "robust_mpm", "margin": "?"}}, "/method/margin"),
        ({"constraints": {"bounds": {"income": {"max": "?"}}}}, "/constraints/bounds/income/max"),
        ({"cost": {"weights": {"income": "?"}}}, "/cost/weights/income"),
        ({"applicant": {**APPLICANT, "income": "?"}}, "/applicant/income"),
        ({"applicant": {**APPLICANT, "age": "?"}}, "/applicant/age"),
    ],
)
def test_numbers_must_be_finite(client: httpx.Client, literal: str, changes: dict[str, Any], pointer: str) -> None:
    body = json.dumps(question(**changes)).replace('"?"', literal)
    response = post(client, body)
    code = "invalid-record" if pointer.startswith("/applicant") else "invalid-request"
    assert set(faults(response, code=code)) == {pointer}


@pytest.mark.parametrize("value", ["false", "yes", 1, None])
def test_a_truth_value_is_asked_for_in_words(client: httpx.Client, value: object) -> None:
    response = client.post("/recourse", json=question(store=value))
    assert faults(response) == {"/store": "must be true or false"}


WRONG_RECORDS: list[tuple[dict[str, Any], str]] = [
    ({"age": "30"}, "/applicant/age"),
    ({"age": True}, "/applicant/age"),
    ({"age": None}, "/applicant/age"),
    ({"age": 30.5}, "/applicant/age"),
    ({"age": 17}, "/applicant/age"),
    ({"age": HUGE}, "/applicant/age"),
    ({"age": [[[]]]}, "/applicant/age"),
    ({"income": -0.01}, "/applicant/income"),
    ({"income": {"amount": 3}}, "/applicant/income"),
    ({"income": "x" * 900_000}, "/applicant/income"),
    ({"savings": "lots"}, "/applicant/savings"),
    ({"savings": 0}, "/applicant/savings"),
    ({"guarantor": 1}, "/applicant/guarantor"),
    ({"guarantor": "true"}, "/applicant/guarantor"),
    ({"housing": "RENTED"}, "/applicant/housing"),
    ({"housing": "\u0000"}, "/applicant/housing"),
    ({"shoe_size": 42}, "/applicant/shoe_size"),
    ({"": 42}, "/applicant/"),
]


@pytest.mark.parametrize(("changes", "pointer"), WRONG_RECORDS, ids=[str(i) for i in range(len(WRONG_RECORDS))])
def test_a_record_must_fit_the_schema(client: httpx.Client, changes: dict[str, Any], pointer: str) -> None:
    response = client.post("/recourse", json=question(applicant={**APPLICANT, **changes}))
    assert set(faults(response, code="invalid-record")) == {pointer}
    response = client.post("/models/loan/predict", json={"records": [APPLICANT, {**APPLICANT, **changes}]})
    expected = pointer.replace("/applicant/", "/records/1/", 1)
    assert set(faults(response, code="invalid-record")) == {expected}


def test_a_whole_number_may_have_a_point_and_a_number_need_not(client: httpx.Client) -> None:
    applicant = {**APPLICANT, "age": 30.0, "income": 1500, "amount": 2e4}
    plain, pointed = (client.post("/recourse", json=question(applicant=a)).json() for a in (APPLICANT, applicant))
    assert plain["counterfactuals"] == pointed["counterfactuals"]


def test_an_empty_record_lacks_every_feature(client: httpx.Client) -> None:
    found = faults(client.post("/recourse", json=question(applicant={})), code="invalid-record")
    assert found == {f"/applicant/{name}": "is missing" for name in APPLICANT}


def test_all_faults_of_form_are_told_at_once(client: httpx.Client) -> None:
    body = {"model": 1, "seed": "x", "constraints": {"max_changes": 0}, "extra": []}
    assert set(faults(client.post("/recourse", json=body))) == {
        "/model", "/seed", "/constraints/max_changes", "/extra", "/applicant",
    }  # fmt: skip


def test_all_faults_of_content_are_told_at_once(client: httpx.Client) -> None:
    body = question(
        applicant={**APPLICANT, "age": 5, "housing": "tent"},
        constraints={"immutable": ["hat"], "bounds": {"income": {"max": "much"}}},
        cost={"weights": {"shoes": 1}},
    )
    assert set(faults(client.post("/recourse", json=body))) == {
        "/applicant/age", "/applicant/housing", "/constraints/immutable/0", "/constraints/bounds/income/max",
        "/cost/weights/shoes",
    }  # fmt: skip


def told(response: httpx.Response) -> list[str]:
    """The places of all faults, each of which is told once."""
    return [fault["pointer"] for fault in problem(response, 422, "invalid-request")["errors"]]


def test_faults_of_form_and_of_content_are_told_at_once(client: httpx.Client) -> None:
    body = question(
        foo=1,
        applicant={**APPLICANT, "age": 5},
        constraints={"immutable": ["hat"]},
        cost={"weights": {"amount": -1}},
        certificate={"noise_std": {"housing": 0.1}},
    )
    assert set(told(client.post("/recourse", json=body))) == {
        "/foo", "/applicant/age", "/constraints/immutable/0", "/cost/weights/amount", "/certificate/noise_std/housing",
    }  # fmt: skip
    # Nothing is known about the rest of a question to a model that is not there.
    assert told(client.post("/recourse", json={**body, "model": "nobody"})) == ["/cost/weights/amount", "/foo"]


def test_every_bad_record_of_a_list_is_told_at_once(client: httpx.Client) -> None:
    bad = {**APPLICANT, "age": 5}
    body = {"model": "loan", "applicant": bad, "counterfactuals": [bad, APPLICANT, 5, None]}
    assert set(told(client.post("/recourse/validity", json=body))) == {
        "/applicant/age", "/counterfactuals/0/age", "/counterfactuals/2", "/counterfactuals/3",
    }  # fmt: skip
    found = told(client.post("/models/loan/predict", json={"records": [5, bad]}))
    assert found == ["/records/0", "/records/1/age"]


def test_every_bad_value_of_a_sweep_is_told_at_once(client: httpx.Client) -> None:
    values = '[-1, "x", null, 1e9, Infinity, 2]'
    body = json.dumps(question(sweep={"parameter": "radius_unfavourable", "values": "?"})).replace('"?"', values)
    expected = [f"/sweep/values/{i}" for i in range(5)]
    assert sorted(told(post(client, body, "/recourse/frontier"))) == expected
    # Whether they suit a method is not known where that is in doubt.
    unclear = question(method={"name": "magic"}, sweep={"parameter": "margin", "values": [-1, "x"]})
    assert set(told(client.post("/recourse/frontier", json=unclear))) == {"/method/name", "/sweep/values/1"}


def test_a_constraint_may_not_loosen_what_the_model_allows(client: httpx.Client) -> None:
    response = client.post("/recourse", json=question(constraints={"direction": {"age": "decrease"}}))
    assert set(faults(response, code="constraint-clash")) == {"/constraints/direction/age"}


def test_a_long_list_of_faults_is_cut(client: httpx.Client) -> None:
    records = [{**APPLICANT, "age": 1}] * 200
    document = problem(client.post("/models/loan/predict", json={"records": records}), 422, "invalid-record")
    assert len(document["errors"]) == 50
    assert "200" in document["detail"]


def test_rejected_values_are_never_repeated(client: httpx.Client) -> None:
    secret = "sEcReT-4711"
    bodies: list[Any] = [
        question(applicant={**APPLICANT, name: secret}) for name in APPLICANT
    ] + [
        question(seed=secret), question(method={"name": secret}), question(reference=[secret]), question(cost=secret),
        question(method={"name": "robust_mpm", "divergence": secret}), question(deadline_ms={"a": secret}),
        question(constraints={"direction": {"age": secret}}), question(constraints={"immutable": secret}),
        question(constraints={"bounds": {"income": {"min": secret}}}), secret, [secret],
    ]  # fmt: skip
    for body in bodies:
        response = client.post("/recourse", json=body)
        assert response.status_code == 422, body
        assert secret not in response.text


def test_random_damage_to_a_valid_question_is_refused_or_answered(client: httpx.Client) -> None:
    """What a fuzzer would try: pieces replaced by junk of other types, and bytes flipped."""
    rng = random.Random(4711)
    junk: list[Any] = [
        None, True, -1, 0, HUGE, 1e308, "", "x" * 5_000, [], {}, [[]], {"a": {"b": []}}, "\ud83d\ude00",
        "null", "\u0000",
    ]  # fmt: skip
    valid = question(
        method={"name": "robust_mpm", "samples": 50}, constraints={"bounds": {"income": {"max": 9000}}}, deadline_ms=500
    )
    for _ in range(300):
        text = json.dumps(_damaged(rng, valid, junk))
        if rng.random() < 0.3:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice('{}[]",:\\\x00e-0') + text[at + 1 :]
        response = post(client, text)
        assert response.status_code in (200, 400, 404, 422), (response.status_code, text)


def _damaged(rng: random.Random, value: Any, junk: list[Any]) -> Any:
    if rng.random() < 0.06:
        return rng.choice(junk)
    if isinstance(value, dict):
        return {key if rng.random() > 0.03 else "?": _damaged(rng, inner, junk) for key, inner in value.items()}
    return value


@pytest.mark.parametrize("number", [LARGEST, -LARGEST, 5e-324, -0.0, 0.1 + 0.2, 10**16])
@pytest.mark.parametrize("feature", ["income", "amount"])
def test_extreme_but_legal_numbers_are_answered(client: httpx.Client, feature: str, number: float) -> None:
    applicant = {**APPLICANT, feature: number}
    response = client.post("/recourse", json=question(model="open", applicant=applicant, deadline_ms=2000))
    assert response.status_code == 200, response.text
    bounds = {feature: {"min": -LARGEST, "max": LARGEST}}
    response = client.post("/recourse", json=question(model="open", constraints={"bounds": bounds}, deadline_ms=2000))
    assert response.status_code == 200, response.text
    response = client.post("/models/open/predict", json={"records": [applicant]})
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("number", [1.7e308, -1e150, 1.1e16, 10**300])
def test_numbers_that_drown_all_others_are_refused(client: httpx.Client, number: float) -> None:
    applicant, bounds = {**APPLICANT, "income": number}, {"bounds": {"income": {"max": number}}}
    detail = "must be at most 1e+16" if number > 0 else "must be at least -1e+16"
    for path, body in (
        ("/recourse", question(model="open", applicant=applicant)),
        ("/models/open/predict", {"records": [applicant]}),
    ):
        (fault,) = problem(client.post(path, json=body), 422, "invalid-record")["errors"]
        assert fault["pointer"].endswith("/income")
        assert fault["detail"] == detail
    (fault,) = problem(
        client.post("/recourse", json=question(model="open", constraints=bounds)), 422, "invalid-request"
    )["errors"]
    assert fault == {"pointer": "/constraints/bounds/income/max", "detail": "must be a number between -1e+16 and 1e+16"}


@pytest.mark.parametrize("method", METHODS)
def test_numbers_at_the_limit_are_no_fault_of_any_method(client: httpx.Client, method: str) -> None:
    applicant = {**APPLICANT, "income": -LARGEST, "amount": LARGEST}
    for weight in (CHEAPEST, DEAREST):
        asked = question(
            model="open", applicant=applicant, method={"name": method}, cost={"weights": {"income": weight}},
            constraints={"bounds": {"income": {"max": LARGEST}}}, deadline_ms=2000,
        )  # fmt: skip
        response = client.post("/recourse", json=asked)
        assert response.status_code == 200, response.text


@pytest.mark.parametrize("age", [2**53, -(2**53)])
def test_the_largest_whole_numbers_are_answered(client: httpx.Client, age: int) -> None:
    response = client.post("/recourse", json=question(model="open", applicant={**APPLICANT, "age": age}))
    assert response.status_code == 200, response.text
