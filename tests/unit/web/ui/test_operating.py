"""What changes something needs a token that was shown, on loopback too; SQL only reads."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import pytest
from tests.unit.cli.ends import eventually
from tests.unit.web.rig import Served, served
from tests.unit.web.ui.rig import UI, paged, rest_of

import elea
from elea.errors import ConfigError
from elea.secret import Secret
from elea.web.settings import RestSettings

TOKEN = "correct-horse-battery"
BEARER = {"authorization": f"Bearer {TOKEN}"}


def post(web: Served, what: str, body: Any, **headers: str) -> httpx.Response:
    return web.http.post(f"{UI}/{what}", json=body, headers=headers)


def test_a_put_needs_the_token_to_operate() -> None:
    """Everybody on the host reaches loopback."""
    body = {"key": "door/1", "payload": '{"open": true}', "encoding": "application/json"}
    with served(operate=Secret(TOKEN)) as web:
        received: list[elea.Sample] = []
        with web.session.declare_subscriber("door/*", received.append):
            for headers in ({}, {"authorization": "Bearer wrong-wrong-wrong-wrong"}):
                assert post(web, "put", body, **headers).status_code == 401
            assert received == []
            answer = post(web, "put", body, **BEARER)
            assert (answer.status_code, answer.json()["length"]) == (200, 14)
            assert eventually(lambda: received)
            assert str(received[0].encoding) == "application/json"
            post(web, "put", {"key": "door/1", "delete": True}, **BEARER)
            assert eventually(lambda: len(received) == 2)
            assert received[1].kind is elea.SampleKind.DELETE


def test_a_router_without_a_token_is_never_operated_by_the_page() -> None:
    with served() as web:
        assert post(web, "put", {"key": "a", "payload": "1"}).status_code == 401
        assert web.http.get(f"{UI}/about").json()["may_operate"] is False


def test_the_page_knows_what_it_may(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "elea.web.audit")
    with served(operate=Secret(TOKEN)) as web:
        assert web.http.get(f"{UI}/about").json()["may_operate"] is False
        assert web.http.get(f"{UI}/about", headers=BEARER).json()["may_operate"] is True
        post(web, "put", {"key": "a", "payload": "secret"}, **BEARER)
        lines = [json.loads(one.message) for one in caplog.records if "operate" in one.message]
        assert [(one["operate"], one["key"], one["outcome"]) for one in lines] == [
            ("put", "a", "done")
        ]
        assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "body",
    [
        {"key": "a//b", "payload": "1"},
        {"key": "", "payload": "1"},
        {"key": "a", "encoding": "x" * 100_000},
    ],
)
def test_what_is_no_put_is_refused(body: dict[str, Any]) -> None:
    with served(operate=Secret(TOKEN)) as web:
        assert post(web, "put", body, **BEARER).status_code == 400


@pytest.mark.parametrize("name", ["key", "payload", "encoding"])
def test_text_that_is_not_unicode_was_an_error_of_the_server(name: str) -> None:
    """JSON can say half of a pair of surrogates, which no bytes can be made of."""
    body = json.dumps({"key": "a", "payload": "1", "encoding": "text/plain", name: "a\ud800"})
    with served(operate=Secret(TOKEN)) as web:
        answer = web.http.post(f"{UI}/put", content=body, headers=BEARER)
        assert (answer.status_code, "JSON" in answer.json()["detail"]) == (400, True)
        answer = web.http.post(f"{UI}/sql", content=json.dumps({"text": "a\ud800"}), headers=BEARER)
        assert answer.status_code == 400


def test_access_rules_hold_for_the_operator() -> None:
    rules = (
        'access_control:{enabled:true,default_permission:"allow",rules:[{id:"shut",'
        'permission:"deny",flows:["ingress"],messages:["put"],key_exprs:["shut/**"]}],'
        'subjects:[{id:"s"}],policies:[{rules:["shut"],subjects:["s"]}]}'
    )
    with paged(rules, ui=True) as (daemon, url):
        link = rest_of(daemon).operate_url
        assert link is not None
        token = link.rpartition("token=")[2]
        bearer = {"authorization": f"Bearer {token}"}
        for key, status in (("shut/a", 403), ("open/a", 200)):
            body = {"key": key, "payload": "1"}
            answer = httpx.post(f"{url}{UI}/put", json=body, headers=bearer, trust_env=False)
            assert answer.status_code == status
        assert token not in json.dumps(dict(rest_of(daemon).status()))


def test_a_link_is_made_only_where_it_was_asked_for() -> None:
    with served() as web:
        assert web.rest.operate_url is None
    with served(operate=Secret(TOKEN)) as web:
        assert web.rest.operate_url is None  # it is in a file, and in no output
    with served(operate_link=True) as web, served(operate_link=True) as other:
        assert web.rest.operate_url != other.rest.operate_url


def test_one_token_is_not_for_two() -> None:
    with pytest.raises(ConfigError, match="same token"):
        RestSettings(operate=Secret(TOKEN), token=Secret(TOKEN))._check()


def test_sql_is_asked_at_its_door() -> None:
    def door(query: elea.Query) -> None:
        assert query.payload is not None
        text = query.payload.to_string()
        assert query.parameters["rows"] == "1000"
        if "wrong" in text:
            query.reply_err(json.dumps({"error": "invalid", "detail": "no such table"}))
            return
        rows = [{"robot": "r1", "temp": 41.5}, {"robot": "=cmd()\u202e", "temp": None}]
        query.reply("@sql/lake", json.dumps(rows), encoding="application/json")
        if "many" in text:
            query.reply_err(json.dumps({"error": "cut", "detail": "1000 rows at most"}))

    with served() as web, web.session.declare_queryable("@sql/lake", door):
        told = post(web, "sql", {"door": "lake", "text": "select many"}).json()
        assert "columns" in told, told
        assert told["columns"] == ["robot", "temp"]
        assert told["rows"] == [["r1", 41.5], ["=cmd()\\u202e", None]]
        assert told["cut"] == "cut: 1000 rows at most"
        refused = post(web, "sql", {"door": "lake", "text": "wrong"})
        assert (refused.status_code, refused.json()["detail"]) == (400, "invalid: no such table")
        for name in ("lake/x", "*", "a//b", ""):
            assert post(web, "sql", {"door": name, "text": "select 1"}).status_code == 400


def test_a_door_that_is_not_there_is_told() -> None:
    with served(query_timeout_ms=200) as web:
        answer = post(web, "sql", {"door": "lake", "text": "select 1"})
        assert answer.status_code == 404
        assert "plugins/sql" in answer.json()["detail"]
