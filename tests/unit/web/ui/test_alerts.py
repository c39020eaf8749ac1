"""Alerts: both events of one are one line, raised ones come first, others' texts are harmless."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.cli.ends import eventually
from tests.unit.daemon.rig import client_of
from tests.unit.web.ui.rig import Browser, paged

import elea
from elea.encoding import Encoding
from elea.provenance import SampleKind
from elea.sample import Sample
from elea.web.ui.alerts import Alerts


def event(id: str, state: str, at: str, **more: Any) -> Sample:
    told = {"id": id, "state": state, "at": at, "robot": "r05", **more}
    return sample(json.dumps(told).encode())


def sample(payload: bytes) -> Sample:
    return Sample(
        key_expr="alerts/r05/hot",
        payload=payload,
        kind=SampleKind.PUT,
        encoding=Encoding.APPLICATION_JSON,
        timestamp=None,
        attachment=None,
        source_info=None,
    )


def test_both_events_of_an_alert_are_one_line() -> None:
    alerts = Alerts()
    alerts.note(event("1", "raised", "2026-11-16T14:00:00Z", values="temp 83.1"))
    alerts.note(event("2", "raised", "2026-11-16T14:00:05Z", values="temp 84"))
    alerts.note(event("1", "raised", "2026-11-16T14:00:00Z", values="temp 83.1"))  # told twice
    alerts.note(event("1", "cleared", "2026-11-16T14:00:07Z", since="2026-11-16T14:00:00Z"))
    told: Any = alerts.told(10)
    assert [(row[0], row[4] is None) for row in told["alerts"]] == [("2", True), ("1", False)]
    [_, one] = told["alerts"]
    assert one[4] - one[3] == 7
    assert one[2] == "robot r05"
    assert one[6] == "temp 83.1"
    assert told["raised"] == 1


def test_an_alert_whose_beginning_was_not_heard_began_when_it_says() -> None:
    alerts = Alerts()
    alerts.note(event("1", "cleared", "2026-11-16T14:00:07Z", since="2026-11-16T14:00:02Z"))
    told: Any = alerts.told(10)
    assert told["alerts"][0][4] - told["alerts"][0][3] == 5


def test_what_is_no_alert_is_counted_and_left_out() -> None:
    alerts = Alerts()
    for payload in (b"", b"[", b"7", b'{"id": 1, "state": "raised"}', b'{"id": "a", "state": "?"}'):
        alerts.note(sample(payload))
    alerts.note(sample(b"[" * 200_000))
    alerts.note(event("\u202e1", "raised", "no time", values={"a": [1]}))
    told: Any = alerts.told(10)
    assert told["invalid"] == 6
    [row] = told["alerts"]
    assert row[0] == "\\u202e1"
    assert row[6] == '{"a": [1]}'
    for number in range(600):
        alerts.note(event(str(number), "raised", "2026-11-16T14:00:00Z"))
    told = alerts.told(10)
    assert (len(told["alerts"]), told["skip"]) == (10, 490)


def test_an_alert_is_shown_while_somebody_looks() -> None:
    with paged() as (daemon, url), client_of(daemon) as client, Browser(url) as browser:
        browser.say(want={"id": 1, "kind": "alerts"})
        browser.until(lambda part: "alerts" in part)
        publisher = client.declare_publisher("alerts/r05/hot")
        assert eventually(lambda: publisher.matching_status.matching)
        publisher.put(
            json.dumps({"id": "7", "state": "raised", "at": "2026-11-16T14:00:00Z"}),
            encoding="application/json",
        )
        part = browser.until(lambda part: part.get("alerts"))
        assert part["alerts"][0][:2] == ["7", "alerts/r05/hot"]
        assert part["raised"] == 1


def test_alerts_of_before_are_known_and_a_late_answer_holds_nothing_up() -> None:
    with paged() as (daemon, url), client_of(daemon) as client:
        asked: list[elea.Query] = []
        told = {"id": "1", "state": "raised", "at": "2026-11-16T14:00:00Z", "robot": "r05"}
        with client.declare_queryable("alerts/r05/hot", asked.append), Browser(url) as browser:
            browser.say(want={"id": 1, "kind": "status"})
            assert browser.until(lambda part: "alerts" in part)["alerts"]["alerts"] == []
            assert eventually(lambda: asked)
            asked[0].reply("alerts/r05/hot", json.dumps(told), encoding="application/json")
            asked.pop().drop()
            part = browser.until(lambda part: "alerts" in part and part["alerts"]["raised"])
            assert part["alerts"]["alerts"][0][2] == "robot r05"
