"""Fleet: simulated robots as Zenoh clients, in a process of their own.

    python -m elea.demo.fleet ENDPOINT GATEWAY DOMAIN DIRECTORY PLAN

Each robot has a session, a liveliness token and a thread that publishes what the plan says, when it
says so; what is late is made up for. Poses and batteries are acknowledged puts, and wait on the
robot's disk while no recorder answers. Beside them are tiny devices, which speak XRCE, a ROS 2 node
on rmw_zenoh, and a DDS participant unless DOMAIN is `-`. A JSON line every second tells how many
were sent. A line on standard input ends that early. Robots stay, so that their caches can be asked,
until it is closed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

from elea.config.config import Config
from elea.demo.dds_robot import DdsRobot
from elea.demo.ledger import REFUSED, SENT, STORED, WAITING, Id, LedgerWriter
from elea.demo.member import Member
from elea.demo.plan import RADIO, ROOT, STREAMS, TINY_COUNT, Plan, Stream, key_of, name_of
from elea.demo.ros_robot import RosRobot
from elea.demo.tiny import Tiny
from elea.errors import LinkError, StoreError
from elea.provenance import SourceInfo
from elea.qos import CongestionControl
from elea.session.advanced import declare_advanced_publisher
from elea.session.advanced_config import CacheConfig, MissDetectionConfig
from elea.session.advanced_publisher import AdvancedPublisher
from elea.session.publisher import Publisher
from elea.session.session import Session, open

LEDGER: Final = "ledger.csv"
NO_DOMAIN: Final = "-"
_CACHED_COUNT: Final = 2_000  # samples; more than a minute of them
_BEAT_S: Final = 0.5
_MATCH_S: Final = 30.0
_ACK_S: Final = 10.0
_DRAIN_S: Final = 60.0
_TELL_S: Final = 1.0
_POLL_S: Final = 0.02
_ORPHAN_S: Final = 3.0  # to say goodbye, if whoever started this is gone


class Fleet:
    """All robots, the tiny devices, the ROS 2 node and the DDS participant.

    Args:
        plan: What they do.
        endpoint: Where they connect to.
        gateway: Where the tiny devices do.
        directory: Of the ledger, and of what waits to be stored.
        domain: The DDS domain, if the plan has a DDS robot.
    """

    def __init__(
        self, plan: Plan, endpoint: str, gateway: str, directory: Path, domain: int | None = None
    ) -> None:
        assert plan.dds == (domain is not None)
        self.plan = plan
        self.endpoint = endpoint
        self.gateway = gateway
        self.domain = domain
        self.directory = directory
        self.ledger = LedgerWriter(directory / LEDGER)
        self.is_ending = threading.Event()  # publish no more
        self.may_leave = threading.Event()  # and close the sessions
        members_count = plan.robots + TINY_COUNT + 1 + plan.dds
        self.ready = threading.Barrier(members_count, self._start)
        self.start_s = 0.0
        self.late_s = 0.0  # the last sample that was published

    def _start(self) -> None:
        self.start_s = time.monotonic()

    def run(self, told: TextIO) -> None:
        """Publish all there is, tell how it goes, and stay until `may_leave`.

        Raises:
            EleaError: what ended a robot.
        """
        robots: list[Member] = [Robot(self, one + 1) for one in range(self.plan.robots)]
        robots += [Tiny(self, one + 1) for one in range(TINY_COUNT)]
        robots.append(RosRobot(self, open(_config(self.endpoint))))
        if self.domain is not None:
            robots.append(DdsRobot(self, self.domain))
        with self.ledger:
            for robot in robots:
                robot.start()
            for robot in robots:
                while not robot.done.wait(_TELL_S):
                    self._tell(told, done=False)
            failures = [robot.failure for robot in robots if robot.failure is not None]
            if not failures:
                self._tell(told, done=True)
                self.may_leave.wait()
            self.may_leave.set()
            for robot in robots:
                robot.join()
        if failures:
            raise failures[0]

    def _tell(self, told: TextIO, *, done: bool) -> None:
        counts = self.ledger.counts
        said = {
            "sent": sum(counts.values()) - counts[WAITING],  # which are told again
            "stored": counts[STORED],
            "refused": counts[REFUSED],
            "late_ms": round(1_000 * self.late_s),
            "done": done,
        }
        told.write(json.dumps(said) + "\n")
        told.flush()


class Robot(Member):
    """One robot: it comes, publishes what is due, and may go and come again.

    Args:
        fleet: That it belongs to.
        number: Which one it is.
    """

    def __init__(self, fleet: Fleet, number: int) -> None:
        super().__init__(fleet, name_of(number))
        self.number = number

    def live(self) -> None:
        """All its lives."""
        fleet = self._fleet
        first, *others = fleet.plan.lives(self.number)
        self._live(first, is_last=not others)
        for life in others:
            if not self.waited(fleet.start_s + life[0]):
                return
            self._live(life, is_last=True)

    def _live(self, life: tuple[float, float], *, is_last: bool) -> None:
        fleet, own = self._fleet, self._fleet.directory / "robots" / self.name
        with open(_config(fleet.endpoint)) as session:
            spool = session.declare_spool(own)
            token = session.liveliness().declare_token(f"{ROOT}/{self.name}")
            voices = {stream: self._voice(session, stream) for stream in STREAMS}
            for voice in voices.values():
                voice.wait_for_match()
            if life[0] == 0:
                fleet.ready.wait()
            for due in fleet.plan.samples(life):
                if not self.waited(fleet.start_s + due.at_s):
                    break
                payload = fleet.plan.payload(self.number, due, time.time_ns())
                voices[due.stream].say(payload)
                fleet.late_s = time.monotonic() - fleet.start_s - due.at_s
            if spool.drain(_DRAIN_S):
                for voice in voices.values():
                    voice.settle()
            if is_last:
                self.done.set()
                fleet.may_leave.wait()
            token.undeclare()

    def _voice(self, session: Session, stream: Stream) -> Voice:
        key, ledger = key_of(self.number, stream), self._fleet.ledger
        block = CongestionControl.BLOCK
        if stream.acknowledged:
            plain = session.declare_publisher(
                key, encoding=stream.encoding, congestion_control=block
            )
            return Voice(plain, key, ledger)
        numbered = declare_advanced_publisher(
            session,
            key,
            encoding=stream.encoding,
            congestion_control=block,
            cache=None if self.number == RADIO else CacheConfig(_CACHED_COUNT),
            sample_miss_detection=MissDetectionConfig(sporadic_heartbeat=_BEAT_S),
        )
        return Voice(numbered, key, ledger)


class Voice:
    """What a robot publishes on one key, noted in the ledger.

    Args:
        publisher: An advanced one gives numbers itself; puts of any other are acknowledged.
        key: Its key.
        ledger: Where it is noted.
    """

    def __init__(
        self, publisher: Publisher | AdvancedPublisher, key: str, ledger: LedgerWriter
    ) -> None:
        self._publisher = publisher
        self._key = key
        self._ledger = ledger
        self._count = 0
        self._waiting: list[Id] = []

    def wait_for_match(self) -> None:
        """Wait until somebody records it.

        Raises:
            LinkError: nobody does.
        """
        until_s = time.monotonic() + _MATCH_S
        while not self._publisher.matching_status.matching:
            if time.monotonic() > until_s:
                raise LinkError(f"nobody records {self._key}")
            time.sleep(_POLL_S)

    def say(self, payload: bytes) -> None:
        """Publish, and note it."""
        source = self._publisher.id
        id = Id(str(source.zid), source.eid, self._count)
        self._count += 1
        if isinstance(self._publisher, AdvancedPublisher):
            self._publisher.put(payload)
            state = SENT
        else:
            state = _stored(self._publisher, payload, SourceInfo(source, id.sn))
        if state == WAITING:
            self._waiting.append(id)
        self._ledger.write(self._key, [id], state)

    def settle(self) -> None:
        """What waited on the robot's disk is stored now."""
        self._ledger.write(self._key, self._waiting, STORED)
        self._waiting = []


def _stored(publisher: Publisher, payload: bytes, source: SourceInfo) -> str:
    try:
        ack = publisher.put(payload, source_info=source, ack="stored", timeout=_ACK_S)
    except StoreError:
        return REFUSED
    return WAITING if ack.spooled else STORED


def _config(endpoint: str) -> Config:
    return Config.from_json5(
        json.dumps(
            {
                "mode": "client",
                "connect": {"endpoints": [endpoint], "exit_on_failure": False},
                "scouting": {"multicast": {"enabled": False}},
                "timestamping": {"enabled": True},
            }
        )
    )


def main(arguments: Sequence[str]) -> int:
    """Run a fleet; returns the exit code."""
    endpoint, gateway, domain, directory, plan = arguments
    number = None if domain == NO_DOMAIN else int(domain)
    fleet = Fleet(Plan(**json.loads(plan)), endpoint, gateway, Path(directory), number)

    starter = os.getppid()

    def watch() -> None:
        """A line: publish no more. Closed, or whoever started this is gone: leave."""
        for _ in sys.stdin:
            fleet.is_ending.set()
        fleet.is_ending.set()
        fleet.may_leave.set()
        time.sleep(_ORPHAN_S)
        if os.getppid() != starter:
            os._exit(1)  # the router went too: what waits will not be stored, and nobody counts it

    threading.Thread(target=watch, daemon=True).start()
    fleet.run(sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
