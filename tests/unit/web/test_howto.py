"""The commands of docs/howto/use-rest.md do what they say."""

from __future__ import annotations

import argparse
import re
import shlex

import httpx
import pytest
from tests.meta.tree import ROOT
from tests.unit.web.rig import Served, served

from elea.secret import Secret
from elea.web.settings import KEYS

PAGE = (ROOT / "docs" / "howto" / "use-rest.md").read_text(encoding="utf-8")
COMMANDS = re.findall(
    r"^\$ curl (.+)\n((?:(?!\$ ).+\n)*)",
    "".join(re.findall(r"^```console\n(.+?)^```", PAGE, re.MULTILINE | re.DOTALL)),
    re.MULTILINE,
)


def request(web: Served, command: str) -> httpx.Request:
    """What curl would send."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-X", dest="method", default="GET")
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-d", dest="data")
    parser.add_argument("-N", action="store_true")
    parser.add_argument("url")
    args = parser.parse_args(shlex.split(command))
    headers = dict(header.split(": ", 1) for header in args.headers)
    if args.data is not None:
        headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
    url = args.url.replace("http://127.0.0.1:8000", web.rest.url)
    return web.http.build_request(args.method, url, content=args.data, headers=headers)


@pytest.mark.parametrize(("command", "expected"), COMMANDS, ids=[one for one, _ in COMMANDS])
def test_the_command_gives_what_the_page_says(command: str, expected: str) -> None:
    token = Secret("TOKEN") if "Authorization" in command else None
    with served(token=token) as web, web.says("lamp/1", "on", encoding="text/plain"):
        answer = web.http.send(request(web, command), stream="-N" in command)
        if "-N" in command:
            web.session.put("lamp/1", "on", encoding="text/plain")
            lines = answer.iter_lines()
            shown = f"{next(lines)}\n{next(lines)}\n"
            answer.close()
        else:
            shown = answer.text
    assert answer.status_code == (400 if '"status": 400' in expected else 200)
    assert re.sub(r'"timestamp":"[^"]+"', '"timestamp":null', shown).strip() == expected.strip()


def test_every_verb_is_on_the_page() -> None:
    text = "".join(command for command, _ in COMMANDS)
    assert len(COMMANDS) >= 8
    assert all(word in text for word in ("PUT", "POST", "DELETE", "event-stream", "_raw", "Bearer"))


def test_every_key_of_the_section_is_on_the_page() -> None:
    ours = KEYS[: KEYS.index("__required__")]
    assert [key for key in ours if f"`{key}`" not in PAGE] == []
