"""What people come for, from the question to the answer, in few clicks; seconds are reported."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.browser.conftest import Tab
from tests.browser.stage import LOST, Stage, staged
from tests.unit.cli.ends import eventually
from tests.unit.daemon.rig import client_of

import elea


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("fleet")) as running:
        yield running


@pytest.fixture(scope="module")
def visitor(browser: Browser, stage: Stage) -> Iterator[Tab]:
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, locale="en-GB", timezone_id="UTC"
    )
    yield Tab(context, stage.url)
    context.close()


@pytest.fixture
def page(visitor: Tab, record_property: Callable[[str, object], None]) -> Iterator[Page]:
    page = visitor.open("#/now")
    expect(page.locator("#top")).to_contain_text("live")
    began_s = time.monotonic()
    yield page
    record_property("seconds", round(time.monotonic() - began_s, 2))
    visitor.check()


def test_j1_is_everything_all_right(page: Page) -> None:
    """0 clicks."""
    tiles = page.locator(".tile")
    expect(tiles).to_have_count(4)
    expect(tiles.nth(0)).to_contain_text("1 router, 0 peers, 7 clients")
    expect(tiles.nth(1)).to_contain_text("fleet: recording")
    expect(tiles.nth(2)).to_contain_text("fleet: running")
    expect(tiles.nth(3)).to_contain_text("1 alert raised")


def test_j2_what_does_this_value_do(page: Page) -> None:
    """By keyboard alone; the line has points of the log and live ones."""
    page.keyboard.press("Control+k")
    page.keyboard.type("r05 imu")
    expect(page.locator(".line:visible")).to_have_count(1)
    page.keyboard.press("Enter")
    page.locator(".inspector").get_by_role("link", name="Plot", exact=True).click()
    expect(page.locator("#view [role=status]")).to_contain_text("versions from the log")
    expect(page.locator(".seam").first).to_be_attached()  # a line has no width


def test_j3_why_does_nothing_arrive(page: Page) -> None:
    page.locator("#rail").get_by_role("link", name="Why?", exact=True).click()
    page.fill("#why-key", "fleet/r02/command")
    page.keyboard.press("Enter")
    expect(page.locator(".verdict")).to_contain_text("rule 'own keys' at 'edge-a' does not let")


def test_j4_what_floods_the_network(page: Page) -> None:
    """0 clicks."""
    loud = page.get_by_role("region", name="Loudest keys")
    expect(loud.locator("tbody tr").first).to_contain_text(re.compile("fleet/r0./imu"))


def test_j5_what_was_lost_of_whom(page: Page) -> None:
    page.goto(f"{page.url.partition('#')[0]}#/plot/fleet/r03/imu%3Ff%3Dtemp")
    page.select_option("#span", "3600")
    expect(page.locator("#view [role=status]")).to_contain_text(f"{LOST[1]} lost")
    expect(page.locator("rect.lost")).to_have_count(1)
    page.locator("#rail").get_by_role("link", name="Log", exact=True).click()
    expect(page.locator("#view [role=status]")).to_contain_text("missing")


def test_j6_who_was_refused_by_which_rule(page: Page) -> None:
    page.locator("#rail").get_by_role("link", name="Network", exact=True).click()
    page.get_by_role("tab", name="Refused").click()
    row = page.locator("tbody tr").first
    expect(row).to_contain_text("fleet/r02/command")
    expect(row).to_contain_text("own keys")
    page.get_by_role("tab", name="Audit").click()
    expect(page.locator("#tabpanel")).to_contain_text("the chain of these lines holds")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Refused")).to_be_focused()


def test_j7_does_the_pipeline_keep_up(page: Page, stage: Stage) -> None:
    page.locator("#rail").get_by_role("link", name="Pipelines", exact=True).click()
    expect(page.locator("#view [role=status]")).to_contain_text("fleet is running, 1.")
    stage.status.tables["hot"].state = "failing"
    stage.status.tables["hot"].error = "no such column: tmp"
    expect(page.locator("#view [role=status]")).to_contain_text("hot failing")
    page.locator(".box", has_text="hot").click()
    expect(page.locator(".pipeline .pane")).to_contain_text("no such column: tmp")
    stage.status.tables["hot"].state, stage.status.tables["hot"].error = "running", None


def test_j8_into_which_tables_does_a_key_go(page: Page) -> None:
    page.goto(f"{page.url.partition('#')[0]}#/keys/fleet/r05/imu")
    page.get_by_role("tab", name="Tables").click()
    expect(page.locator(".inspector li")).to_have_text(
        [re.compile(f"^{name}") for name in ("bronze", "imu", "imu_1s", "hot", "losses")]
    )
    page.locator(".inspector li a", has_text="imu_1s").click()
    expect(page.locator(".pipeline .pane")).to_contain_text("gold/{robot}/imu_1s")


def test_j9_what_was_the_state_then(page: Page) -> None:
    page.goto(f"{page.url.partition('#')[0]}#/keys/fleet/r05/imu")
    page.get_by_role("button", name="At …").click()
    page.fill("#when-time", "-5m")
    page.keyboard.press("Enter")
    expect(page.locator(".inspector dl")).to_contain_text("Value of")
    number = int(re.findall(r'"n": (\d+)', page.locator(".inspector pre").inner_text())[0])
    assert 560 <= number <= 680  # of 900 that were a second apart, until now
    assert "?at=" in page.url
    page.locator(".inspector").get_by_role("link", name="Plot", exact=True).click()
    expect(page.locator("line.moment").first).to_be_attached()
    page.fill("#plot-key", "")
    page.locator("#view").focus()
    page.keyboard.press(".")
    expect(page.get_by_role("button", name="At …")).to_be_visible()


def test_j10_a_question_in_sql(page: Page, visitor: Tab) -> None:
    page.locator("#rail").get_by_role("link", name="SQL", exact=True).click()
    expect(page.locator(".tables button")).to_have_text(["battery", "imu"])
    page.fill("#sql", "select robot, count(*) as n from imu group by robot order by robot")
    page.keyboard.press("Control+Enter")
    expect(page.locator("tbody tr")).to_have_count(6)
    expect(page.locator("tbody tr").first).to_have_text("r00100")
    expect(page.locator(".bar")).to_have_count(6)
    page.fill("#sql", "drop table imu")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#view [role=status]")).to_contain_text("invalid")
    visitor.faults.clear()  # the browser tells of the 400


def test_only_the_link_of_the_terminal_may_publish(
    page: Page, browser: Browser, stage: Stage
) -> None:
    page.goto(f"{stage.url}/#/keys/fleet/r05/imu")
    expect(page.get_by_role("tab", name="Tables")).to_be_visible()
    expect(page.get_by_role("tab", name="Put")).to_have_count(0)
    context = browser.new_context(locale="en-GB")
    operator = Tab(context, stage.url)
    opened = operator.page
    opened.goto(stage.link)
    expect(opened.locator("#top")).to_contain_text("live")
    assert "token" not in opened.url
    opened.evaluate("location.hash = '#/keys/lamp/1'")
    opened.get_by_role("tab", name="Put").click()
    received: list[str] = []
    with (
        client_of(stage.daemon) as taker,
        taker.declare_subscriber(
            "lamp/*", lambda sample: received.append(sample.payload.to_string())
        ),
    ):
        opened.fill("#put-payload", '{"on": true}')
        opened.get_by_role("button", name="Put …").click()
        expect(opened.locator(".inspector [role=status]")).to_contain_text("12 bytes")
        assert received == []  # not before it is confirmed
        opened.get_by_role("button", name="Publish it now").click()
        expect(opened.locator(".inspector [role=status]")).to_contain_text("published")
        assert eventually(lambda: received == ['{"on": true}'])
    operator.check()
    context.close()


def test_hostile_alerts_and_values_are_text(page: Page, stage: Stage) -> None:
    """Markup, overrides of direction, ten megabytes, ten thousand levels, what is no UTF-8."""
    evil = "<img src=x onerror=alert(1)>\u202e\x1b[31m"
    told = {"id": evil, "state": "raised", evil: evil, "values": evil, "sample_key": "a//b?at=#/x"}
    page.locator("#rail").get_by_role("link", name="Alerts", exact=True).click()
    expect(page.locator("tbody tr").first).to_be_visible()
    stage.session.put("alerts/evil/<script>", json.dumps(told), encoding="application/json")
    expect(page.locator("#view")).to_contain_text("<img src=x onerror=alert(1)>\\u202e\\x1b[31m")
    assert page.locator("main img, main script").count() == 0
    odd = {
        "odd/deep": ("20k", b"[" * 10_000 + b"]" * 10_000),
        "odd/large": ("10.0M", b'{"text": "' + b"x" * 10_000_000 + b'"}'),
        "odd/bytes": ("6", b"\xff\xfe\x00<b>"),
    }
    for key, (length, payload) in odd.items():
        publisher = stage.session.declare_publisher(key, encoding="application/json")
        page.goto(f"{stage.url}/#/keys/{key}")
        assert eventually(partial(is_wanted, publisher))
        publisher.put(payload)
        facts = page.locator(".inspector dl")
        expect(facts).to_contain_text(f"Bytes{length}")
        publisher.undeclare()
    assert "\u202e" not in page.locator("body").inner_text()


def is_wanted(publisher: elea.Publisher) -> bool:
    return publisher.matching_status.matching
