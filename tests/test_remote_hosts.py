"""Which hosts and which addresses an operator has allowed."""

import pytest
from pydantic import ValidationError

from app.remote_hosts import RemoteHost, covering
from app.settings import Settings


@pytest.mark.parametrize(
    ("entry", "scheme", "host", "port", "covered"),
    [
        ("models.example.com", "https", "models.example.com", 443, True),
        ("models.example.com", "https", "models.example.com", 8443, False),
        ("models.example.com", "http", "models.example.com", 80, False),
        ("models.example.com", "http", "models.example.com", 443, False),
        ("models.example.com", "https", "example.com", 443, False),
        ("models.example.com", "https", "a.models.example.com", 443, False),
        ("models.example.com", "https", "models.example.com.", 443, False),
        ("Models.Example.com:8443", "https", "models.example.com", 8443, True),
        ("*.example.com", "https", "models.example.com", 443, True),
        ("*.example.com", "https", "a.b.example.com", 443, True),
        ("*.example.com", "https", "example.com", 443, False),
        ("*.example.com", "https", "evil-example.com", 443, False),
        ("*.example.com", "https", "example.com.evil.org", 443, False),
        ("http://inner:8080=10.0.0.0/8", "http", "inner", 8080, True),
        ("http://inner:8080=10.0.0.0/8", "https", "inner", 8080, True),
        ("http://inner", "http", "inner", 80, True),
        ("[::1]:9000=::1", "https", "::1", 9000, True),
    ],
)
def test_an_entry_covers_its_hosts_only(entry: str, scheme: str, host: str, port: int, covered: bool) -> None:
    assert RemoteHost.parse(entry).covers(scheme, host, port) is covered


INWARD = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "224.0.0.1", "255.255.255.255", "192.0.2.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1",
    "fec0::1",
    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
    "::127.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("address", INWARD)
def test_addresses_that_only_we_can_reach_are_not_permitted(address: str) -> None:
    assert not RemoteHost.parse("models.example.com").permits(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822"])
def test_public_addresses_are(address: str) -> None:
    assert RemoteHost.parse("models.example.com").permits(address)


def test_a_range_permits_its_addresses_and_no_others() -> None:
    host = RemoteHost.parse("inner:8080=10.3.0.0/16+fd00:1::/64")
    assert [host.permits(address) for address in ("10.3.7.7", "fd00:1::9", "::ffff:10.3.0.1")] == [True] * 3
    assert not any(host.permits(address) for address in ("10.4.0.1", "127.0.0.1", "93.184.216.34", "fd00:2::1"))


@pytest.mark.parametrize(
    "entry",
    ["", "ftp://a", "https://", "a b", "a:99999", "a:0", "a=10.0.0.1/8", "a=nonsense", "a/path", "*", "u@a", "*.*.a"],
)
def test_nonsense_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        RemoteHost.parse(entry)


def test_the_setting_is_a_list_with_spaces_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOURSE_REMOTE_HOSTS", "  a.example.com\n*.b.example.com:8443 ")
    hosts = Settings().remote_hosts
    assert [(host.host, host.port) for host in hosts] == [("a.example.com", 443), ("*.b.example.com", 8443)]
    assert covering(hosts, "https", "x.b.example.com", 8443) is hosts[1]
    assert covering(hosts, "https", "b.example.com", 8443) is None


def test_a_setting_with_a_mistake_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOURSE_REMOTE_HOSTS", "a.example.com http://[")
    with pytest.raises(ValidationError, match="is not of the form"):
        Settings()


def test_nobody_may_be_asked_unless_it_is_said() -> None:
    assert Settings(remote_hosts=()).remote_hosts == ()
    assert covering((), "https", "models.example.com", 443) is None
