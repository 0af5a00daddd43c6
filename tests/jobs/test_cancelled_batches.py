"""A batch that is cancelled has given promises: those that the ledger had recorded by then."""

from tests.api.asking import problem
from tests.conftest import until
from tests.jobs.serving import Server
from tests.jobs.test_batches import PATIENCE_S, rows, submit


def test_a_cancelled_batch_says_which_promises_it_had_recorded(server: Server) -> None:
    address = submit(server, rows(3000), store=True)
    job = address.rpartition("/")[2]

    def recorded() -> list[dict[str, str]]:
        response = server.client.get("/recourse", params={"job": job, "limit": 200})
        found: list[dict[str, str]] = response.json()["recourse"]
        return found

    until(recorded, within_s=PATIENCE_S)
    assert server.client.delete(address).json()["status"] == "cancelled"
    detail = problem(server.client.get(f"{address}/results"), 409, "job-cancelled")["detail"]
    assert detail.endswith(f"GET /recourse?job={job} lists what it had recorded.")
    given = recorded()
    assert given
    references = {one["reference"] for one in given}
    assert len(references) == len(given)
    assert references <= {f"case-{i}" for i in range(3000)}
    assert server.client.get(f"/recourse/{given[0]['id']}").json()["reference"] == given[0]["reference"]
