"""The page in a real browser: what a person does with it, and what it must never do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import axe_playwright_python
import pytest
from playwright.sync_api import Page, expect
from tests.browser.conftest import Fleet, OpenTab
from tests.ports import free_port
from tests.unit.cli.ends import eventually
from tests.unit.daemon.rig import ask, client_of, root_of
from tests.unit.web.rig import served
from tests.unit.web.ui.test_history import KEY, put, recorded

import elea
from elea.secret import Secret
from elea.web.service import Rest
from elea.web.settings import RestSettings

AXE: Final = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
TAGS: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
ROUTES: Final = {
    "now": "#/now",
    "keys": "#/keys/fleet/r1/imu",
    "plot": "#/plot/fleet/r1/imu",
    "network": "#/network",
    "why": "#/why/fleet/r1/imu",
    "query": "#/query/fleet/*/imu",
    "log": "#/log",
    "devices": "#/devices",
    "refused": "#/network/refused",
    "audit": "#/network/audit",
    "pipelines": "#/pipelines",
    "sql": "#/sql",
    "alerts": "#/alerts",
    "past": "#/keys/fleet/r1/imu?at=2026-01-01T00:00:00.000Z",
}
SETTLED: Final = {
    "now": ".tile",
    "keys": ".inspector pre",
    "plot": "polyline",
    "network": "td",
    "why": ".verdict",
    "query": "#view [role=status]:not(:empty)",
    "log": "text=Nothing is recorded here",
    "devices": "text=No gateway for XRCE",
    "refused": "text=nothing so far",
    "audit": "td",
    "pipelines": "text=No pipeline tells",
    "sql": "text=No door for SQL",
    "alerts": "text=No alert since",
    "past": "text=not recorded",
}


COUNT_CHANGES: Final = """
window.texts = [];
new MutationObserver(() => texts.push(1)).observe(
  document.querySelector(".inspector"), {subtree: true, childList: true});
"""


def shown(page: Page, name: str) -> Page:
    page.wait_for_selector(SETTLED[name])
    return page


def test_the_first_look_tells_whether_all_is_well(tab: OpenTab, fleet: Fleet) -> None:
    opened = tab()
    page = shown(opened.open(), "now")
    expect(page).to_have_title("'edge-a' · Elea")
    expect(page.locator(".tile")).to_have_count(4)
    expect(page.locator(".tile").first).to_contain_text("1 router, 0 peers, 2 clients")
    expect(page.locator("#top")).to_contain_text("live")
    expect(page.locator("#top")).to_contain_text("in/s")
    assert all(one.startswith(fleet.url) for one in opened.requests)


def test_a_value_is_found_with_the_keyboard_alone(tab: OpenTab) -> None:
    page = shown(tab().open(), "now")
    page.keyboard.press("Control+k")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type("r5 imu")
    expect(page.locator(".line:visible")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator(".inspector pre")).to_contain_text('"temp": 45')
    assert page.url.endswith("#/keys/fleet/r5/imu")
    before = page.locator(".inspector pre").text_content()
    expect(page.locator(".inspector pre")).not_to_have_text(before or "")  # it is live
    page.locator("#tab-value").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".inspector pre")).to_contain_text("0000  7b 22")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tabpanel")).to_contain_text("Subscribers")


def test_the_tree_opens_and_closes_with_arrows_and_keeps_its_focus(tab: OpenTab) -> None:
    page = tab().open("#/keys")
    grid = page.locator(".grid")
    expect(page.locator(".line:visible")).to_have_count(2)  # evil and fleet
    grid.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".line:visible")).to_have_count(11)  # * and eight robots below it
    active = page.locator("[aria-selected=true].line")
    expect(active).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    expect(active).to_have_attribute("aria-level", "1")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".line:visible")).to_have_count(2)
    expect(grid).to_be_focused()


def test_nothing_is_subscribed_to_but_values_in_view(tab: OpenTab, fleet: Fleet) -> None:
    def watched() -> int:
        """How many keys of the fleet have a subscriber besides the one for all."""
        root = root_of(fleet.daemon)
        return len(ask(fleet.daemon.session, f"{root}/subscriber/fleet/*/imu")) - 1

    opened = tab()
    for name in ("now", "network"):
        shown(opened.open(ROUTES[name]), name)
    assert watched() == 0
    page = shown(opened.open(ROUTES["keys"]), "keys")
    assert eventually(lambda: watched() == 1)
    page.evaluate("location.hash = '#/now'")
    shown(page, "now")
    assert eventually(lambda: watched() == 0)


def test_a_hidden_page_asks_for_nothing_and_a_shown_one_goes_on(tab: OpenTab, fleet: Fleet) -> None:
    page = shown(tab().open(ROUTES["keys"]), "keys")
    page.evaluate("Object.defineProperty(document, 'hidden', {get: () => window.hid})")
    page.evaluate("window.hid = true; document.dispatchEvent(new Event('visibilitychange'))")
    page.evaluate(COUNT_CHANGES)
    begun = fleet.count
    assert eventually(lambda: fleet.count > begun + 30)  # three seconds of samples
    assert page.evaluate("texts.length") <= 4  # what was asked for before, and nothing more
    page.evaluate("window.hid = false; document.dispatchEvent(new Event('visibilitychange'))")
    assert eventually(lambda: page.evaluate("texts.length") > 8)


def test_space_pauses_and_goes_on(tab: OpenTab) -> None:
    page = shown(tab().open(ROUTES["keys"]), "keys")
    page.locator("#view").focus()
    page.keyboard.press("Space")
    expect(page.locator("#top")).to_contain_text("paused")
    page.keyboard.press("Space")
    expect(page.locator("#top .chip").first).to_have_text("● live")


def test_hostile_keys_and_values_are_text(tab: OpenTab) -> None:
    page = tab().open("#/keys")
    page.fill("#find", "evil")
    expect(page.locator(".line:visible")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator(".inspector pre")).to_have_text("<script>alert(1)</script>\\x1b[31m\\u202e")
    expect(page.locator(".inspector h2").first).to_contain_text("evil/<img src=x")
    assert page.locator("main img, main script").count() == 0
    text = page.locator("body").inner_text()
    assert "\u202e" not in text
    assert "\x1b" not in text
    command = page.locator(".command code")
    expect(command).to_have_text("elea sub $'evil/<img src=x onerror=alert(1)>/\\U0000202egnp'")


def test_why_follows_a_key_and_names_what_is_wrong(tab: OpenTab) -> None:
    page = shown(tab().open(ROUTES["why"]), "why")
    expect(page.locator(".verdict")).to_contain_text("Nothing is wrong on the way")
    expect(page.locator(".way")).to_contain_text("'edge-a'")
    page.fill("#why-key", "Fleet/r1/imu")
    page.keyboard.press("Enter")
    expect(page.locator(".verdict")).to_contain_text("declared keys that look alike")
    page.fill("#why-key", "fleet//imu")
    page.keyboard.press("Enter")
    expect(page.locator(".verdict")).to_contain_text("offset 6")


def test_a_number_is_plotted_and_others_are_chosen_by_clicking(tab: OpenTab) -> None:
    page = shown(tab().open(ROUTES["keys"]), "keys")
    page.locator(".inspector").get_by_role("link", name="Plot", exact=True).click()
    charts = page.locator("svg.plot")
    expect(charts).to_have_count(2)
    expect(page.locator("#view [role=status]")).to_contain_text("no historian answers")
    page.get_by_role("button", name="n", exact=True).click()
    expect(charts).to_have_count(1)
    assert page.url.endswith("f%3Dtemp")
    expect(charts.first.locator("polyline")).to_have_count(1)
    expect(charts.first).to_have_attribute("aria-label", re.compile("temp from .* last 41"))
    page.reload()
    expect(charts).to_have_count(1)
    page.locator("summary").click()
    expect(page.locator("td").nth(1)).to_have_text("41")


def test_dragging_zooms_and_a_dot_follows_again(tab: OpenTab) -> None:
    page = shown(tab().open(ROUTES["plot"]), "plot")
    follow = page.get_by_role("button", name="Follow")
    box = page.locator("svg.plot").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 80)
    page.mouse.up()
    expect(follow).to_have_attribute("aria-pressed", "false")
    page.locator("#view").focus()
    page.keyboard.press(".")
    expect(follow).to_have_attribute("aria-pressed", "true")
    page.wait_for_selector("polyline")


def test_a_query_is_asked(tab: OpenTab, fleet: Fleet) -> None:
    with fleet.taker.declare_queryable("lamp/1", lambda query: query.reply("lamp/1", "on")):
        page = tab().open("#/query")
        page.fill("#selector", "lamp/*")
        page.keyboard.press("Enter")
        expect(page.locator("#view pre")).to_have_text("on")
        expect(page.locator("#view [role=status]")).to_have_text("1 reply")


def test_a_node_that_joins_and_leaves_is_told(tab: OpenTab, fleet: Fleet) -> None:
    page = shown(tab().open(), "now")
    expect(page.locator(".tile").first).to_contain_text("2 clients")
    with client_of(fleet.daemon):
        expect(page.locator(".tile").first).to_contain_text("3 clients")
        expect(page.locator(".columns")).to_contain_text("joined")
    expect(page.locator(".columns")).to_contain_text(" left")


def faults_of(page: Page) -> Any:
    """What axe finds, and whether the page is wider than the screen."""
    page.evaluate(AXE)
    told = page.evaluate(
        "(tags) => axe.run({runOnly: tags})"
        ".then((all) => all.violations.map((one) => [one.id, one.nodes.map((n) => n.html)]))",
        TAGS,
    )
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return told + ([f"{wide} px too wide"] if wide > 0 else [])


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_past_is_plotted_before_the_present(
    tab: OpenTab, tmp_path: Path, scheme: str, width: int
) -> None:
    """A plot joins what a historian knows and what comes, and shows what was lost of both."""
    with recorded(tmp_path) as (client, url), client.declare_publisher(KEY) as publisher:
        for number in (*range(1, 20), *range(36, 60)):
            put(publisher, number)
        opened = tab(width, scheme, url)
        page = opened.open("#/log")
        expect(page.locator("#view [role=status]")).to_contain_text("1 log, 43 rows")
        assert faults_of(page) == []
        page = opened.open(f"#/plot/{KEY}")
        status = page.locator("#view [role=status]")
        expect(status).to_contain_text("43 versions from the log")
        expect(status).to_contain_text("16 lost")
        chart = page.locator("svg.plot")
        expect(chart).to_have_attribute("aria-label", re.compile("temp .* last 59"))
        assert eventually(lambda: publisher.matching_status.matching)
        for number in range(70, 80):
            put(publisher, number)
        expect(chart).to_have_attribute("aria-label", re.compile("temp .* last 79"))
        page.locator("summary").click()
        rows = [row.split("\t") for row in page.locator("tbody").inner_text().splitlines()]
        numbers = [int(row[-1]) for row in rows]  # those of one batch may have one time
        assert numbers == sorted(set(numbers), reverse=True)  # none twice
        assert {59, 79} <= set(numbers)
        assert faults_of(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_everybody_can_use_it(tab: OpenTab, scheme: str, width: int) -> None:
    """axe finds nothing in any view, and no view is wider than the screen."""
    opened = tab(width, scheme)
    found: dict[str, Any] = {}
    for name, route in ROUTES.items():
        page = shown(opened.open(route), name)
        told = faults_of(page)
        if told:
            found[name] = told
    assert found == {}


def test_a_token_is_asked_for_and_kept_out_of_the_address(tab: OpenTab) -> None:
    token = "correct-horse-battery"
    with served(token=Secret(token), protect="everything") as web:
        opened = tab(url=web.rest.url)
        page = opened.open()
        expect(page.locator("#token")).to_be_visible()
        opened.faults.clear()  # the browser tells of the 401
        page.fill("#token", token)
        page.keyboard.press("Enter")
        expect(page.locator("#top")).to_contain_text("live")
        other = tab(url=web.rest.url)
        linked = other.open(f"#token={token}")
        expect(linked.locator("#top")).to_contain_text("live")
        assert token not in linked.url
        assert all(token not in one for one in other.requests)


def test_a_token_of_a_router_that_was_restarted_is_forgotten(tab: OpenTab) -> None:
    """It was shown with every request, and refused, though nobody needs one to look."""
    with served(operate_link=True) as web:
        opened = tab(url=web.rest.url)
        page = opened.open("#token=of-the-router-before-this-one")
        expect(page.locator("#top .chip").first).to_have_text("● live")
        expect(page.locator("#token")).to_have_count(0)
        opened.faults.clear()  # the browser tells of the 401


def test_a_router_that_comes_back_is_shown_again(tab: OpenTab) -> None:
    with elea.open({"mode": "peer", "listen": {"endpoints": []}}) as session:
        rest = Rest(session, RestSettings(port=free_port()))
        opened = tab(url=rest.url)
        page = opened.open("#/network")
        expect(page.locator("#top .chip").first).to_have_text("● live")
        page.evaluate("window.stayed = true")
        rest.stop()
        expect(page.locator("#top")).to_contain_text("disconnected")
        expect(page.locator(".banner")).to_contain_text("next try")
        rest = Rest(session, RestSettings(port=int(rest.url.rpartition(":")[2])))
        try:
            expect(page.locator("#top .chip").first).to_have_text("● live")
            expect(page.locator(".banner")).to_be_hidden()
            assert page.evaluate("stayed")  # it was not loaded again
        finally:
            rest.stop()
        opened.faults.clear()  # the browser tells of connections that were refused
