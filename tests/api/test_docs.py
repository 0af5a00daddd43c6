"""The documentation works without internet and under a strict policy."""

import base64
import hashlib
import re

import httpx
import pytest

PAGES = ["/docs", "/redoc"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_loads_nothing_from_elsewhere(client: httpx.Client, path: str) -> None:
    page = client.get(path)
    assert page.headers["content-type"].startswith("text/html")
    addresses = re.findall(r"""(?:src|href|url|spec-url)\s*[=:]\s*["']([^"']+)""", page.text)
    assert any(address.endswith(".js") for address in addresses)
    for address in addresses:
        assert address.startswith("/"), address
        assert client.get(address).status_code == 200
    assert "http://" not in page.text
    assert "https://" not in page.text


@pytest.mark.parametrize("path", PAGES)
def test_only_the_pages_own_script_may_run(client: httpx.Client, path: str) -> None:
    page = client.get(path)
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert "unsafe" not in policy["script-src"]
    for script in re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy["script-src"]


def test_the_description_is_served(client: httpx.Client) -> None:
    description = client.get("/openapi.json").json()
    assert description["info"]["title"] == "recourse"


def test_the_root_leads_everywhere(client: httpx.Client) -> None:
    page = client.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.headers["content-type"].startswith("text/html")
    places = client.get("/").json()
    assert places["workbench"] == "/workbench"
    for address in re.findall('href="([^"]+)"', page.text):
        assert client.get(address).status_code == 200
        assert address in places.values()
