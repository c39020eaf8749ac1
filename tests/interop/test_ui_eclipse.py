"""`elea ui` on a network of Eclipse Zenoh: what its admin space and its samples tell."""

from __future__ import annotations

from tests.interop.ends import ECLIPSE, eclipse_router, eventually, session
from tests.unit.cli.test_ui import shown
from tests.unit.web.ui.rig import Browser


def test_the_page_shows_a_network_of_eclipse() -> None:
    with (
        eclipse_router() as (_, endpoint),
        session(ECLIPSE, "client", connect=endpoint) as sender,
        shown("--connect", endpoint, "--no-multicast-scouting") as url,
        Browser(url) as browser,
    ):
        publisher = sender.declare_publisher("lab/t1")
        browser.say(want={"id": 1, "kind": "tree", "words": "lab", "limit": 10})
        part = browser.until(lambda part: part.get("v"))
        assert [row[2] for row in part["v"]] == ["lab/t1"]
        browser.say(want={"id": 2, "kind": "value", "keys": ["lab/t1"]})
        browser.frame()
        assert eventually(lambda: publisher.matching_status.matching)
        publisher.put("21.5")
        assert browser.until(lambda part: part.get("value"))["value"]["lines"] == ["21.5"]
        browser.say(want={"id": 3, "kind": "status"})
        status = browser.until(lambda part: part.get("routers"))
        assert (status["routers"], status["counted"]) == (1, False)  # it was built without stats
        assert status["traffic"] is None
        browser.say(want={"id": 4, "kind": "nodes"})
        nodes = browser.until(lambda part: part.get("nodes"))
        assert [one["role"] for one in nodes["nodes"]] == ["router"]
