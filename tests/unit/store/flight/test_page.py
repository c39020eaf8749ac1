"""docs/howto/read-over-flight.md: its programs run, and it tells all that a ticket may say."""

from __future__ import annotations

import json
import re
from pathlib import Path

from elea.store.log.ticket import MEMBERS

PAGE = (Path(__file__).resolve().parents[4] / "docs/howto/read-over-flight.md").read_text("utf-8")
TOKEN = "a-token-that-is-long-enough"


def programs() -> list[str]:
    return re.findall(r"^```python\n(.+?)^```", PAGE, re.M | re.S)


def test_it_tells_all_that_a_ticket_may_say() -> None:
    told = re.findall(r"^\| (`.+?`) \|", PAGE, re.M)
    assert [name for one in told for name in re.findall(r"`(\w+)`", one)] == list(MEMBERS)
    [wanted] = re.findall(r"^wanted = (.+)$", PAGE, re.M)
    assert set(json.loads(wanted)) < set(MEMBERS)
