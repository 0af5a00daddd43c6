"""Takes the pictures of the workbench that the README shows, `docs/workbench*.png`: `make screenshots`."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.browser import Open

EXAMPLE = 1
"""The example applicant: one with three short ways, of whom a surer yes takes more."""


def take(open_page: "Open", folder: Path) -> list[str]:
    """Use the page as a reader would, and write each picture to a folder.

    Returns
    -------
    the names of the files
    """
    from tests.browser import ask

    page = open_page(reduced_motion="reduce", color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 1400})
    page.wait_for_selector("#example:enabled")
    for _ in range(EXAMPLE - 1):
        page.click("#example")
    ask(page)
    page.click("#draw")
    page.wait_for_selector("#curve svg")
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
    pictures = {"workbench.png": page, "workbench-frontier.png": page.locator("#frontier")}
    for name, shown in pictures.items():
        shown.screenshot(path=folder / name)
    return list(pictures)


def main() -> None:
    """Start the service with the demo model, and take the pictures."""
    from app.settings import Settings
    from tests.browser import chromium, workbench_of
    from tests.conftest import DEMO_STORE, run

    services = run(Settings(models_store=DEMO_STORE, lanes_sync=1, port=0))
    for service in services:
        with chromium() as browser, workbench_of(browser, service.url) as open_page:
            for name in take(open_page, Path(__file__).parent):
                print(name)


if __name__ == "__main__":
    main()
