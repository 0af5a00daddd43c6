"""A real browser for the tests of pages; they are skipped, with the reason, where there is none."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.optional import library

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first that is found is taken. The shell of Chromium takes half of the processor time."""

ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
"""The browser itself asks nobody for anything."""


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser of this machine, as Playwright drives it; none is ever downloaded."""
    playwright = library("playwright.sync_api")
    path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if path is None:
        pytest.skip(f"no Chromium here: install one of {', '.join(PROGRAMS)} (Debian: apt-get install {PROGRAMS[0]})")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


Page = Any
Open = Callable[..., Page]

REFUSED = re.compile(r"status of (40[13]|503) ")
"""What a browser says of a request that lacks a key, or its scope, or comes too early. No page can prevent it."""

WATCH_SHIFTS = """
window.shifts = 0;
const count = (shift) => { if (!shift.hadRecentInput) shifts += shift.value; };
new PerformanceObserver((list) => list.getEntries().forEach(count)).observe({ type: "layout-shift", buffered: true });
"""


@contextmanager
def workbench_of(browser: Any, url: str) -> Iterator[Open]:
    """Opens the page of a service. Whatever it did, it has asked nobody else, and the console is empty."""
    opened: list[tuple[Any, list[str], list[str]]] = []

    def open_page(*, prepare: Callable[[Page], None] = lambda page: None, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        page = context.new_page()
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.add_init_script(WATCH_SHIFTS)
        opened.append((context, said, asked))
        prepare(page)
        page.goto(f"{url}/workbench")
        return page

    yield open_page
    for context, said, asked in opened:
        context.close()
        assert [line for line in said if not REFUSED.search(line)] == [], said
        assert asked
        assert [address for address in asked if not address.startswith(f"{url}/")] == []


def fill_in(page: Page) -> None:
    """Enter an example, and wait for the decision on it."""
    page.click("#example")
    page.wait_for_selector("#verdict b")


def ask(page: Page) -> None:
    """The two clicks to a first recourse."""
    fill_in(page)
    page.click("#ask")
    page.wait_for_selector("#answer-body h3")


def text(page: Page, selector: str) -> str:
    """What is to be read there now."""
    return " ".join(page.inner_text(selector).split())


def expect(locator: Any, message: str | None = None) -> Any:
    """Playwright's assertions: they wait until they hold, as pages change after what a test awaited."""
    return library("playwright.sync_api").expect(locator, message)


def reads(page: Page, selector: str, words: str) -> None:
    """These words, and no others, are to be read there, or soon."""
    expect(page.locator(selector).first).to_have_text(words, use_inner_text=True)


def says(page: Page, selector: str, words: str) -> None:
    """These words are among what is to be read there, or soon."""
    expect(page.locator(selector).first).to_contain_text(words, use_inner_text=True)


CONTROLS = {
    "button", "link", "textbox", "combobox", "spinbutton", "slider", "checkbox", "Date", "DisclosureTriangle", "dialog",
    "region", "table", "article",
}  # fmt: skip
"""Roles whose nodes say nothing to somebody who cannot see them, unless they have a name."""

WATCH_SAID = """
window.said = [];
new MutationObserver((changes) => {
  const live = (node) => (node.closest ? node : node.parentElement)?.closest("[role=status], [role=alert]");
  for (const region of new Set(changes.map(({ target }) => live(target))))
    if (region?.checkVisibility() && region.innerText) said.push(region.innerText);
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


def heard(page: Page) -> str:
    """What live regions have said since this was asked, and what has the focus then, as a screen reader says it."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(done))")
    tree = _accessible(page)
    focused = [node for node in tree if any(one["name"] == "focused" for one in node.get("properties", []))]
    said = page.evaluate("() => said.splice(0).join(' | ')")
    return f"{' '.join(said.split())} > {_spoken(focused[-1]) if focused else 'nothing'}"


def nameless(page: Page) -> list[str]:
    """What a keyboard reaches, and what groups it, that Chromium tells a screen reader without a name."""
    return [_spoken(node) for node in _accessible(page) if node["role"]["value"] in CONTROLS and not _name(node)]


def _accessible(page: Page) -> list[dict[str, Any]]:
    """The accessibility tree of the page, without what is ignored."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [node for node in nodes if not node["ignored"] and node["role"]["value"] != "RootWebArea"]


def _name(node: dict[str, Any]) -> str:
    return str(node.get("name", {}).get("value", "")).strip()


def _spoken(node: dict[str, Any]) -> str:
    return f"{node['role']['value']} {_name(node)}"


def violations(page: Page) -> list[str]:
    """What axe finds against the page as it is."""
    axe = library("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page).response["violations"]
    return [f"{fault['id']}: {node['html'][:120]}" for fault in found for node in fault["nodes"]]
