"""The command ``recourse demo``."""

import _thread
import json
import os
import shlex
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from app.cli.common import CommandError, read_settings
from app.cli.serving import HostOption, PortOption, refuse_taken, start_children
from app.errors import UnknownModel
from app.recourse.shares import digits_apart, percent

if TYPE_CHECKING:
    import httpx

    from app.settings import Settings

READY_S = 120.0
"""How long the demo waits for the service to be ready."""

POLL_S = 0.25
"""Interval between two checks."""


def demo(host: HostOption = None, port: PortOption = None) -> None:
    """Start the service, send one example request, keep serving.

    The log is quiet, unless RECOURSE_LOG_LEVEL says otherwise.
    """
    from app.pool.child import LOG_LEVEL

    os.environ.setdefault(LOG_LEVEL, "warning")  # child processes inherit it
    settings = read_settings(host=host, port=port)
    refuse_taken(settings.host, settings.port)
    start_children()
    _refuse_missing_demo(settings)
    if settings.port == 0:
        settings = settings.model_copy(update={"port": _free_port(settings.host)})
    typer.echo("Starting the service with the demo model…")
    from app.main import serve as run

    question = _Question(_url(settings))
    threading.Thread(target=question.run, name="demo", daemon=True).start()
    run(settings)
    if question.failure is not None:
        raise question.failure


def _refuse_missing_demo(settings: "Settings") -> None:
    from app.api.examples import DEMO_MODEL
    from app.registry.registry import Registry

    try:
        Registry(settings.models_store).find(DEMO_MODEL)
    except UnknownModel as error:
        raise CommandError(
            f"The demo needs {DEMO_MODEL}, which is not in {settings.models_store.absolute()}: start it in the "
            "directory of the repository, or set RECOURSE_MODELS_STORE."
        ) from error


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _url(settings: "Settings") -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - compared, not bound
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


@dataclass(slots=True)
class _Question:
    """The demo's client: calls the service in the main thread, and stops it if the call fails."""

    url: str
    failure: CommandError | None = field(default=None, init=False)

    def run(self) -> None:
        """Send the example request and print the answer; a failure ends the service."""
        import httpx

        try:
            with httpx.Client(base_url=self.url, timeout=30.0, trust_env=False) as client:
                typer.echo(self._ask(client))
        except (httpx.HTTPError, CommandError) as error:
            self.failure = error if isinstance(error, CommandError) else CommandError(f"The demo failed: {error!r}")
            _thread.interrupt_main()

    def _ask(self, client: "httpx.Client") -> str:
        import httpx

        from app.api.examples import DEMO_MODEL

        self._wait(client)
        described = client.get(f"/models/{DEMO_MODEL}/schema")
        if described.status_code == httpx.codes.UNAUTHORIZED:
            return f"\nThis service requires an API key, so the demo sends no request.{_pages(self.url)}"
        schema, model = _json(described), _json(client.get(f"/models/{DEMO_MODEL}"))
        body = {"model": DEMO_MODEL, "applicant": schema["sample"]}
        return _summary(self.url, schema, model["threshold"], body, _json(client.post("/recourse", json=body)))

    def _wait(self, client: "httpx.Client") -> None:
        import httpx

        until, reason = time.monotonic() + READY_S, "it does not listen"
        while time.monotonic() < until:
            try:
                response = client.get("/health/ready")
            except httpx.TransportError:
                pass
            else:
                if response.is_success:
                    return
                reason = response.text
            time.sleep(POLL_S)
        raise CommandError(f"The demo failed: the service was not ready within {READY_S:g} s: {reason}")


def _json(response: "httpx.Response") -> Any:
    if response.is_success:
        return response.json()
    raise CommandError(f"The demo failed: {response.request.url} answered {response.status_code}: {response.text}")


def _summary(url: str, schema: dict[str, Any], threshold: float, body: dict[str, Any], answer: dict[str, Any]) -> str:
    """The answer as text, and a command that repeats the request."""
    factual, found = answer["factual"], answer["counterfactuals"]
    decisions = [factual, *(one["validity"]["current"] for one in found)]
    digits = digits_apart(threshold, [decision["probability"] for decision in decisions])
    needed = percent(threshold, digits)
    lines = [
        "",
        f"{answer['model']['id']} says yes from a probability of {needed}%. It decides on this applicant:",
    ]
    features = {feature["name"]: feature for feature in schema["features"]}
    width = 2 + max(len(feature["label"]) for feature in features.values())
    lines += [
        f"    {features[name]['label']:<{width}}{_value(value, features[name]['unit'])}"
        for name, value in body["applicant"].items()
    ]
    lines += ["", f"Decision: {_decision(factual, digits)}."]
    for counterfactual in found:
        lines += ["", f"Decision after these changes: {_decision(counterfactual['validity']['current'], digits)}."]
        lines += [f"    {change['text']}" for change in counterfactual["changes"]]
        if future := counterfactual["validity"]["future"]:
            lines += [future["promise"]]
    if not found and answer["detail"]:
        lines += [answer["detail"]]
    curl = f"curl -s {url}/recourse -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"
    lines += ["", "The same request from another terminal:", "", curl]
    return "\n".join(lines) + _pages(url)


def _pages(url: str) -> str:
    """Where to go next."""
    return "\n".join(["", "", f"Open the page: {url}/workbench", f"Every request: {url}/docs", "Stop with Ctrl-C.", ""])


def _value(value: Any, unit: str | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,.10g}{'' if unit is None else '%' if unit == '%' else f' {unit}'}"


def _decision(decision: dict[str, Any], digits: int) -> str:
    word, share = "yes" if decision["favourable"] else "no", decision["probability"]
    return word if share is None else f"{word} (probability {percent(share, digits)}%)"
