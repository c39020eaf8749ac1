"""The first view and the network view: who sends most, what happened, what was refused to whom."""

from __future__ import annotations

from tests.unit.cli.ends import eventually
from tests.unit.daemon.rig import client_of
from tests.unit.web.ui.rig import Browser, paged

from elea.web.ui.told import KeyRate, loudest

DENY = (
    'access_control:{enabled:true,default_permission:"allow",rules:[{id:"shut",'
    'permission:"deny",flows:["ingress"],messages:["put"],key_exprs:["shut/**"]}],'
    'subjects:[{id:"s"}],policies:[{rules:["shut"],subjects:["s"]}]}'
)


def row(key: str, rate: float) -> KeyRate:
    return KeyRate(key, 1, 1, 0.0, rate, rate)


def test_keys_of_one_form_are_one_line() -> None:
    rows = [row(f"fleet/r{n:02}/{what}", 1) for n in range(20) for what in ("imu", "battery")]
    rows += [row("lamp/1", 5), row("lamp/2", 1)]
    found = [(key, count, rate) for key, count, rate, _ in loudest(rows)]
    assert found == [
        ("fleet/*/battery", 20, 20.0),
        ("fleet/*/imu", 20, 20.0),
        ("lamp/1", 1, 5.0),
        ("lamp/2", 1, 1.0),
    ]


def test_the_first_view_names_the_loudest_keys() -> None:
    with (
        paged() as (daemon, url),
        client_of(daemon) as sender,
        client_of(daemon) as taker,
        taker.declare_subscriber("f/*", lambda _: None),
        sender.declare_publisher("f/a") as publisher,
        Browser(url) as browser,
    ):
        assert eventually(lambda: publisher.matching_status.matching)
        browser.say(want={"id": 1, "kind": "status"})

        def is_loud(part: dict[str, object]) -> bool:
            publisher.put("1")
            rows = part.get("traffic")
            return isinstance(rows, list) and any(one[2] > 0 for one in rows)

        part = browser.until(is_loud)
        assert [one[0] for one in part["traffic"]] == ["f/a"]
        assert part["traffic"][0][4] == 100


def test_refusals_and_audit_name_the_client_and_the_rule() -> None:
    with paged(DENY) as (daemon, url), client_of(daemon) as client, Browser(url) as browser:
        client.put("shut/a", "x")
        client.put("shut/a", "y")
        browser.say(want={"id": 1, "kind": "feed"})
        part = browser.until(lambda part: part.get("refusals") and part["refusals"][0][4] == 2)
        [who, action, key, rule, count, at_s] = part["refusals"][0]
        assert (action, key, rule, count) == ("put", "shut/a", "shut", 2)
        assert who.startswith("client")
        assert at_s > 1_700_000_000
        assert part["broken"] is None
        assert "refused" in [event for _, event, _ in part["audit"]]
