"""A small fleet as a user would run it: recorded, with a lake, a pipeline, alerts and refusals.

The journeys and the pictures of the documentation are made of it. No Spark runs: the pipeline's
state and tables are made here.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import deltalake
import pyarrow as pa
from tests.unit.cli.ends import eventually
from tests.unit.daemon.rig import client_of, options, running
from tests.unit.web.ui.rig import rest_of

import elea
from elea.daemon.daemon import Daemon
from elea.provenance import SourceInfo
from elea.spark.pipelines.reading import load
from elea.spark.pipelines.served import PipelineServer
from elea.spark.pipelines.state import Status, TableStatus, now_status
from elea.store.historian.service import HistorianService
from elea.store.recorder.service import RecorderService
from elea.store.sql.service import SqlService
from elea.timestamp import NTP64, Timestamp
from elea.web.service import start

ROBOTS: Final = 6
PAST_S: Final = 900.0  # recorded before the page is opened
LOST: Final = (460, 16)  # of r03: from which number on, how many
RULES: Final = (
    'access_control:{enabled:true,default_permission:"allow",rules:[{id:"own keys",'
    'permission:"deny",flows:["ingress"],messages:["put"],key_exprs:["fleet/*/command"]}],'
    'subjects:[{id:"robots"}],policies:[{rules:["own keys"],subjects:["robots"]}]}'
)
PIPELINE: Final = """\
pipeline: fleet
log: {folder}/log/fleet
storage: {folder}/lake
connect: tcp/127.0.0.1:1
tables:
  bronze: {{archive: "**"}}
  imu: {{decode: json, key: "fleet/{{robot}}/imu", schema: {{n: i64, ax: f64, temp: f64}}}}
  battery: {{decode: json, key: "fleet/{{robot}}/battery", schema: {{volts: f64, percent: i32}}}}
  imu_1s:
    from: imu
    window: {{every: 1 second, by: [robot], values: {{ax: avg, temp: max}}, late: 5 seconds}}
    publish: "gold/{{robot}}/imu_1s"
  hot:
    from: imu
    alert: {{when: "temp > 80", clear: "temp < 75", by: [robot]}}
    publish: "alerts/{{robot}}/hot"
  losses: {{from: bronze, losses: {{}}}}
"""


@dataclass
class Stage:
    """What runs."""

    daemon: Daemon
    url: str
    link: str  # with the right to publish
    folder: Path
    session: elea.Session  # of an operator
    status: Status


@contextmanager
def staged(folder: Path, *cfg: str, past_s: float = PAST_S) -> Iterator[Stage]:
    """The fleet, and where its page is."""
    chosen = options(
        'metadata:{name:"edge-a"}',
        RULES,
        f'plugins/recorder:{{directory:"{folder}/log",recordings:{{fleet:{{key_exprs:["fleet/**","alerts/**"]}}}}}}',
        f'plugins/historian:{{logs:"{folder}/log/fleet"}}',
        f'plugins/sql:{{tables:"{folder}/lake"}}',
        *cfg,
        ui=True,
        rest_http_port="0",
    )
    _write_lake(folder / "lake")
    services: dict[str, Any] = {
        "rest": start,
        "recorder": RecorderService,
        "historian": HistorianService,
        "sql": SqlService,
    }
    with ExitStack() as stack:
        daemon = stack.enter_context(running(chosen, **services))
        robots = [stack.enter_context(client_of(daemon)) for _ in range(ROBOTS)]
        operator = stack.enter_context(client_of(daemon))
        rest = rest_of(daemon)
        status = _status()
        (folder / "pipeline.yaml").write_text(PIPELINE.format(folder=folder), encoding="utf-8")
        definition = load(folder / "pipeline.yaml")

        def told() -> Status:
            status.at_s = time.time()
            table = status.tables["imu"]
            table.batch, table.rows = (table.batch or 0) + 1, table.rows + 60
            table.lag_s = round(1.3 + 0.2 * math.sin(status.at_s), 2)
            return status

        server = PipelineServer(daemon.session, definition, told)
        stack.callback(server.stop)
        stack.enter_context(operator.declare_subscriber("fleet/*/imu", lambda _: None))
        stack.enter_context(operator.declare_subscriber("fleet/*/battery", lambda _: None))
        fleet = _Fleet(robots)
        fleet.replay(past_s)
        robots[2].put("fleet/r02/command", "go")
        robots[2].put("fleet/r02/command", "go")
        _raise_alerts(operator)
        fleet.start()
        stack.callback(fleet.stop)
        assert rest.operate_url is not None
        assert eventually(lambda: _rows(daemon) > past_s)
        yield Stage(daemon, rest.url, rest.operate_url, folder, operator, status)


class _Fleet:
    """Robots that publish 2 values a second, and did so before."""

    def __init__(self, robots: list[elea.Session]) -> None:
        self._count = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._imu = [
            one.declare_publisher(f"fleet/r{n:02}/imu", encoding="application/json")
            for n, one in enumerate(robots)
        ]
        self._battery = [
            one.declare_publisher(f"fleet/r{n:02}/battery", encoding="application/json")
            for n, one in enumerate(robots)
        ]
        publishers = [*self._imu, *self._battery]
        assert eventually(lambda: all(one.matching_status.matching for one in publishers))

    def replay(self, past_s: float) -> None:
        """What was recorded before."""
        now_s = time.time()
        count = int(past_s)
        for number in range(count):
            self._publish(number, now_s - count + number)
        self._count = count

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            self._publish(self._count, time.time())
            self._count += 1

    def _publish(self, number: int, at_s: float) -> None:
        for robot, publisher in enumerate(self._imu):
            if robot == 3 and 0 <= number - LOST[0] < LOST[1]:
                continue
            hot = 30 * max(0.0, math.sin(number / 90)) if robot == 5 else 0.0
            value = {
                "n": number,
                "ax": round(0.6 * math.sin(number / 7 + robot), 3),
                "temp": round(44 + 6 * math.sin(number / 60 + robot) + hot, 2),
            }
            _put(publisher, value, number, at_s)
            if number % 10 == 0:
                charge = {"volts": round(24 - number / 900, 2), "percent": 96 - number // 40}
                _put(self._battery[robot], charge, number // 10, at_s)


def _put(publisher: elea.Publisher, value: dict[str, float], number: int, at_s: float) -> None:
    stamp = Timestamp(NTP64.from_nanos(round(at_s * 1e9)), publisher.id.zid)
    publisher.put(json.dumps(value), timestamp=stamp, source_info=SourceInfo(publisher.id, number))


def _raise_alerts(session: elea.Session) -> None:
    now_s = time.time()
    values = json.dumps({"temp": 81.4})
    for id_, robot, state, ago_s in (
        ("a1", "r01", "raised", 500),
        ("a1", "r01", "cleared", 430),
        ("b2", "r05", "raised", 42),
    ):
        told = {"id": id_, "state": state, "robot": robot, "values": values}
        told["at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s - ago_s))
        told["sample_key"] = f"fleet/{robot}/imu"
        session.put(f"alerts/{robot}/hot", json.dumps(told), encoding="application/json")


def _status() -> Status:
    status = now_status("fleet")
    status.state = "running"
    rows = {"bronze": 15_646, "imu": 12_416, "battery": 1_241, "imu_1s": 499, "hot": 3, "losses": 1}
    kinds = {"bronze": "archive", "imu": "decoded", "battery": "decoded"}
    status.tables = {
        name: TableStatus(kinds.get(name, "gold"), rows=count, state="running", rate=count / 300)
        for name, count in rows.items()
    }
    for name in ("bronze", "imu", "battery"):
        status.tables[name].lag, status.tables[name].lag_s = 40, 1.3
        status.tables[name].batch_s = 0.6
    status.tables["imu_bad"] = TableStatus("bad", rows=6, state="running")
    status.events = ["2026-11-16T14:01:12Z imu: 6 rows could not be decoded"]
    return status


def _write_lake(lake: Path) -> None:
    robots = [f"r{n:02}" for n in range(ROBOTS)]
    rows = {
        "robot": pa.array([robots[n % ROBOTS] for n in range(600)]),
        "n": pa.array(range(600)),
        "temp": pa.array([44 + 6 * math.sin(n / 60 + n % ROBOTS) for n in range(600)]),
    }
    deltalake.write_deltalake(str(lake / "imu"), pa.table(rows))
    deltalake.write_deltalake(
        str(lake / "battery"), pa.table({"robot": robots, "volts": [23.5] * ROBOTS})
    )


def _rows(daemon: Daemon) -> int:
    for running_ in daemon.services:
        if running_.name == "recorder":
            book = running_.service.status().get("recordings/fleet")
            logs = book.get("logs") if isinstance(book, dict) else None
            if isinstance(logs, dict):
                return sum(one["rows"] for one in logs.values())  # type: ignore[index,call-overload,misc]
    return 0
