"""Plots of a running router: the past from a historian, each new sample, and who may see them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.unit.cli.ends import eventually
from tests.unit.daemon.rig import client_of, options, running
from tests.unit.web.rig import served
from tests.unit.web.ui.rig import UI, Browser, paged, rest_of

import elea
from elea.provenance import SourceInfo
from elea.store.historian.service import HistorianService
from elea.store.recorder.service import RecorderService
from elea.web.service import start

KEY = "fleet/r1/imu"


@contextmanager
def recorded(path: Path) -> Iterator[tuple[elea.Session, str]]:
    """A client of a router that records and answers for the past, and where its page is."""
    recordings = '{all: {key_exprs: "fleet/**"}}'
    chosen = options(
        f'plugins/recorder:{{directory: "{path}", recordings: {recordings}}}',
        f'plugins/historian:{{logs: "{path}/all"}}',
        rest_http_port="0",
    )
    with (
        running(chosen, rest=start, recorder=RecorderService, historian=HistorianService) as daemon,
        client_of(daemon) as client,
    ):
        yield client, rest_of(daemon).url


def asked(url: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{url}{UI}/series", json={"key": KEY, **body}, trust_env=False, timeout=60)


def put(publisher: elea.Publisher, number: int) -> None:
    payload = json.dumps({"temp": number, "name": "r1"})
    publisher.put(
        payload, encoding="application/json", source_info=SourceInfo(publisher.id, number)
    )


def test_the_past_and_what_was_lost_of_it(tmp_path: Path) -> None:
    with (
        recorded(tmp_path) as (client, url),
        client.declare_publisher(KEY, encoding="application/json") as publisher,
    ):
        for number in (*range(1, 50), *range(66, 100)):
            put(publisher, number)

        def told() -> dict[str, Any]:
            found: dict[str, Any] = asked(url).json()
            return found

        assert eventually(lambda: told()["rows"] == 83)
        part = told()
        assert part["fields"] == ["temp"]
        assert sum(count for _, _, count in part["lost"]) == 16
        values = [value for value in part["series"]["temp"][1] if value is not None]
        assert (min(values), max(values)) == (1, 99)
        assert part["cut"] is False
        narrow = asked(url, columns=1, fields=["temp", "none"]).json()
        assert len(narrow["series"]["temp"][0]) <= 10
        assert narrow["series"]["none"] == [[], []]
        before = asked(url, since=time.time() - 1_000, until=time.time() - 900).json()
        assert (before["rows"], before["fields"]) == (0, [])


def test_a_sample_is_in_the_past_or_comes_live(tmp_path: Path) -> None:
    """Live was asked for first: whatever is put meanwhile is in one of them, or in both."""
    with (
        recorded(tmp_path) as (client, url),
        Browser(url) as browser,
        client.declare_publisher(KEY, encoding="application/json") as publisher,
    ):
        browser.say(want={"id": 1, "kind": "series", "keys": [KEY], "fields": ["temp"]})
        browser.frame()
        assert eventually(lambda: publisher.matching_status.matching)
        browser.frame()
        live = set[float]()
        for number in range(1, 60):
            put(publisher, number)
            if number == 30:
                past = asked(url, fields=["temp"]).json()["series"]["temp"][1]
        while 59 not in live:
            part = browser.until(lambda part: "series" in part)
            live.update(one for one in part["series"]["temp"][1] if one is not None)
            assert part["lost"] == []
        assert set(past) | live >= set(range(1, 60))


def test_only_so_many_versions_are_read(tmp_path: Path) -> None:
    with served(ui_history_count=5) as web:
        log = [json.dumps({"n": n}) for n in range(9)]

        def reply(query: elea.Query) -> None:
            assert query.parameters["_order"] == "desc"
            for payload in reversed(log):
                stamp = web.session.new_timestamp()
                query.reply(KEY, payload, encoding="application/json", timestamp=stamp)

        with web.session.declare_queryable(KEY, reply):
            part = asked(web.rest.url).json()
        assert (part["rows"], part["cut"]) == (5, True)


@pytest.mark.parametrize(
    "body",
    [
        {"key": "fleet/*/imu"},
        {"key": "a//b"},
        {"key": "@elea/log/all/put/a"},
        {"fields": ["a", "b", "c", "d", "e"]},
        {"fields": "temp"},
        {"fields": [1]},
        {"since": "now"},
        {"since": -1e300},
        {"until": 1e300},
        {"until": float(2**60)},
        {"columns": 0},
        {"columns": 1e9},
        {"columns": True},
    ],
)
def test_what_is_no_plot_is_refused(body: dict[str, Any]) -> None:
    with served() as web:
        assert asked(web.rest.url, **body).status_code == 400


def test_without_a_historian_there_is_no_past() -> None:
    with served() as web:
        part = asked(web.rest.url).json()
        assert (part["rows"], part["series"], part["error"]) == (0, {}, "")


def test_a_plot_says_why_it_is_empty() -> None:
    with served(ui_trails_count=1) as web, Browser(web.rest.url) as browser:
        for number, key in ((1, "a/*"), (2, "a//b"), (3, "a/1"), (4, "a/2")):
            browser.say(want={"id": number, "kind": "series", "keys": [key]})
        notes: dict[int, str] = {}
        while len(notes) < 3:
            notes |= {part["w"]: part["note"] for part in browser.frame()["p"] if part.get("note")}
        assert notes[1] == "a plot shows one key, without wildcards"
        assert "offset" in notes[2] or "empty" in notes[2]
        [refused] = [notes[number] for number in (3, 4) if number in notes]
        assert refused == "too many keys are plotted"
        for number in (1, 2, 3, 4):
            browser.say(drop=number)
        browser.say(want={"id": 5, "kind": "series", "keys": ["a/2"]})
        browser.frame()
        with web.session.declare_publisher("a/2") as publisher:  # the place is free again
            assert eventually(lambda: publisher.matching_status.matching)
            publisher.put("7", encoding="text/plain")
            part = browser.until(lambda part: part["w"] == 5 and "series" in part)
            assert part["series"]["value"][1] == [7]


def test_rules_hold_for_plots() -> None:
    rules = (
        'access_control:{enabled:true,default_permission:"allow",rules:[{id:"r",permission:"deny",'
        'flows:["ingress"],messages:["query","declare_subscriber"],key_exprs:["shut/**"]}],'
        'subjects:[{id:"s"}],policies:[{rules:["r"],subjects:["s"]}]}'
    )
    with paged(rules) as (daemon, url), Browser(url) as browser:
        assert rest_of(daemon).url == url
        assert asked(url, key="shut/a").status_code == 403
        browser.say(want={"id": 1, "kind": "series", "keys": ["shut/a"]})
        assert "not allowed" in browser.until(lambda part: part.get("note"))["note"]
