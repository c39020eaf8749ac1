"""Our links and Eclipse Zenoh's, as far as links go: an INIT passes in each direction."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import zenoh
from tests.link.cases import INIT_SYN
from tests.link.certificates import CLIENT_NAME, certificates
from tests.link.loops import ThreadLoop

from elea.errors import LinkError
from elea.link.accept import AcceptLoop
from elea.link.admission import Admission, Ticket
from elea.link.base import Link
from elea.link.connect import Connected, Connector
from elea.link.multicast import GroupLink
from elea.link.pump import LinkPump
from elea.link.registry import Registry
from elea.link.scouting_socket import ScoutingSockets
from elea.link.settings import LinkSettings, Pem, TlsSettings
from elea.link.timers import Timers
from elea.locator import Endpoint, Locator
from elea.wire.batches import decode_scouting, encode_scouting
from elea.wire.buffer import Reader
from elea.wire.codec import decode_transport
from elea.wire.framing import StreamDecoder, frame
from elea.wire.scouting.hello import Hello
from elea.wire.scouting.scout import Scout
from elea.wire.transport.init import Init
from elea.wire.transport.join import Join

SCHEMES = ["tcp", "tls", "mtls", "udp", "ws", "unixsock-stream"]
TIMEOUT_NS = 20_000_000_000


@dataclass
class Side:
    """Our end, and the batches it heard."""

    closing: ExitStack
    settings: LinkSettings
    loop: ThreadLoop = field(default_factory=ThreadLoop)
    batches: list[bytes] = field(default_factory=list)
    pumps: list[LinkPump] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.timers = Timers(self.loop.poller)
        self.closing.callback(self.loop.close)
        self.closing.callback(self._close_pumps)

    def connect(self, text: str) -> None:
        connector = Connector(self.loop.poller, self.timers, self.settings, Registry(entries=()))
        connector.connect([Endpoint.parse(text)], timeout_ns=TIMEOUT_NS, on_done=self._dialled)
        self.loop.until(lambda: bool(self.pumps or self.failures))
        assert self.failures == []

    def listen(self, text: str) -> Locator:
        endpoint = Endpoint.parse(text)
        scheme = Registry(entries=()).scheme(endpoint.protocol)
        [address, *_] = scheme.resolve(endpoint, listening=True)
        listener = scheme.listen(endpoint, address, self.settings)
        accepting = AcceptLoop(
            listener,
            self.loop.poller,
            self.timers,
            Admission(),
            on_link=self._accepted,
            on_failure=lambda who, error: self.failures.append(str(error)),
        )
        accepting.start()
        self.closing.callback(lambda: self.loop.run(accepting.close))
        return listener.locator

    def send(self, batch: bytes) -> None:
        [pump] = self.pumps
        pump.send([frame(batch) if pump.info.stream else batch])

    def next_init(self) -> Init:
        self.loop.until(lambda: bool(self.batches or self.failures))
        assert self.failures == []
        message = decode_transport(Reader(self.batches[0]))
        assert isinstance(message, Init)
        return message

    def _dialled(self, outcome: Connected | LinkError) -> None:
        if isinstance(outcome, LinkError):
            self.failures.append(str(outcome))
        else:
            self._start(outcome.link)

    def _accepted(self, link: Link, ticket: Ticket) -> None:
        ticket.settle()
        self._start(link)

    def _start(self, link: Link) -> None:
        decoder = StreamDecoder()

        def on_data(data: bytes, now_ns: int) -> None:
            if not link.info.stream:
                self.batches.append(data)
                return
            decoder.feed(data)
            while (batch := decoder.next_batch()) is not None:
                self.batches.append(batch)

        pump = LinkPump(link, self.loop.poller, on_data=on_data, on_closed=lambda reason: None)
        self.pumps.append(pump)
        pump.start()

    def _close_pumps(self) -> None:
        for pump in self.pumps:
            self.loop.run(pump.close)
        self.loop.run(lambda: None)


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@dataclass(frozen=True)
class Files:
    """Certificates as both sides take them."""

    ours: TlsSettings
    theirs: dict[str, object]


@pytest.fixture
def files(tmp_path: Path) -> Callable[[str], Files]:
    made = certificates()
    texts = {
        "root_ca_certificate": made.root_text,
        "listen_certificate": made.server.certificate_text,
        "listen_private_key": made.server.key_text,
        "connect_certificate": made.client.certificate_text,
        "connect_private_key": made.client.key_text,
    }
    for name, text in texts.items():
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_text(text)
    paths = {name: str(tmp_path / name) for name in texts}

    def make(scheme: str) -> Files:
        mutual = scheme == "mtls"
        pems = {name: Pem(path=path) for name, path in paths.items()}
        return Files(
            TlsSettings(enable_mtls=mutual, **pems),  # type: ignore[arg-type]  # all are Pem
            {f"transport/link/tls/{name}": path for name, path in paths.items()}
            | {"transport/link/tls/enable_mtls": mutual},
        )

    return make


def free_port(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def eclipse(settings: Mapping[str, object]) -> Iterator[zenoh.Session]:
    config = zenoh.Config()
    base: dict[str, object] = {
        "scouting/multicast/enabled": False,
        "listen/endpoints": [],
        "transport/unicast/accept_timeout": 500,  # closing waits for handshakes that go on
    }
    for key, value in {**base, **settings}.items():
        config.insert_json5(key, json.dumps(value))
    session = zenoh.open(config)
    try:
        yield session
    finally:
        session.close()  # type: ignore[no-untyped-call]  # the wheel's stubs lack it


def endpoint_of(scheme: str, folder: Path) -> str:
    if scheme == "unixsock-stream":
        return f"unixsock-stream/{folder}/s"
    kind = socket.SOCK_DGRAM if scheme == "udp" else socket.SOCK_STREAM
    return f"{'tls' if scheme == 'mtls' else scheme}/127.0.0.1:{free_port(kind)}"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_eclipse_router_answers_our_init(
    scheme: str, closing: ExitStack, files: Callable[[str], Files], tmp_path: Path
) -> None:
    text = endpoint_of(scheme, tmp_path)
    tls = files(scheme)
    closing.enter_context(eclipse({"mode": "router", "listen/endpoints": [text], **tls.theirs}))
    side = Side(closing, LinkSettings(tls=tls.ours))
    side.connect(text)
    side.send(INIT_SYN)
    answer = side.next_init()
    assert answer.cookie
    assert answer.whatami == 0
    if scheme in ("tls", "mtls"):
        assert "127.0.0.1" in side.pumps[0].info.peer_names


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_eclipse_client_sends_its_init_to_our_listener(
    scheme: str, closing: ExitStack, files: Callable[[str], Files], tmp_path: Path
) -> None:
    tls = files(scheme)
    side = Side(closing, LinkSettings(tls=tls.ours))
    locator = side.listen(endpoint_of(scheme, tmp_path))
    settings = {
        "mode": "client",
        "connect/endpoints": [str(locator)],
        "connect/timeout_ms": 0,
        "transport/unicast/open_timeout": 500,
        **tls.theirs,
    }

    def connect() -> None:  # nobody answers, so its open fails: the link is what this is about
        with pytest.raises(zenoh.ZError), eclipse(settings):
            pass

    client = threading.Thread(target=connect)
    client.start()
    try:
        question = side.next_init()
    finally:
        client.join()
    assert question.cookie is None
    assert question.whatami == 2
    info = side.pumps[0].info
    assert info.peer_common_name == (CLIENT_NAME if scheme == "mtls" else None)


@pytest.mark.line("S36")
def test_an_eclipse_peer_answers_our_scout_and_we_hear_its_own(closing: ExitStack) -> None:
    group = f"224.0.0.224:{free_port(socket.SOCK_DGRAM)}"
    ours = ScoutingSockets(group, interface="lo")
    closing.callback(ours.close)
    loop = ThreadLoop()
    closing.callback(loop.close)
    heard: list[Scout | Hello] = []
    ours.start(loop.poller, lambda found, now_ns: heard.append(decode_scouting(found.data)))
    scouting = {
        "mode": "peer",
        "scouting/multicast/enabled": True,
        "scouting/multicast/address": group,
        "scouting/multicast/interface": "lo",
        "listen/endpoints": ["tcp/127.0.0.1:0"],
    }
    closing.enter_context(eclipse(scouting))
    loop.until(lambda: any(isinstance(one, Scout) for one in heard))
    assert ours.ask(encode_scouting(Scout(what=0b111)))
    loop.until(lambda: any(isinstance(one, Hello) for one in heard))
    [hello, *_] = [one for one in heard if isinstance(one, Hello)]
    assert [str(one).startswith("tcp/127.0.0.1:") for one in hello.locators or ()] == [True]


def test_an_eclipse_peer_and_we_hear_each_other_in_a_group(closing: ExitStack) -> None:
    text = f"udp/224.0.0.226:{free_port(socket.SOCK_DGRAM)}#iface=lo"
    group = GroupLink(Endpoint.parse(text), LinkSettings())
    closing.callback(group.close)
    closing.enter_context(eclipse({"mode": "peer", "listen/endpoints": [text]}))
    loop = ThreadLoop()
    closing.callback(loop.close)
    heard: list[bytes] = []

    def readable() -> None:
        found = group.receive()
        if found is not None:
            heard.append(found[0])

    loop.poller.register(group.fileno(), readable, lambda: None)
    loop.until(lambda: bool(heard))
    loop.poller.unregister(group.fileno())
    assert isinstance(decode_transport(Reader(heard[0])), Join)
