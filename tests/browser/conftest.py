"""A browser, and a router with a page, a small fleet, and somebody hostile among it."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from tests.unit.daemon.rig import client_of
from tests.unit.web.ui.rig import paged

import elea
from elea.daemon.daemon import Daemon

BROWSER: Final = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING: Final = "no Chromium: apt-get install chromium fonts-dejavu-core"
EVIL_KEY: Final = "evil/<img src=x onerror=alert(1)>/\u202egnp"
EVIL_VALUE: Final = "<script>alert(1)</script>\x1b[31m\u202e"
WAIT_MS: Final = 30_000
expect.set_options(timeout=WAIT_MS)
VIOLATIONS: Final = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => violations.push(event.violatedDirective));
"""


@pytest.fixture(scope="module")  # while it is there, no other test of this process can run a loop
def browser() -> Iterator[Browser]:
    if BROWSER is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield launched
        launched.close()


@dataclass
class Fleet:
    """What runs behind the page."""

    daemon: Daemon
    url: str
    sender: elea.Session
    taker: elea.Session
    count: int = 0
    received: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """Eight robots at ten a second."""
    with (
        paged('metadata:{name:"edge-a"}') as (daemon, url),
        client_of(daemon) as sender,
        client_of(daemon) as taker,
    ):
        running = Fleet(daemon, url, sender, taker)
        stop = threading.Event()
        publishers = [
            sender.declare_publisher(f"fleet/r{n}/imu", encoding="application/json")
            for n in range(8)
        ]
        evil = sender.declare_publisher(EVIL_KEY, encoding="text/plain")

        def publish() -> None:
            while not stop.wait(0.1):
                running.count += 1
                for n, publisher in enumerate(publishers):
                    publisher.put(json.dumps({"n": running.count, "temp": 40 + n}))
                evil.put(EVIL_VALUE)

        thread = threading.Thread(target=publish)
        with taker.declare_subscriber("fleet/*/imu", lambda _: None):
            thread.start()
            yield running
            stop.set()
            thread.join()


class Tab:
    """A page in a context of its own; whatever goes wrong in it fails the test."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.url = url
        self.faults: list[str] = []
        self.requests: list[str] = []
        context.add_init_script(VIOLATIONS)
        context.set_default_timeout(WAIT_MS)
        self.page: Page = context.new_page()
        self.page.on("console", lambda told: self.faults.append(f"{told.type}: {told.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _dialog(self, dialog: Any) -> None:
        self.faults.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def open(self, route: str = "") -> Page:
        self.page.goto(f"{self.url}/{route}")
        return self.page

    def check(self) -> None:
        assert self.faults == []
        assert self.page.evaluate("violations") == []


OpenTab = Callable[..., Tab]


@pytest.fixture
def tab(browser: Browser, fleet: Fleet) -> Iterator[OpenTab]:
    """Opens tabs, and checks each at the end of the test."""
    tabs: list[Tab] = []
    contexts: list[BrowserContext] = []

    def opened(width: int = 1280, scheme: Any = "light", url: str | None = None) -> Tab:
        context = browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=scheme,
            locale="en-GB",
            timezone_id="UTC",
        )
        contexts.append(context)
        tabs.append(Tab(context, url or fleet.url))
        return tabs[-1]

    yield opened
    for one in tabs:
        one.check()
    for context in contexts:
        context.close()
