"""Makes the pictures of the documentation: `python -m tests.browser.pictures FOLDER`.

Every view in light and dark at 1280 pixels, and the first ones at 390. Look at them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page, sync_playwright
from tests.browser.stage import staged

VIEWS: Final = {
    "now": ("#/now", "text=robot r05"),
    "keys": ("#/keys/fleet/r05/imu", ".inspector pre"),
    "tables": ("#/keys/fleet/r05/imu", ".inspector pre"),
    "plot": ("#/plot/fleet/r03/imu?f=temp", "polyline"),
    "network": ("#/network", "td"),
    "refused": ("#/network/refused", "text=own keys"),
    "audit": ("#/network/audit", "td"),
    "why": ("#/why/fleet/r02/command", ".verdict"),
    "query": ("#/query/fleet/*/battery", ".pane"),
    "log": ("#/log", ".bar"),
    "pipelines": ("#/pipelines/fleet/imu", ".box"),
    "sql": ("#/sql", ".tables button"),
    "devices": ("#/devices", "text=No gateway"),
    "alerts": ("#/alerts", "td"),
    "at": ("#/plot/fleet/r03/imu", "polyline"),
}
NARROW: Final = ("now", "keys", "plot", "pipelines", "network")
QUESTION: Final = "select robot, max(temp) as hottest from imu group by robot order by robot"


def take(page: Page, url: str, name: str, file: Path) -> None:
    """One picture."""
    route, settled = VIEWS[name]
    if name in ("plot", "at"):
        route = route.replace("?f=", "%3Ff%3D")
    if name == "at":
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - 430))
        route += f"?at={at}"
    page.goto("about:blank")
    page.goto(f"{url}/{route}")
    page.wait_for_selector(settled)
    if name == "tables":
        page.click("#tab-tables")
        page.wait_for_selector(".inspector li")
    if name == "sql":
        page.fill("#sql", QUESTION)
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("td")
    page.wait_for_timeout(4_500 if name in ("now", "pipelines") else 1_200)
    page.screenshot(path=file)


def tell(text: str) -> None:
    """Something is wrong on the page."""
    sys.stderr.write(f"{text}\n")


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    names = sys.argv[2:] or list(VIEWS)
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    with (
        tempfile.TemporaryDirectory() as place,
        staged(Path(place)) as stage,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390)):
            chosen: Any = scheme
            height = 800 if width > 400 else 844
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=chosen,
                locale="en-GB",
                timezone_id="UTC",
            )
            page = context.new_page()
            page.on("console", lambda told: tell(f"{told.type}: {told.text}"))
            page.on("pageerror", lambda error: tell(str(error)))
            for name in names if width > 400 else [one for one in names if one in NARROW]:
                suffix = scheme if width > 400 else "narrow"
                take(page, stage.url, name, folder / f"{name}-{suffix}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
