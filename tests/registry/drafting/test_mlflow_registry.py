"""A model by its name in an MLflow registry, where MLflow is installed; elsewhere the error says what to install."""

import importlib.util
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.commands import cli
from app.errors import ModelRefused
from app.registry.drafting.mlflow_directory import fetched
from tests.optional import library
from tests.registry.drafting.lender import trained_mlflow

INSTALLED = importlib.util.find_spec("mlflow") is not None


@pytest.mark.skipif(INSTALLED, reason="MLflow is installed here")
def test_without_mlflow_a_name_of_a_registry_says_what_to_install() -> None:
    said = "models:/loan/3 is a name of MLflow, whose library is not installed here: pip install mlflow-skinny"
    with pytest.raises(ModelRefused, match=said), fetched("models:/loan/3"):
        pass


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty registry in files."""
    mlflow = library("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file:{tmp_path / 'mlruns'}")
    return tmp_path


def test_a_registered_version_is_drafted(registry: Path) -> None:
    mlflow = library("mlflow")
    trained = trained_mlflow()
    client = mlflow.MlflowClient()
    client.create_registered_model("loan")
    client.create_model_version("loan", source=str(trained.write(registry)))
    trained.lender.write(registry / "loans.csv")
    command = ["models", "draft", str(registry / "loans.csv"), "--model=models:/loan/1", f"--out={registry / 'loan'}"]
    done = CliRunner().invoke(cli, [*command, "--label=outcome", "--favourable=good"])
    assert done.exit_code == 0, done.output
    assert "It registers" in done.output


def test_a_version_that_does_not_exist_is_named(registry: Path) -> None:
    with pytest.raises(ModelRefused, match=r"models:/loan/9 cannot be fetched"), fetched("models:/loan/9"):
        pass
