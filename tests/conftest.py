"""A real service on a real port, with real child processes, for all tests that ask over HTTP."""

import asyncio
import inspect
import io
import resource
import shutil
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from app.settings import Settings

# What takes long to import is imported by the fixtures: the process that only hands out tests to others reads this too.
if TYPE_CHECKING:
    from fastapi import FastAPI

    from app.service import Service
    from tests.browser import Open

DEMO_STORE = Path(__file__).parents[1] / "models_store"

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Of clients: the services of the tests speak plain HTTP, and to read the certificates of this machine for each client
takes longer than most requests."""


@dataclass(frozen=True)
class Running:
    """A service that runs in a thread of this process."""

    url: str
    app: "FastAPI"

    @property
    def service(self) -> "Service":
        service: Service = self.app.state.service
        return service

    def until_loaded(self) -> None:
        """Wait until every child that answers requests has loaded the models."""
        lane = self.service._lane
        until(lambda: lane.warm == lane.size and not lane._cold and not lane.loading)


def until(condition: Callable[[], object], *, within_s: float = 120.0) -> None:
    """Wait for something to become true, on however busy a machine.

    It asks ever more rarely: a question is often a request, and takes processor time from what it waits for.
    """
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < within_s, "waited in vain"
        time.sleep(min(max(0.01, waited / 10), 0.25))


@contextmanager
def small_files(most_bytes: int) -> Iterator[None]:
    """No file of this process may become larger, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


OWN_SERVERS = {"start", "cluster", "odd_server"}
"""Fixtures that start servers for one test, or few."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests with servers of their own as slow."""
    for item in items:
        own_servers = isinstance(item, pytest.Function) and OWN_SERVERS & set(item.fixturenames)
        if own_servers and not item.get_closest_marker("release"):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an asynchronous test in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(pyfuncitem.obj(**given))
    return True


@pytest.fixture(scope="session")
def loan_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with `loan@1`, a linear model, and `open@1`, the same without limits: quickly loaded by every child."""
    from app.registry.registry import Registry
    from tests.registry.loan import make_linear

    root = tmp_path_factory.mktemp("loan")
    registry = Registry(root / "store")
    registry.register(make_linear(root / "loan").write())
    unlimited = make_linear(root / "open")
    for feature in unlimited.manifest["features"]:
        for limit in ("min", "max", "decimals"):
            feature.pop(limit, None)
    registry.register(unlimited.write(id="open"))
    return root / "store"


@pytest.fixture(scope="session")
def models_store(loan_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same and `odd@1`, which misbehaves. It is a pickle: every child imports pandas and scikit-learn."""
    from app.registry.registry import Registry
    from app.registry.trust import Trust
    from tests.api.odd_model import OddModel
    from tests.registry.loan import make_linear

    root = tmp_path_factory.mktemp("models")
    shutil.copytree(loan_store, root / "store")
    odd = make_linear(root / "odd")
    odd.records = [record for record in odd.records if record["age"] < 90]
    odd.set_artifact(_pickled(OddModel()), format="sklearn", path="model.joblib")
    registry = Registry(root / "store", Trust(pickle=True))
    registry.register(odd.write(id="odd", title="A model that misbehaves", input="raw"))
    return root / "store"


def _pickled(model: Any) -> bytes:
    import joblib

    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    return buffer.getvalue()


@pytest.fixture(scope="session")
def settings(models_store: Path) -> Settings:
    return Settings(models_store=models_store, trust_pickle=True, lanes_sync=2)


@pytest.fixture(scope="session")
def running(settings: Settings) -> Iterator[Running]:
    """The service, ready, its models loaded."""
    for running in run(settings):
        running.until_loaded()
        yield running


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The service with the demo model that comes with it, as a fresh clone starts it."""
    yield from run(Settings(models_store=DEMO_STORE, lanes_sync=1))


def run(settings: Settings) -> Iterator[Running]:
    """The service in a thread. It keeps jobs but computes none: that can be done once per process only.

    A request has more time than by default: it may come when a test has killed the children, and they take seconds to
    be warm again where others use the machine.
    """
    from app.main import create_app

    patience = {"default_deadline_ms": 25_000, "plan_budget_ms": 20_000}
    with tempfile.TemporaryDirectory() as state:
        own = {name: value for name, value in patience.items() if name not in settings.model_fields_set}
        sender = {"name": "Test Bank", "address": ("1 Street",), "contact": "credit@bank.example"}
        own |= {
            f"lender_{name}": said for name, said in sender.items() if f"lender_{name}" not in settings.model_fields_set
        }
        own |= {"run_jobs": False, "port": 0}
        if "state_dir" not in settings.model_fields_set:
            own["state_dir"] = Path(state)
        yield from _run(create_app(settings.model_copy(update=own)))


def _run(app: "FastAPI") -> Iterator[Running]:
    import uvicorn

    from app.main import server_config

    server = uvicorn.Server(server_config(app, app.state.service.settings))
    # A server that does not stop fails a test, and does not keep this process from ending.
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive())
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        with httpx.Client(base_url=url, timeout=30, verify=NO_TLS) as client:
            until(lambda: client.get("/health/ready").status_code == 200)
        yield Running(url, app)
    finally:
        server.should_exit = True
        thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def client(running: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.url, timeout=30, verify=NO_TLS) as client:
        yield client


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, for the tests of one file."""
    from tests.browser import chromium

    with chromium() as browser:
        yield browser


@pytest.fixture
def workbench(browser: Any, demo: Running) -> Iterator["Open"]:
    """The page of a service with the demo model; it takes jobs but computes none."""
    from tests.browser import workbench_of

    with workbench_of(browser, demo.url) as open_page:
        yield open_page
