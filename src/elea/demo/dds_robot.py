"""The DDS robot: a Cyclone DDS participant in a process of its own, and the fleet's thread for it.

    python -m elea.demo.dds_robot DOMAIN

It reads JSON lines from standard input, writes each as a sample of its topic, and answers with the
sample's number. It knows nothing of Zenoh: the bridge in the router does. DDS is on loopback alone.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any, Final

from elea.demo.ledger import SENT, numbered_id
from elea.demo.member import Member
from elea.demo.plan import ARM, ARM_KEY, ARM_TOPIC, DDS_NAME
from elea.errors import EleaError, LinkError

if TYPE_CHECKING:
    from elea.demo.fleet import Fleet

PACKAGE: Final = "cyclonedds"
NOT_INSTALLED: Final = "no DDS robot: pip install 'elea[dds]' adds one"
DOMAINS: Final = range(94, 102)  # 93 is that of the files; above 101, ports are ephemeral ones
_PORT_FIRST: Final = 7_400
_PORTS_OF_DOMAIN: Final = 250
_MATCH_S: Final = 30.0
_ACK_S: Final = 30.0
_LEAVE_S: Final = 60.0
_READY: Final = "ready"
_CONFIG: Final = """<CycloneDDS><Domain><General><Interfaces>
<NetworkInterface address="127.0.0.1"/></Interfaces><AllowMulticast>false</AllowMulticast></General>
<Discovery><ParticipantIndex>auto</ParticipantIndex>
<MaxAutoParticipantIndex>20</MaxAutoParticipantIndex>
<Peers><Peer address="127.0.0.1"/></Peers></Discovery></Domain></CycloneDDS>"""


def is_installed() -> bool:
    """Whether the extra `dds` is installed."""
    return find_spec(PACKAGE) is not None


@contextmanager
def reserved_domain() -> Iterator[int | None]:
    """Reserve a DDS domain for a run, so that two runs on a host do not see each other's robots.

    The reservation is a bound TCP port, which DDS does not use; it ends with the process. None: the
    package is not installed, or every domain is taken.
    """
    for domain in DOMAINS if is_installed() else ():
        with socket.socket() as reserved:
            try:
                reserved.bind(("127.0.0.1", _PORT_FIRST + _PORTS_OF_DOMAIN * domain))
            except OSError:
                continue
            yield domain
            return
    yield None


class DdsRobot(Member):
    """The robot as the fleet sees it: samples are sent to its process when they are due.

    Args:
        fleet: The fleet it belongs to.
        domain: Its DDS domain.
    """

    def __init__(self, fleet: Fleet, domain: int) -> None:
        super().__init__(fleet, DDS_NAME)
        self._domain = domain

    def live(self) -> None:
        """Start the process, and have it write what is due.

        Raises:
            EleaError: the process failed.
        """
        fleet = self._fleet
        command = [sys.executable, "-m", __name__, str(self._domain)]
        with subprocess.Popen(  # noqa: S603  # ourselves, no shell
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                if process.stdout.readline().strip() != _READY:
                    raise EleaError("the DDS robot found no bridge; see fleet.log")
                fleet.ready.wait()
                for due in fleet.plan.due_of(ARM):
                    if not self.waited(fleet.start_s + due.at_s):
                        break
                    process.stdin.write(json.dumps(fleet.plan.arm(due)) + "\n")
                    process.stdin.flush()
                    number = int(process.stdout.readline())
                    fleet.ledger.write(ARM_KEY, [numbered_id(ARM_KEY, number)], SENT)
                process.stdin.close()
                if process.wait(_LEAVE_S) != 0:
                    raise EleaError("the DDS robot's samples were not acknowledged; see fleet.log")
            finally:
                process.kill()


def main(arguments: Sequence[str]) -> int:
    """Be the participant; returns the exit code."""
    [domain] = arguments
    with _Arm(int(domain)) as arm:
        arm.wait_for_reader(_MATCH_S)
        _answer(sys.stdout, _READY)
        for line in sys.stdin:
            said = json.loads(line)
            arm.write(**said)
            _answer(sys.stdout, str(said["n"]))
        arm.wait_for_acknowledgements(_ACK_S)
    return 0


def _answer(output: IO[str], line: str) -> None:
    output.write(line + "\n")
    output.flush()


class _Arm:
    """A writer of the topic, reliable and without a limit to what it keeps."""

    def __init__(self, domain: int) -> None:
        # Late: the package is an extra, and the fleet's own process needs none of it.
        from cyclonedds.core import Policy, Qos
        from cyclonedds.domain import Domain, DomainParticipant
        from cyclonedds.pub import DataWriter
        from cyclonedds.topic import Topic
        from cyclonedds.util import duration

        from elea.demo.dds_arm import Arm

        self._type: Any = Arm
        self._domain = Domain(domain, _CONFIG)
        participant = DomainParticipant(domain)
        qos = Qos(Policy.Reliability.Reliable(duration(seconds=_ACK_S)), Policy.History.KeepAll)
        self._writer: Any = DataWriter(participant, Topic(participant, ARM_TOPIC, Arm), qos=qos)
        self._duration = duration

    def __enter__(self) -> _Arm:
        return self

    def __exit__(self, *_args: object) -> None:
        del self._writer

    def wait_for_reader(self, timeout_s: float) -> None:
        """Wait for the bridge's reader, which exists once the recorder subscribes to the key.

        Raises:
            LinkError: none came in time.
        """
        until_s = time.monotonic() + timeout_s
        while not self._writer.get_publication_matched_status().current_count:
            if time.monotonic() > until_s:
                raise LinkError(f"no reader of DDS topic {ARM_TOPIC} within {timeout_s:g} s")
            time.sleep(0.02)

    def write(self, n: int, joints: list[float], load: float, mode: str) -> None:
        """Write a sample."""
        self._writer.write(self._type(n=n, joints=joints, load=load, mode=mode))

    def wait_for_acknowledgements(self, timeout_s: float) -> None:
        """Wait until the bridge has every sample.

        Raises:
            LinkError: it has not in time.
        """
        if not self._writer.wait_for_acks(self._duration(seconds=timeout_s)):
            raise LinkError(f"samples not acknowledged within {timeout_s:g} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
