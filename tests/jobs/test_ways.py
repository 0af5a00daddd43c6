"""Several ways over HTTP, and earlier answers that are not given again, by their ids in the ledger."""

from typing import Any

from tests.api.asking import APPLICANT, ask, faults, question
from tests.conftest import until
from tests.jobs.serving import Server

UNKNOWN = "rec_01JZZZZZZZZZZZZZZZZZZZZZZZ"


def sets(answer: dict[str, Any]) -> list[set[str]]:
    return [{change["feature"] for change in one["changes"]} for one in answer["counterfactuals"]]


def refused(server: Server, **changes: Any) -> dict[str, str]:
    return faults(server.client.post("/recourse", json=question(**changes)))


def test_each_way_says_how_it_differs_and_all_are_kept(server: Server) -> None:
    answer = ask(server.client, count=2)
    found = answer["counterfactuals"]
    assert [one["rank"] for one in found] == [1, 2]
    first, *others = sets(answer)
    assert found[0]["difference"] is None
    before = [first]
    for one, made in zip(found[1:], others, strict=True):
        assert not any(earlier <= made for earlier in before)
        assert set(one["difference"]["features"]) == made - set().union(*before)
        assert one["difference"]["overlap"] == max(len(earlier & made) for earlier in before) / len(made)
        assert one["validity"]["shift"] is not None
        before.append(made)
    for one, made in zip(found, before, strict=True):
        if len(made) == 1:
            assert one["steps"] is None
            continue
        assert {step["feature"] for step in one["steps"]} == made
        assert {step["text"] for step in one["steps"]} == {change["text"] for change in one["changes"]}
        current = one["validity"]["current"]
        assert {key: one["steps"][-1][key] for key in current} == current
    assert server.client.get(f"/recourse/{answer['id']}").json() == answer
    verified = server.client.post(f"/recourse/{answer['id']}/verify", json={}).json()
    assert [one["favourable"] for one in verified["counterfactuals"]] == [True] * 2


def test_earlier_answers_are_excluded_by_their_ids(server: Server) -> None:
    earlier = ask(server.client, count=2)
    for ids, before in ([earlier["id"]], sets(earlier)), ([f"{earlier['id']}/2"], sets(earlier)[1:]):
        again = sets(ask(server.client, count=2, exclude={"ids": ids}))
        assert again
        assert not any(one <= made for one in before for made in again)


def test_ids_of_no_answer_are_refused_where_they_stand(server: Server) -> None:
    other = ask(server.client, model="open")["id"]
    own, erased = ask(server.client)["id"], ask(server.client)["id"]
    server.client.delete(f"/recourse/{erased}")
    found = refused(server, exclude={"ids": [own, "rec_1", UNKNOWN, other, erased, f"{own}/7", f"{own}/x"]})
    assert set(found) == {f"/exclude/ids/{i}" for i in range(1, 7)}
    assert "erased" in found["/exclude/ids/4"]
    assert "another model" in found["/exclude/ids/3"]
    assert "rank" in found["/exclude/ids/5"]


def test_wishes_are_refused_where_they_stand(server: Server) -> None:
    assert set(refused(server, count=11)) == {"/count"}
    found = refused(server, must_include=["name", {"feature": "income", "to": 900, "by": 2}, 3])
    assert {"/must_include/1/by", "/must_include/2"} <= set(found)
    found = refused(
        server,
        exclude={"features": ["rank"], "changes": [{"feature": "housing", "to": "tent"}], "sets": [["age", "name"]]},
        must_include=["name"],
    )
    pointers = {"/exclude/features/0", "/exclude/changes/0/to", "/exclude/sets/0/1", "/must_include/0"}
    assert set(found) == pointers
    own = {"feature": "savings", "to": APPLICANT["savings"]}
    assert set(refused(server, must_include=[own])) == {"/must_include/0/to"}


def test_the_count_of_a_plan_is_given_once(server: Server) -> None:
    for method in ({"name": "copa"}, {"name": "copa", "count": 2}):
        answer = ask(server.client, count=2, method=method)
        assert answer["method"]["count"] == 2
        assert len(answer["counterfactuals"]) <= 2
    found = refused(server, count=3, method={"name": "copa", "count": 2})
    assert "count of the method is 2" in found["/count"]


def test_a_batch_has_wishes_in_common(server: Server) -> None:
    earlier = ask(server.client)["id"]
    rows = [{"applicant": APPLICANT}, {"applicant": {**APPLICANT, "savings": "much"}}]
    body = {
        "model": "loan", "count": 2, "exclude": {"ids": [earlier]}, "applicants": rows,
        "must_include": [{"feature": "savings", "to": "much"}],
    }  # fmt: skip
    accepted = server.client.post("/recourse/batch", json=body)
    assert accepted.status_code == 202, accepted.text
    job = accepted.headers["location"]
    until(lambda: server.client.get(job).json()["status"] == "succeeded")
    first, second = [line for line in server.client.get(f"{job}/results").text.splitlines() if line]
    assert '"feature":"savings"' in first
    assert "/must_include/0" in second, "who has them already cannot change to them"


def test_a_frontier_takes_wishes_and_no_count(server: Server) -> None:
    sweep = {"parameter": "radius_unfavourable", "values": [0, 5]}
    body = question(sweep=sweep, exclude={"features": ["income"]}, must_include=["savings"])
    points = server.client.post("/recourse/frontier", json=body).json()["points"]
    made = [{change["feature"] for change in point["counterfactual"]["changes"]} for point in points]
    assert all("savings" in one and "income" not in one for one in made)
    assert set(faults(server.client.post("/recourse/frontier", json={**body, "count": 2}))) == {"/count"}
