"""Remote models: what is sent, how answers are read, where connections go, and what a server can do wrong."""

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import (
    BudgetExceeded,
    DeadlineExceeded,
    ModelOutputInvalid,
    ModelRefused,
    ModelUnavailable,
    ModelUnusable,
    RecourseError,
)
from app.recourse.actions.action_set import action_set
from app.recourse.models.black_box import BlackBox
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult, Status
from app.recourse.solve import MAX_CALLS, METHODS
from app.recourse.solve_many import solve_many
from app.registry.adapters import wire
from app.registry.artifact import PINS
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.registry.version import LoadedModel
from app.remote_hosts import RemoteHost
from tests.conftest import until
from tests.registry.loan import loan_records
from tests.remote.server import SECRET, of_record
from tests.remote.serving import ModelServer, make_remote, serving, shared

Refusal = Callable[[Path], dict[str, str]]
FRESH = loan_records(60, seed=1)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A server that behaves well, until it is told otherwise."""
    server = shared()
    server.behave()
    yield server
    server.behave()


@pytest.fixture
def store(tmp_path: Path, server: ModelServer) -> Registry:
    return Registry(tmp_path / "store", Trust(hosts=server.hosts))


def loaded(store: Registry, path: Path, server: ModelServer, *kind: str, **artifact: Any) -> LoadedModel:
    """A registered and loaded remote model; the server has forgotten its registration."""
    model = store.register(make_remote(path, server, *kind, **artifact).write()).load()
    server.behave()
    return model


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """A model of each protocol, for tests that ask but do not register."""
    root, server = tmp_path_factory.mktemp("installed"), shared()
    registry = Registry(root / "store", Trust(hosts=server.hosts))
    for protocol in ("oip-v2", "mlflow"):
        server.behave()
        registry.register(make_remote(root / protocol, server, protocol, "raw").write(id=protocol))
    return registry


@pytest.fixture
def black_box(installed: Registry, server: ModelServer) -> BlackBox:
    return installed.find("oip-v2").load().black_box


def rows(black_box: BlackBox) -> np.ndarray:
    return black_box.space.read_many(FRESH, pointer="")


def further(black_box: BlackBox, times: int) -> np.ndarray:
    """So many times other records, since a meter asks about none twice."""
    many = np.concatenate([rows(black_box)] * times)
    many[:, black_box.space.numeric[0]] = np.arange(times * 1_000, times * 1_000 + len(many))
    return many


# --- what is sent, and how answers are read --------------------------------------------------------------------------


def test_a_request_carries_pins_and_records_as_the_protocol_says(
    store: Registry, tmp_path: Path, server: ModelServer
) -> None:
    black_box = loaded(store, tmp_path / "source", server, "oip-v2", "raw", datatype="FP32").black_box
    black_box.score_raw(rows(black_box)[:1])
    (asked,) = server.asked()
    assert asked["body"]["outputs"] == [{"name": "p"}]
    tensors = {tensor["name"]: tensor for tensor in asked["body"]["inputs"]}
    assert {name: tensor["datatype"] for name, tensor in tensors.items()} == {
        "age": "INT64", "income": "FP32", "amount": "FP32", "savings": "BYTES", "guarantor": "BOOL", "housing": "BYTES",
    }  # fmt: skip
    assert all(tensor["shape"] == [PINS + 1, 1] for tensor in tensors.values())
    record = {name: tensor["data"][PINS] for name, tensor in tensors.items()}
    assert record == FRESH[0] | {name: float(np.float32(FRESH[0][name])) for name in ("income", "amount")}


def test_mlflow_gets_a_table_of_records(store: Registry, tmp_path: Path, server: ModelServer) -> None:
    black_box = loaded(store, tmp_path / "source", server, "mlflow", "raw").black_box
    black_box.score_raw(rows(black_box)[:2])
    (asked,) = server.asked()
    table = asked["body"]["dataframe_split"]
    assert [dict(zip(table["columns"], row, strict=True)) for row in table["data"][PINS:]] == FRESH[:2]


SHAPES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("oip-v2", {"is": "well"}, {}),
    ("oip-v2", {"is": "column"}, {}),
    ("oip-v2", {"is": "two"}, {}),
    ("oip-v2", {"is": "two", "nested": True}, {"column": 1}),
    ("mlflow", {"is": "well"}, {}),
    ("mlflow", {"is": "two"}, {}),
    ("mlflow", {"is": "well", "named": True}, {"output_name": "yes"}),
    ("mlflow", {"is": "well", "columns": True}, {"output_name": "yes"}),
    ("mlflow", {"is": "well", "columns": True}, {}),
]


@pytest.mark.parametrize(("protocol", "mode", "artifact"), SHAPES, ids=str)
def test_every_shape_of_an_answer_is_the_same_answer(
    store: Registry, tmp_path: Path, server: ModelServer, protocol: str, mode: dict[str, Any], artifact: dict[str, Any]
) -> None:
    server.behave(mode.pop("is"), **mode)
    model = make_remote(tmp_path / "source", server, protocol, "raw", **artifact)
    black_box = store.register(model.write()).load().black_box
    expected = np.array([of_record(record) for record in FRESH])
    np.testing.assert_allclose(black_box.probability(black_box.score_raw(rows(black_box))), expected, atol=1e-12)


@pytest.mark.parametrize("protocol", ["oip-v2", "mlflow"])
def test_labels_are_compared_with_the_favourable_one(
    store: Registry, tmp_path: Path, server: ModelServer, protocol: str
) -> None:
    server.behave("labels", names=["bad", "good"])
    model = make_remote(tmp_path / "source", server, protocol, "raw")
    black_box = store.register(model.write(output="label", favourable="good")).load().black_box
    expected = [1.0 if of_record(record) >= 0.5 else -1.0 for record in FRESH]
    np.testing.assert_array_equal(black_box.score_raw(rows(black_box)), expected)


def test_the_unfavourable_class_is_turned_around(store: Registry, tmp_path: Path, server: ModelServer) -> None:
    black_box = store.register(make_remote(tmp_path / "a", server).write(favourable=0)).load().black_box
    other = store.register(make_remote(tmp_path / "b", server).write(version="2")).load().black_box
    np.testing.assert_allclose(black_box.score_raw(rows(black_box)), -other.score_raw(rows(other)), atol=1e-9)


def test_many_records_go_out_in_batches_over_one_connection(
    store: Registry, tmp_path: Path, server: ModelServer
) -> None:
    black_box = loaded(store, tmp_path / "source", server, max_batch=32).black_box
    scores = black_box.score_raw(rows(black_box))
    asked = server.asked()
    assert [request["rows"] for request in asked] == [32, 32, 60 - 48 + PINS]
    assert len({request["from"] for request in asked}) == 1
    assert {request["host"] for request in asked} == {f"127.0.0.1:{server.port}"}
    single = np.concatenate([black_box.score_raw(row[None]) for row in rows(black_box)])
    np.testing.assert_array_equal(scores, single)


def test_registration_asks_once_for_the_reference_records_and_once_for_the_categories(
    store: Registry, tmp_path: Path, server: ModelServer
) -> None:
    model = store.register(make_remote(tmp_path / "source", server).write())
    assert [request["rows"] for request in server.asked()] == [200, 8]
    server.behave()
    model.load()
    assert server.asked() == []


# --- which model it is -----------------------------------------------------------------------------------------------


def test_the_digest_is_that_of_the_description(store: Registry, tmp_path: Path, server: ModelServer) -> None:
    one = store.register(make_remote(tmp_path / "a", server).write())
    other = store.register(make_remote(tmp_path / "b", server, timeout_s=9).write(version="2"))
    assert len(one.sha256) == 64
    assert one.sha256 != other.sha256
    assert store.find("loan@1").sha256 == one.sha256


def test_a_model_that_was_exchanged_is_not_used(black_box: BlackBox, server: ModelServer) -> None:
    server.behave("other model", after=1)
    black_box.score_raw(rows(black_box))
    with pytest.raises(ModelUnusable, match="another model that answers"):
        black_box.score_raw(rows(black_box))


# --- secrets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("header", "sent"), [(None, f"Bearer {SECRET}"), ("X-Key", SECRET)])
def test_a_secret_is_sent_and_never_stored(
    store: Registry, tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch, header: str, sent: str
) -> None:
    monkeypatch.setenv("RECOURSE_SECRET_LOAN", SECRET)
    model = make_remote(tmp_path / "source", server, secret="RECOURSE_SECRET_LOAN", secret_header=header)
    registered = store.register(model.write())
    assert {request["secret"] for request in server.asked()} == {sent}
    assert not any(SECRET.encode() in path.read_bytes() for path in registered.directory.iterdir())


@pytest.mark.parametrize("value", [None, "", "a\r\nHost: b", "ü", " "])
def test_a_secret_that_cannot_be_sent_is_a_fault(
    refusal: Refusal, tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("RECOURSE_SECRET_LOAN", raising=False)
    if value is not None:
        monkeypatch.setenv("RECOURSE_SECRET_LOAN", value)
    faults = refusal(make_remote(tmp_path / "source", server, secret="RECOURSE_SECRET_LOAN").write())
    assert "RECOURSE_SECRET_LOAN" in faults["/artifact/format"]
    assert server.asked() == []


# --- what is refused at registration ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("artifact", "pointer", "sentence"),
    [
        ({"url": "ftp://127.0.0.1/x"}, "/artifact/url", "https://"),
        ({"url": "http://me:pw@127.0.0.1/x"}, "/artifact/url", "no user"),
        ({"url": "http://127.0.0.1/x#y"}, "/artifact/url", "no #"),
        ({"url": "http://127.0.0.1/x\r\nHost: y"}, "/artifact/url", "U+000D"),
        ({"url": "http://127.0.0.1:99999/x"}, "/artifact/url", "ort"),
        ({"url": None}, "/artifact/url", "is missing"),
        ({"protocol": "grpc"}, "/artifact/protocol", "oip-v2"),
        ({"output_name": None}, "/artifact/output_name", "is missing"),
        ({"secret": "DATABASE_PASSWORD"}, "/artifact/secret", "RECOURSE_SECRET_"),
        ({"secret_header": "X-Key"}, "/artifact/secret_header", "belongs to a secret"),
        ({"secret": "RECOURSE_SECRET_X", "secret_header": "Host"}, "/artifact/secret_header", "must not be a header"),
        (
            {"secret": "RECOURSE_SECRET_X", "secret_header": "content-Length"},
            "/artifact/secret_header",
            "must not be a header",
        ),
        ({"max_batch": 3}, "/artifact/max_batch", "16"),
        ({"sha256": "0" * 64}, "/artifact/sha256", "not a key"),
        ({"protocol": "mlflow", "input_name": "x"}, "/artifact/input_name", "belongs to the protocol oip-v2"),
    ],
    ids=str,
)
def test_a_faulty_description_is_refused(
    refusal: Refusal, tmp_path: Path, server: ModelServer, artifact: dict[str, Any], pointer: str, sentence: str
) -> None:
    assert sentence in refusal(make_remote(tmp_path / "source", server, **artifact).write())[pointer]
    assert server.asked() == []


def test_a_probability_needs_to_know_its_class(refusal: Refusal, tmp_path: Path, server: ModelServer) -> None:
    faults = refusal(make_remote(tmp_path / "source", server).write(favourable="good"))
    assert "must be 1, or 0" in faults["/favourable"]


@pytest.mark.parametrize(
    ("how", "pointer", "sentence"),
    [
        ({"is": "garbage"}, "/artifact", "something else than its protocol"),
        ({"is": "shape"}, "/artifact", "200 values in the shape [200, 3]"),
        ({"is": "few"}, "/artifact", "199 values"),
        ({"is": "nan"}, "/artifact", "no finite output for 1 of 200"),
        ({"is": "too much"}, "/artifact", "outside [0, 1]"),
        ({"is": "name"}, "/artifact", 'without an output "p"'),
        ({"is": "hanging up"}, "/artifact/url", "hung up"),
        ({"is": "status", "status": 503}, "/artifact/url", "status 503"),
        ({"is": "status", "status": 500}, "/artifact", "status 500"),
        ({"is": "slow"}, "/artifact/url", "did not answer within 0.3 s"),
        ({"is": "status", "status": 400, "after": 1}, "/features/5", 'cannot take "owned"'),
    ],
    ids=str,
)
def test_a_server_that_misbehaves_at_registration_leaves_nothing(
    refusal: Refusal, tmp_path: Path, server: ModelServer, how: dict[str, Any], pointer: str, sentence: str
) -> None:
    kind = how["is"]
    server.behave(kind, **{name: value for name, value in how.items() if name != "is"})
    timeout_s = 0.3 if kind == "slow" else 30
    assert sentence in refusal(make_remote(tmp_path / "source", server, timeout_s=timeout_s).write())[pointer]


def test_a_server_that_is_not_there_leaves_nothing(refusal: Refusal, tmp_path: Path, server: ModelServer) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        store_hosts = (RemoteHost.parse(f"http://127.0.0.1:{port}=127.0.0.1"),)
        registry = Registry(tmp_path / "other", Trust(hosts=store_hosts))
        model = make_remote(tmp_path / "source", server, url=f"http://127.0.0.1:{port}/x")
        with pytest.raises(ModelRefused) as caught:
            registry.register(model.write())
    assert [fault.pointer for fault in caught.value.faults] == ["/artifact/url"]
    assert list(registry.root.rglob("*")) == []


# --- a server that misbehaves afterwards -----------------------------------------------------------------------------

MISBEHAVING: list[tuple[str, dict[str, Any], type[RecourseError]]] = [
    ("garbage", {}, ModelOutputInvalid),
    ("nested", {}, ModelOutputInvalid),
    ("huge", {}, ModelOutputInvalid),
    ("shape", {}, ModelOutputInvalid),
    ("few", {}, ModelOutputInvalid),
    ("text", {}, ModelOutputInvalid),
    ("name", {}, ModelOutputInvalid),
    ("hanging up", {}, ModelUnavailable),
    ("status", {"status": 400}, ModelOutputInvalid),
    ("status", {"status": 500}, ModelOutputInvalid),
    ("status", {"status": 401}, ModelUnavailable),
    ("status", {"status": 404}, ModelUnavailable),
    ("status", {"status": 429}, ModelUnavailable),
    ("status", {"status": 502}, ModelUnavailable),
    ("status", {"status": 302, "location": "http://169.254.169.254/latest/meta-data"}, ModelUnavailable),
    ("status", {"status": 307, "location": "/v2/models/encoded/infer"}, ModelUnavailable),
]


@pytest.mark.parametrize(("how", "mode", "error"), MISBEHAVING, ids=str)
@pytest.mark.parametrize("protocol", ["oip-v2", "mlflow"])
def test_misbehaviour_is_one_typed_error_after_one_request(
    installed: Registry, server: ModelServer, protocol: str, how: str, mode: dict[str, Any], error: type
) -> None:
    if (protocol, how) in (("mlflow", "name"), ("mlflow", "shape")):
        pytest.skip("there are no names and no shapes in this protocol")
    black_box = installed.find(protocol).load().black_box
    server.behave(how, **mode)
    with pytest.raises(error) as caught:
        black_box.score_raw(rows(black_box))
    assert len(server.asked()) == 1
    said = str(caught.value) + json.dumps(caught.value.facts)
    assert not any(str(record["income"]) in said for record in FRESH)
    # The next one finds a server that behaves again.
    server.behave()
    black_box.score_raw(rows(black_box))


def test_a_record_without_a_number_has_no_score(black_box: BlackBox, server: ModelServer) -> None:
    server.behave("nan")
    scores = black_box.score_raw(rows(black_box))
    assert np.isnan(scores).tolist() == [False] * 59 + [True]


def test_a_server_says_when_to_come_back(black_box: BlackBox, server: ModelServer) -> None:
    server.behave("status", status=503, retry_after="7")
    with pytest.raises(ModelUnavailable) as caught:
        black_box.score_raw(rows(black_box))
    assert caught.value.facts == {"retry_after_s": 7}


def test_a_server_that_dies_in_the_middle_is_unavailable(tmp_path: Path) -> None:
    with serving() as server:
        registry = Registry(tmp_path / "store", Trust(hosts=server.hosts))
        black_box = registry.register(make_remote(tmp_path / "source", server).write()).load().black_box
        server.behave("dying")
        with pytest.raises(ModelUnavailable, match="hung up"):
            black_box.score_raw(rows(black_box))
        # Until its port is closed a new connection may still be taken, and cut off.
        until(server.gone)
        with pytest.raises(ModelUnavailable, match="cannot be reached"):
            black_box.score_raw(rows(black_box))


@pytest.mark.parametrize("how", ["slow", "dripping"])
def test_a_deadline_holds_whatever_the_server_does(black_box: BlackBox, server: ModelServer, how: str) -> None:
    server.behave(how)
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        Meter(black_box, began + 0.3).score_raw(rows(black_box))
    assert 0.25 < time.monotonic() - began < 10.0


def test_a_server_slower_than_its_own_limit_is_unavailable(
    store: Registry, tmp_path: Path, server: ModelServer
) -> None:
    black_box = loaded(store, tmp_path / "source", server, timeout_s=2.0).black_box
    server.behave("slow")
    with pytest.raises(ModelUnavailable, match="within 2 s"):
        Meter(black_box, time.monotonic() + 60.0).score_raw(rows(black_box))


def test_the_deadline_holds_while_a_name_is_resolved(black_box: BlackBox, monkeypatch: pytest.MonkeyPatch) -> None:
    released = socket.socketpair()
    monkeypatch.setattr(wire, "lookup", lambda host, port: [released[0].recv(1).decode()])
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        Meter(black_box, began + 0.2).score_raw(rows(black_box))
    assert time.monotonic() - began < 10.0
    for end in released:
        end.close()


# --- what is tried again ---------------------------------------------------------------------------------------------


def test_connecting_is_tried_again_and_sending_is_not(
    black_box: BlackBox, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, tries = wire.httpcore.SyncBackend.connect_tcp, []

    def stumbling(self: Any, *args: Any, **options: Any) -> Any:
        tries.append(args)
        if len(tries) == 1:
            raise wire.httpcore.ConnectError
        return connect(self, *args, **options)

    monkeypatch.setattr(wire.httpcore.SyncBackend, "connect_tcp", stumbling)
    black_box.score_raw(rows(black_box))
    assert len(tries) == 2
    assert len(server.asked()) == 1


def test_the_next_address_of_a_host_is_tried(
    store: Registry, tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolving(monkeypatch, "127.0.0.2", "127.0.0.1")
    registry = named_host(tmp_path, server, "127.0.0.0/8")
    registry.register(make_remote(tmp_path / "source", server, url=named_url(server)).write())
    assert {request["host"] for request in server.asked()} == {f"models.example.com:{server.port}"}


# --- where connections go --------------------------------------------------------------------------------------------


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Let every name resolve to these addresses; the names that were asked for."""
    names: list[str] = []

    def lookup(host: str, port: int) -> list[str]:
        names.append(host)
        return list(addresses)

    monkeypatch.setattr(wire, "lookup", lookup)
    return names


def named_url(server: ModelServer) -> str:
    return f"http://models.example.com:{server.port}/v2/models/encoded/infer"


def named_host(tmp_path: Path, server: ModelServer, ranges: str = "") -> Registry:
    entry = f"http://models.example.com:{server.port}{ranges and '='}{ranges}"
    return Registry(tmp_path / "named", Trust(hosts=(RemoteHost.parse(entry),)))


def refused(registry: Registry, source: Path) -> str:
    with pytest.raises(ModelRefused) as caught:
        registry.register(source)
    (fault,) = caught.value.faults
    assert fault.pointer == "/artifact/url"
    return fault.detail


def test_a_host_that_is_not_allowed_is_not_asked(tmp_path: Path, server: ModelServer) -> None:
    source = make_remote(tmp_path / "source", server).write()
    for hosts in ((), (RemoteHost.parse("http://127.0.0.1:1=127.0.0.1"),), (RemoteHost.parse("127.0.0.1=127.0.0.1"),)):
        assert "does not allow" in refused(Registry(tmp_path / "store", Trust(hosts=hosts)), source)
    assert server.asked() == []


def test_a_host_that_is_allowed_no_longer_makes_the_model_unusable(
    store: Registry, tmp_path: Path, server: ModelServer
) -> None:
    store.register(make_remote(tmp_path / "source", server).write())
    with pytest.raises(ModelUnusable, match="RECOURSE_REMOTE_HOSTS does not allow"):
        Registry(store.root).find("loan").load()


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_a_name_that_resolves_inward_is_refused(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    resolving(monkeypatch, address)
    source = make_remote(tmp_path / "source", server, url=named_url(server)).write()
    assert "no address that RECOURSE_REMOTE_HOSTS allows" in refused(named_host(tmp_path, server), source)
    assert server.asked() == []


def test_a_range_opens_its_addresses_and_no_others(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_remote(tmp_path / "source", server, url=named_url(server)).write()
    resolving(monkeypatch, "127.0.0.1")
    assert "no address" in refused(named_host(tmp_path, server, "10.0.0.0/8"), source)
    named_host(tmp_path, server, "127.0.0.1/32").register(source)
    assert {request["host"] for request in server.asked()} == {f"models.example.com:{server.port}"}


def test_a_name_is_resolved_once_for_a_connection_and_the_checked_address_is_used(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the second answer would lead elsewhere, but there is no second question."""
    registry = named_host(tmp_path, server, "127.0.0.1/32")
    source = make_remote(tmp_path / "source", server, url=named_url(server)).write()
    names = resolving(monkeypatch, "127.0.0.1", "169.254.169.254")
    connected: list[Any] = []
    connect = wire.httpcore.SyncBackend.connect_tcp
    monkeypatch.setattr(
        wire.httpcore.SyncBackend, "connect_tcp",
        lambda self, *a, **k: connected.append(a[0]) or connect(self, *a, **k),
    )  # fmt: skip
    registry.register(source)
    assert names == ["models.example.com"]
    assert connected == ["127.0.0.1"]


def test_the_environments_proxy_is_not_used(
    black_box: BlackBox, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    black_box.score_raw(rows(black_box))
    assert len(server.asked()) == 1


def test_https_is_checked_against_the_systems_certificates(tmp_path: Path, server: ModelServer) -> None:
    host = RemoteHost.parse("127.0.0.1:9=127.0.0.1")
    pool = wire.Wire("https://127.0.0.1:9/x", host, {})._pool
    context = pool._ssl_context
    assert isinstance(context, ssl.SSLContext)
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


# --- what an answer may cost -----------------------------------------------------------------------------------------


def test_the_meter_stops_before_a_request_beyond_the_budget(
    store: Registry, tmp_path: Path, server: ModelServer
) -> None:
    black_box = loaded(store, tmp_path / "source", server, max_calls=3, max_batch=60 + PINS).black_box
    meter = Meter(black_box)
    meter.score_raw(rows(black_box))
    with pytest.raises(BudgetExceeded):  # 3 requests
        meter.score_raw(further(black_box, 3))
    meter.score_raw(further(black_box, 2))
    assert len(server.asked()) == 3
    with pytest.raises(BudgetExceeded):
        meter.score_raw(further(black_box, 1)[:1])
    Meter(black_box).score_raw(rows(black_box)[:1])


def test_records_that_pin_the_model_are_paid_for_too(store: Registry, tmp_path: Path, server: ModelServer) -> None:
    black_box = loaded(store, tmp_path / "source", server, max_rows=2 * (60 + PINS) - 1).black_box
    meter = Meter(black_box)
    meter.score_raw(rows(black_box))
    with pytest.raises(BudgetExceeded):
        meter.score_raw(further(black_box, 1))
    assert [request["rows"] for request in server.asked()] == [60 + PINS]


def test_applicants_of_a_batch_share_requests(installed: Registry, server: ModelServer) -> None:
    model = installed.find("oip-v2").load()
    refused = rows(model.black_box)[model.black_box.score_raw(rows(model.black_box)) < 0.0][:8]
    problems = [
        RecourseProblem(
            black_box=model.black_box, reference=model.reference, action_set=action_set(model.black_box.space, row_raw)
        )
        for row_raw in refused
    ]
    server.behave()
    outcomes = solve_many(problems, METHODS["robust_mpm"], METHODS["robust_mpm"].params(), deadline_s=10.0)
    assert all(isinstance(one, RecourseResult) and one.status is Status.FOUND for one in outcomes)
    assert len(server.asked()) <= MAX_CALLS
