"""What all attacks share: a router, somebody healthy beside it, and a conversation by hand."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.ports import free_port

import elea
from elea.transport.handshake import Opener, State
from elea.transport.negotiation import Offer
from elea.wire.batches import encode_batch
from elea.wire.codec import BatchDecoder, NetworkMessage
from elea.wire.framing import StreamDecoder, frame
from elea.wire.transport.frame import Frame
from elea.wire.transport.init import RESOLUTION_DEFAULT
from elea.wire.transport.keepalive import KeepAlive

ROOT: Final = Path(__file__).parents[1]
MIB: Final = 1024 * 1024
PATIENCE_S: Final = 60.0  # for anything that must happen at all; nothing is measured by it
_BATCH_LEN: Final = 40_000  # less than is agreed on loopback
_CLIENT: Final = 2
_ELEA: Final = "import sys; from elea.cli.main import main; sys.exit(main())"
_ECLIPSE: Final = """
import json, sys, zenoh
config = zenoh.Config()
for path, value in json.loads(sys.argv[1]).items():
    config.insert_json5(path, json.dumps(value))
with zenoh.open(config) as session:
    print("ready:", session.zid(), flush=True)
    sys.stdin.read()
"""

Settings = Mapping[str, object]
Services = Callable[[Path, int], Settings]  # of a folder, and a port for HTTP


@dataclass
class Check:
    """One figure and its bound."""

    name: str
    value: float
    bound: float
    timed: bool = False  # depends on the machine

    @property
    def held(self) -> bool:
        return self.value <= self.bound


def until(condition: Callable[[], object]) -> bool:
    """Poll for something that must happen; False if it does not."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


class Target:
    """A router in a process of its own, on loopback.

    Args:
        peer: `elea` or `eclipse`.
        scheme: Of its endpoint.
        settings: Of its configuration, by path.
        client: What clients of it need besides, as an object.
        services: Gives further settings: those of services.
    """

    def __init__(
        self,
        peer: str,
        scheme: str = "tcp",
        settings: Settings | None = None,
        client: Settings | None = None,
        services: Services | None = None,
    ) -> None:
        self.peer = peer
        self.port = free_port()
        self.http_port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="elea-attack-")
        self.folder = Path(self._folder.name)
        if services is not None:
            settings = {**(settings or {}), **services(self.folder, self.http_port)}
        self.endpoint = f"{scheme}/127.0.0.1:{self.port}"
        given: dict[str, object] = {
            "mode": "router",
            "listen/endpoints": [self.endpoint],
            "scouting/multicast/enabled": False,
            "adminspace/enabled": True,
            **(settings or {}),
        }
        if peer == "elea":
            cfg = [f"--cfg={path}:{json.dumps(value)}" for path, value in given.items()]
            command = [sys.executable, "-c", _ELEA, "router", *cfg]
        else:
            command = [sys.executable, "-c", _ECLIPSE, json.dumps(given)]
        self._log = self.folder / "log"
        with self._log.open("wb") as log:
            self._process = start(command, log.fileno())
        assert self._process.stdout is not None
        if not self._process.stdout.readline().startswith("ready"):
            raise RuntimeError(f"the router did not start: {' '.join(command[:4])} ...")
        self.client = client or {}
        self._observer: elea.Session | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._observer is not None:
            self._observer.close()
        end(self._process)
        self._folder.cleanup()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def rss_len(self) -> int:
        """The octets of memory that it holds."""
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", text)
        return 0 if found is None else int(found[1]) * 1024

    def own_len(self) -> int:
        """The bytes of memory that are its own: pages of files that it maps are not."""
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"RssAnon:\s+(\d+) kB", text)
        return 0 if found is None else int(found[1]) * 1024

    def log_count(self, text: str) -> int:
        """How many lines of its log hold a text."""
        return sum(text in line for line in self._log.read_text(errors="replace").splitlines())

    def children_len(self) -> int:
        """The octets of memory that its largest child holds."""
        sizes = [0]
        for one in Path(f"/proc/{self._process.pid}/task").glob("*/children"):
            for pid in one.read_text().split():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                    sizes.append(pages * os.sysconf("SC_PAGE_SIZE"))
        return max(sizes)

    def session(self) -> elea.Session:
        """A client of it."""
        return elea.open(self.client_settings())

    def client_settings(self) -> dict[str, object]:
        """The configuration of a client of it."""
        return {
            "mode": "client",
            "connect": {"endpoints": [self.endpoint], "timeout_ms": 20_000},
            "scouting": {"multicast": {"enabled": False}},
            **self.client,
        }

    def overflowed(self) -> int:
        """How many datagrams the kernel dropped because the router's socket was full (Linux)."""
        try:
            with open("/proc/net/udp", encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except FileNotFoundError:
            return 0
        return sum(int(row[-1]) for row in rows if int(row[1].split(":")[1], 16) == self.port)

    def counter(self, name: str, **labels: str) -> float:
        """The sum of what an Elea router counted under a name; 0 for any other."""
        if self.peer != "elea":
            return 0
        if self._observer is None:
            self._observer = self.session()
        found = self._observer.get("@/*/router/metrics?compression=false", timeout=20)
        lines = [line for one in found if one.ok for line in one.ok.payload.to_string().split("\n")]
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if re.match(rf"{name}[{{ ]", line) and all(one in line for one in wanted)
        )


def start(command: Sequence[str], log: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """A process that ends when its input does."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def end(process: subprocess.Popen[str]) -> str:
    """What a process still had to say."""
    process.terminate()
    try:
        return process.communicate(timeout=20)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


class Healthy:
    """A publisher and a subscriber that behave, in a process of their own."""

    def __init__(self, target: Target) -> None:
        given = json.dumps(target.client_settings())
        self._process = start([sys.executable, "-m", "attack.healthy", given])
        assert self._process.stdout is not None
        self.open_ms = float(self._process.stdout.readline() or "inf")

    def stop(self) -> dict[str, float]:
        """What became of what they sent."""
        output = self._process.communicate("stop\n", timeout=2 * PATIENCE_S)[0]
        found: dict[str, float] = json.loads(output or "{}")
        return found

    def kill(self) -> None:
        """End it, if it has not ended."""
        end(self._process)


@dataclass
class Raw:
    """A conversation by hand: handshake as it should be, and then anything."""

    sock: socket.socket
    sn: int
    mask: int
    peer_zid: bytes = b""
    closed: bool = False
    _stream: StreamDecoder = field(default_factory=StreamDecoder)

    @classmethod
    def connect(
        cls,
        port: int,
        zid: bytes | None = None,
        whatami: int = _CLIENT,
        resolution: int = RESOLUTION_DEFAULT,
    ) -> Raw:
        """Open a transport, as a client with a random identifier unless told."""
        sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        try:
            return cls._opened(sock, zid, whatami, resolution)
        except BaseException:
            sock.close()
            raise

    @classmethod
    def _opened(cls, sock: socket.socket, zid: bytes | None, whatami: int, resolution: int) -> Raw:
        zid = zid or os.urandom(16)
        offer = Offer(zid=zid, whatami=whatami, lease_ms=60_000, resolution=resolution)
        opener = Opener(offer, time.monotonic_ns())
        stream = StreamDecoder()
        while opener.agreed is None:
            if opener.state is State.PEER_KNOWN:
                opener.proceed(time.monotonic_ns())
            for batch in opener.outgoing():
                sock.sendall(frame(batch))
            if not stream.next_window():
                data = sock.recv(65_536)
                if not data:
                    raise ConnectionError("the router closed the link during the handshake")
                stream.feed(data)
                continue
            batch = bytes(stream.data[stream.start : stream.stop])
            opener.receive_batch(batch, time.monotonic_ns())
            if opener.failure is not None:
                raise ConnectionError(f"no session: {opener.failure.reason}")
        sock.setblocking(False)
        agreed = opener.agreed
        return cls(sock, agreed.own_initial_sn, agreed.sn_mask, agreed.peer_zid)

    def send(self, messages: Iterable[NetworkMessage], *, read: bool = True) -> None:
        """Send messages in as few batches as hold them."""
        batch: list[NetworkMessage] = []
        length = 0
        for message in messages:
            octets = len(encode_batch([Frame(0), message]))
            if batch and length + octets > _BATCH_LEN:
                self._frame(batch, read=read)
                batch, length = [], 0
            batch.append(message)
            length += octets
        if batch:
            self._frame(batch, read=read)

    def _frame(self, messages: list[NetworkMessage], *, read: bool) -> None:
        self.send_batch(encode_batch([Frame(self.next_sn()), *messages]), read=read)

    def next_sn(self) -> int:
        """The next sequence number of the reliable channel."""
        sn, self.sn = self.sn, (self.sn + 1) & self.mask
        return sn

    def send_batch(self, batch: bytes, *, read: bool = True) -> None:
        """Send one batch, reading meanwhile what comes unless it is to pile up."""
        left = memoryview(frame(batch))
        deadline_s = time.monotonic() + PATIENCE_S
        while left and not self.closed:
            select.select([self.sock] if read else [], [self.sock], [], 1)
            if read:
                self.drain()
            try:
                left = left[self.sock.send(left) :]
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    return  # it does not read us: what was to be shown
            except OSError:
                self.closed = True

    def keep_alive(self) -> None:
        """Say that we are there."""
        self.send_batch(encode_batch([KeepAlive()]))

    def drain(self) -> bytes:
        """Read and forget what came; notice when the router closed the link."""
        found = b""
        while not self.closed:
            try:
                data = self.sock.recv(MIB)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            self.closed = not data
            found += data
        return found

    def messages(self) -> list[object]:
        """Read what came."""
        found: list[object] = []
        self._stream.feed(self.drain())
        while (batch := self._stream.next_batch()) is not None:
            decoder = BatchDecoder(batch)
            while (message := decoder.next()) is not None:
                found.append(message)
        return found

    def is_closed(self) -> bool:
        """Whether the router closed the link."""
        self.drain()
        return self.closed

    def close(self) -> None:
        self.sock.close()
