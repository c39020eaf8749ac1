"""docs/howto/read-over-flight.md: its programs run, and it tells all that a ticket may say."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.unit.spark.logs import fill, log_at

from elea.store.flight.door import Door
from elea.store.flight.settings import FlightSettings
from elea.store.log.location import TOKEN_ENV
from elea.store.log.ticket import MEMBERS

PAGE = (Path(__file__).resolve().parents[4] / "docs/howto/read-over-flight.md").read_text("utf-8")
TOKEN = "a-token-that-is-long-enough"


def programs() -> list[str]:
    return re.findall(r"^```python\n(.+?)^```", PAGE, re.M | re.S)


def test_the_programs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(TOKEN_ENV, raising=False)
    location = f"grpc://127.0.0.1:{free_port()}"
    first, second, third = programs()
    names: dict[str, object] = {"token": TOKEN.encode()}
    with log_at(tmp_path / "log", 1) as log, closing(Door()) as door:
        fill(log, 0, 100)
        door.add("fleet", log.disk)
        door.open(FlightSettings.read({"location": location}))
        exec(first.replace("grpc://127.0.0.1:8815", location), names)
        assert sum(map(int, capsys.readouterr().out.split())) == 100
        exec(second.replace("fleet/*/imu", "k/1"), names)
        table = names["table"]
        assert (table.num_rows, table.schema.names) == (13, ["key", "ts", "payload"])  # type: ignore[attr-defined]
        monkeypatch.setenv(TOKEN_ENV, TOKEN)
        door.open(FlightSettings.read({"location": location}))
        exec(third, names)


def test_it_tells_all_that_a_ticket_may_say() -> None:
    told = re.findall(r"^\| (`.+?`) \|", PAGE, re.M)
    assert [name for one in told for name in re.findall(r"`(\w+)`", one)] == list(MEMBERS)
    [wanted] = re.findall(r"^wanted = (.+)$", PAGE, re.M)
    assert set(json.loads(wanted)) < set(MEMBERS)
