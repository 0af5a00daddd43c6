"""Future models made by a server: by itself, on request, and again after the server was killed."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.models.schema import FuturesAnswer
from tests.conftest import until
from tests.futures.models import estimator, registered
from tests.jobs.serving import Server
from tests.optional import library
from tests.servers import Start, on_sqlite, starting


def futures(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = server.client.get("/models/loan").json()["futures"]
    return found


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of a model with a label, which wants few future models."""
    folder = tmp_path_factory.mktemp("labelled")
    registered(folder, "linear", futures={"search": 4, "held_back": 3})
    with starting("sqlite", folder / "store", folder) as start:
        yield start().ready()


@pytest.mark.slow
def test_a_server_makes_future_models_of_a_model_with_a_label(labelled: Server) -> None:
    until(lambda: futures(labelled)["status"] == "ready")
    found = futures(labelled)
    assert (found["source"], found["search"], found["held_back"]) == ("retrained", 4, 3)
    assert (found["records"], found["labels"]) == ("fresh", "outcomes")
    assert found["agreement"] > 0.8
    assert not labelled.lines("rehearsal-postponed")


@pytest.mark.slow
def test_future_models_on_request(labelled: Server) -> None:
    until(lambda: futures(labelled)["status"] == "ready")
    stress = {"column": "age", "direction": "down"}
    asked = {"source": "stand_in", "records": "same", "search": 5, "held_back": 2, "stress": stress}
    accepted = labelled.client.post("/models/loan/futures", json=asked)
    assert accepted.status_code == 202, accepted.text
    job = labelled.ended(accepted.headers["location"])
    assert (job["kind"], job["status"]) == ("futures", "succeeded"), job
    assert job["progress"] == {"done": 13, "total": 13, "refused": None}
    result = labelled.client.get(job["result"]).json()
    FuturesAnswer.model_validate(result, strict=False)
    assert result["model"]["version"] == "1"
    assert result["futures"] == futures(labelled)
    assert result["futures"]["source"] == "stand_in"
    assert result["futures"]["search"] == 5
    assert result["futures"]["stress"] == [stress]
    question = {"model": "loan", "applicant": labelled.client.get("/models/loan/schema").json()["sample"]}
    (one,) = labelled.client.post("/recourse", json=question).json()["counterfactuals"]
    told = one["validity"]["future"]["stressed"]
    # One model of each of the three strengths, which are counted together.
    assert (told["column"], told["direction"], told["models"]) == ("age", "down", 3)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"search": 1}, "/search"),
        ({"source": "command"}, "/source"),
        ({"command": "rm -rf /"}, "/command"),
        ({"records": "all"}, "/records"),
        ({"stress": {"column": "age", "direction": "left"}}, "/stress/direction"),
        ({"stress": {"column": "age"}}, "/stress/direction"),
        ({"stress": {"column": "moon", "direction": "up"}}, "/stress/column"),
        ({"stress": {"column": "housing", "direction": "up"}}, "/stress/column"),
    ],
)
def test_nothing_else_can_be_asked_for(client: httpx.Client, body: dict[str, Any], pointer: str) -> None:
    refused = client.post("/models/loan/futures", json=body)
    assert refused.status_code == 422
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


def test_a_column_that_has_no_stress_is_answered_with_those_that_have_one(client: httpx.Client) -> None:
    refused = client.post("/models/loan/futures", json={"stress": {"column": "aeg", "direction": "up"}})
    (fault,) = refused.json()["errors"]
    _, _, columns = fault["detail"].removesuffix(".").partition(" only along one of ")
    assert {"age", "savings"} <= set(columns.split(", "))
    assert "housing" not in fault["detail"], "its categories have no order"


def test_what_no_source_can_make_is_refused_at_once(client: httpx.Client) -> None:
    refused = client.post("/models/loan/futures", json={"source": "retrained"})
    assert refused.status_code == 409, refused.text
    assert "as `label`" in refused.json()["detail"]


def test_a_model_that_is_not_there(client: httpx.Client) -> None:
    assert client.post("/models/other/futures", json={}).status_code == 404


def forest() -> Any:
    return library("sklearn.ensemble").RandomForestClassifier(30, random_state=0)


def stamps(members: Path) -> dict[str, int]:
    """When each model of a rehearsal was made."""
    found = {}
    for path in members.glob("*.check"):
        with suppress(FileNotFoundError):
            found[path.name] = path.stat().st_mtime_ns
    return found


FIFTEEN = {"search": 8, "held_back": 7, "records": "same", "stress": "none"}


@on_sqlite
def test_a_cancelled_rehearsal_says_so_and_goes_on_when_it_is_asked_for_again(start: Start, tmp_path: Path) -> None:
    model = registered(tmp_path, estimator(forest), records=2_000, futures={**FIFTEEN, "source": "retrained"})
    server = start(RECOURSE_MODELS_STORE=str(tmp_path / "store")).ready()
    members = model.directory / "futures.partial" / "members"
    until(lambda: len(stamps(members)) >= 4)
    (job,) = server.client.get("/jobs").json()["jobs"]
    assert server.client.delete(f"/jobs/{job['id']}").json()["status"] == "cancelled"
    found = futures(server)
    assert found["status"] == "failed"
    assert "cancelled" in found["detail"]
    assert "Start it again" in found["detail"]
    made = stamps(members)
    assert len(made) < 15
    again = server.client.post("/models/loan/futures", json={})
    assert again.status_code == 202, again.text
    seen: dict[str, int] = {}

    def ready() -> bool:
        seen.update(stamps(members))
        return bool(futures(server)["status"] == "ready")

    until(ready)
    assert all(seen[name] == stamp for name, stamp in made.items())


def test_a_killed_server_goes_on_where_it_was(start: Start, tmp_path: Path) -> None:
    model = registered(tmp_path, estimator(forest), records=2_000, futures={**FIFTEEN, "source": "retrained"})
    more = {"RECOURSE_MODELS_STORE": str(tmp_path / "store"), "RECOURSE_EXECUTOR_ID": "only"}
    server = start(**more).ready()
    members = model.directory / "futures.partial" / "members"
    until(lambda: len(stamps(members)) >= 4)
    server.kill()
    time.sleep(0.5)
    # What a killed child had just made counts too.
    made = stamps(members)
    assert len(made) < 15
    server = start(**more).ready()
    seen: dict[str, int] = {}

    def ready() -> bool:
        seen.update(stamps(members))
        return bool(futures(server)["status"] == "ready")

    until(ready)
    assert all(seen.get(name, stamp) == stamp for name, stamp in made.items())
    (job,) = server.client.get("/jobs").json()["jobs"]
    job = server.ended(f"/jobs/{job['id']}")
    assert (job["kind"], job["status"]) == ("futures", "succeeded")
    assert (futures(server)["search"], futures(server)["held_back"]) == (8, 7)
