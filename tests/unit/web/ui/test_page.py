"""The page's files and requests: what strangers may have, and what a query may not do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.web.rig import Served, served
from tests.unit.web.ui.rig import UI

import elea
from elea.web.ui.assets import FOLDER, Assets

HTML = {"accept": "text/html,application/xhtml+xml"}
FROM_A_LINK = {
    **HTML,
    "sec-fetch-site": "cross-site",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
}
SIZE_MAX = 95_000  # of the first load, compressed


@pytest.fixture(scope="module")
def web() -> Iterator[Served]:
    with served() as running:
        yield running


def test_the_page_is_served_where_everybody_looks_first(web: Served) -> None:
    """`GET /` was a 404."""
    page = web.http.get("/", headers=HTML)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "trusted-types 'none'" in policy
    assert "unsafe" not in policy
    for path in re.findall(r'(?:href|src)="(/[^"]*)"', page.text):
        file = web.http.get(path)
        assert file.status_code == 200
        assert "immutable" in file.headers["cache-control"]
        assert file.headers["content-security-policy"] == policy


def test_programs_are_told_what_a_path_is(web: Served) -> None:
    assert web.http.get("/").status_code == 404


def test_a_link_on_another_page_opens_the_page_and_no_data(web: Served) -> None:
    """A link to the router in a chat was answered 403."""
    assert web.http.get("/", headers=FROM_A_LINK).status_code == 200
    for path in (f"{UI}/about", "/a", "/@/local/router"):
        assert web.http.get(path, headers=FROM_A_LINK).status_code == 403
    framed = {**FROM_A_LINK, "sec-fetch-dest": "iframe"}
    assert web.http.get("/", headers=framed).status_code == 403
    assert web.http.get("/", headers={**HTML, "host": "evil.example"}).status_code == 421
    assert web.http.post(f"{UI}/ticket", headers=FROM_A_LINK).status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        *("", "v/", "v/0/app.css", "v/{base}/index.html", "v/{base}/../../rest.py", "nothing"),
        *("v/{base}/%2e%2e/app.py", "live", "ticket"),
    ],
)
def test_there_is_nothing_else(web: Served, path: str) -> None:
    base = Assets().base.rstrip("/").rpartition("/")[2]
    assert web.http.get(f"{UI}/{path.replace('{base}', base)}").status_code == 404


def test_a_new_version_has_another_path(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("{{base}}", encoding="utf-8")
    before = Assets(tmp_path).base
    (tmp_path / "app.css").write_text("a", encoding="utf-8")
    assert Assets(tmp_path).base != before


def test_the_page_is_small_and_refers_to_nothing_outside() -> None:
    assert sum(Assets().sizes().values()) < SIZE_MAX
    for path in FOLDER.rglob("*.*"):
        text = path.read_text(encoding="utf-8")
        text = text.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
        assert re.search(r"https?://|//[a-z]+\.", text) is None, path
        for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("):
            assert word not in text, path


def test_a_query_is_asked_and_answered(web: Served) -> None:
    def reply(query: elea.Query) -> None:
        query.reply("lamp/1", b"on\x1b", encoding="text/plain")

    with web.session.declare_queryable("lamp/1", reply):
        answer = web.http.post(f"{UI}/query", json={"selector": "lamp/*"}).json()
    assert answer["left_out"] == 0
    [row] = answer["rows"]
    assert (row["key"], row["lines"], row["error"]) == ("lamp/1", ["on\\x1b"], False)


def test_replies_beyond_the_limit_are_counted() -> None:
    def reply(query: elea.Query) -> None:
        for key in ("a", "b"):
            query.reply(key, key)

    with served(ui_replies_count=1) as web, web.session.declare_queryable("*", reply):
        answer = web.http.post(f"{UI}/query", json={"selector": "*"}).json()
        assert (len(answer["rows"]), answer["left_out"]) == (1, 1)


@pytest.mark.parametrize(
    ("selector", "status"),
    [
        ("@elea/log/x/put/a", 403),
        ("@elea/**", 403),
        ("a//b", 400),
        ("", 400),
    ],
)
def test_the_query_form_only_reads(web: Served, selector: str, status: int) -> None:
    assert web.http.post(f"{UI}/query", json={"selector": selector}).status_code == status


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"a"', b"[" * 20_000])
def test_other_bodies_are_refused(web: Served, body: bytes) -> None:
    assert web.http.post(f"{UI}/query", content=body).status_code == 400


def test_a_key_expression_is_judged(web: Served) -> None:
    def judged(text: str) -> dict[str, object]:
        found: dict[str, object] = web.http.get(f"{UI}/keyexpr", params={"text": text}).json()
        return found

    assert judged("a/*")["legal"] is True
    assert judged("a/**/**")["canonical"] == "a/**"
    assert "offset" in str(judged("a//b")["reason"])


def test_why_tells_a_verdict(web: Served) -> None:
    found = web.http.post(f"{UI}/why", json={"key": "a//b"}).json()
    assert found["verdict"]["state"] == "failed"
    assert [check[0] for check in found["checks"]] == ["key"]
