"""Settings come from the environment."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import Settings, unknown_settings


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"RECOURSE_{name.upper()}", raising=False)


def test_nothing_needs_to_be_set() -> None:
    settings = Settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.lanes_sync >= 1
    assert settings.trust_pickle is False


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOURSE_MODELS_STORE", "/srv/models")
    monkeypatch.setenv("RECOURSE_LANES_SYNC", "3")
    monkeypatch.setenv("RECOURSE_TRUST_PICKLE", "true")
    monkeypatch.setenv("RECOURSE_PORT", "")  # as docker compose passes what is not set
    settings = Settings()
    assert (settings.models_store, settings.lanes_sync, settings.port) == (Path("/srv/models"), 3, 8000)
    assert settings.trust_pickle is True


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "70000"),
        ("LANES_SYNC", "0"),
        ("DEFAULT_DEADLINE_MS", "soon"),
        ("EXECUTOR_ID", "a b"),
        ("DATABASE_URL", "mysql://root:secret@h/n"),
        ("CORS_ORIGINS", "example.com"),
        ("CORS_ORIGINS", "https://example.com/"),
        ("CORS_ORIGINS", "https://a.example, https://B.example"),
    ],
)
def test_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"RECOURSE_{name}", value)
    with pytest.raises(ValidationError):
        Settings()


def test_origins_are_those_that_a_browser_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOURSE_CORS_ORIGINS", "https://a.example, http://127.0.0.1:3000,http://[::1]:80")
    assert Settings().cors_origins == ("https://a.example", "http://127.0.0.1:3000", "http://[::1]:80")
    monkeypatch.setenv("RECOURSE_CORS_ORIGINS", "*")
    assert Settings().cors_origins == ("*",)


def test_a_misspelt_setting_is_found() -> None:
    names = ["RECOURSE_PORT", "RECOURSE_SECRET_BANK", "RECOURSE_PROT", "PATH", "recourse_port"]
    assert unknown_settings(names) == ["RECOURSE_PROT"]


def test_every_setting_is_described() -> None:
    assert all(field.description for field in Settings.model_fields.values())


def test_the_address_of_the_database_is_not_told() -> None:
    settings = Settings.model_validate({"database_url": "postgresql://me:secret@h/n"})
    assert "secret" not in repr(settings)


def test_an_address_that_cannot_be_read_is_refused_without_its_password() -> None:
    with pytest.raises(ValidationError, match="must be of the form postgresql://") as caught:
        Settings.model_validate({"database_url": "postgresql://me:secret@h:54x2/n"})
    assert "54x2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("postgresql://me:sec@ret@h/n", "must have %40 in place of each @"),
        ("postgresql://me:secret@h", "must end with the name of the database"),
    ],
)
def test_an_address_that_means_another_host_or_database_is_refused(url: str, sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence) as caught:
        Settings.model_validate({"database_url": url})
    assert "ret@" not in str(caught.value)
    assert Settings.model_validate({"database_url": "postgresql:///n?host=/var/run/postgresql"})
    assert "secret" not in str(caught.value)
