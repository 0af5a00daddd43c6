"""What a worker answers: how it is, and what it has counted."""

from pathlib import Path

import httpx
import pytest

from app.errors import Open
from app.main import work
from app.settings import Settings
from tests.conftest import until
from tests.jobs.serving import Worker


@pytest.mark.slow
def test_a_worker_with_a_port_answers_health_and_metrics(loan_store: Path, tmp_path: Path) -> None:
    settings = {
        "RECOURSE_MODELS_STORE": str(loan_store), "RECOURSE_STATE_DIR": str(tmp_path / "state"),
        "RECOURSE_WORKER_PORT": "0",
    }  # fmt: skip
    worker = Worker(tmp_path, settings)
    try:
        until(lambda: "running on" in worker.log.read_text())
        (line,) = (line for line in worker.log.read_text().splitlines() if "running on" in line)
        with httpx.Client(base_url=line.partition("running on ")[2].split()[0], timeout=30) as client:
            assert client.get("/health/live").json() == {"status": "live"}
            until(lambda: client.get("/health/ready").status_code == 200)
            metrics = client.get("/metrics").text
            for part in ("models", "lane", "ledger", "jobs"):
                assert f'recourse_ready{{part="{part}"}} 1.0' in metrics
            assert client.get("/models").status_code == 404, "it answers nothing else"
            assert client.post("/recourse", json={}).status_code == 404
        worker.stop()
    finally:
        worker.end()


def test_a_worker_is_not_open_to_other_machines_without_a_key(loan_store: Path, tmp_path: Path) -> None:
    settings = {"models_store": loan_store, "state_dir": tmp_path, "host": "0.0.0.0", "worker_port": 0}
    with pytest.raises(Open):
        work(Settings.model_validate(settings))
