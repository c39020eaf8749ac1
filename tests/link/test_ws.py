"""WebSocket: what only this scheme has."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.link.cases import TCP, WS
from tests.link.rig import Case, Pair, Rig, turns, wait
from websockets.client import ClientProtocol
from websockets.frames import Opcode
from websockets.typing import Origin
from websockets.uri import parse_uri

from elea.errors import LinkError, MissingDependencyError
from elea.link.base import Link, Listener
from elea.link.registry import Registry

MakeRig = Callable[[Case], Rig]


class Browser:
    """Another implementation's client, by hand."""

    def __init__(self, listener: Listener, origin: str | None = None) -> None:
        port = listener.locator.host_port()[1]
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.protocol = ClientProtocol(
            parse_uri(f"ws://127.0.0.1:{port}/any/path"),
            origin=None if origin is None else Origin(origin),
        )
        self.protocol.send_request(self.protocol.connect())
        self.send()

    def send(self) -> None:
        for data in self.protocol.data_to_send():
            if data:
                self.sock.sendall(data)

    def receive(self) -> None:
        self.protocol.receive_data(self.sock.recv(65_536))


def welcome(one: Rig, listener: Listener, browser: Browser) -> Link:
    """The accepted end, once the upgrade is done."""
    one.closing.append(browser.sock)  # type: ignore[arg-type]  # it can be closed
    accepted = None
    for _ in turns():
        if accepted is None:
            accepted = listener.accept()
            if accepted is not None:
                one.closing.append(accepted)
        if accepted is not None:
            link = accepted.step()
            if link is not None:
                one.closing.append(link)
                browser.receive()
                return link
        wait([(listener.fileno(), 1)])
    raise AssertionError("no upgrade")


def next_of(link: Link) -> bytes:
    for _ in turns():
        data = link.read(1)
        if data is not None:
            return data
        wait([(link.fileno(), 1)])
    raise AssertionError("nothing arrived")


def test_a_message_in_fragments_with_a_ping_between_them(rig: MakeRig) -> None:
    one = rig(WS)
    listener = one.listen()
    browser = Browser(listener)
    link = welcome(one, listener, browser)
    browser.protocol.send_binary(b"one ", fin=False)
    browser.protocol.send_ping(b"alive?")
    browser.protocol.send_continuation(b"batch", fin=True)
    browser.protocol.send_binary(b"")
    browser.protocol.send_binary(b"next")
    browser.send()
    assert next_of(link) == b"one batch"
    assert next_of(link) == b"next"
    browser.receive()
    [pong] = browser.protocol.events_received()[1:]
    assert getattr(pong, "opcode", None) is Opcode.PONG


def test_a_text_message_ends_the_link(rig: MakeRig) -> None:
    one = rig(WS)
    listener = one.listen()
    browser = Browser(listener)
    link = welcome(one, listener, browser)
    browser.protocol.send_binary(b"fine")
    browser.protocol.send_text(b"hello?")
    browser.send()
    assert next_of(link) == b"fine"
    with pytest.raises(LinkError, match="a text message came"):
        next_of(link)
    with pytest.raises(LinkError):
        link.write([b"x"])
    browser.receive()
    assert browser.protocol.close_rcvd is not None


def test_a_message_larger_than_a_batch_ends_the_link(rig: MakeRig) -> None:
    one = rig(WS)
    listener = one.listen()
    browser = Browser(listener)
    link = welcome(one, listener, browser)
    browser.protocol.send_binary(bytes(65_536))
    browser.send()
    with pytest.raises(LinkError, match="65536"):
        next_of(link)


def test_octets_that_are_no_websocket_end_the_link(rig: MakeRig) -> None:
    one = rig(WS)
    listener = one.listen()
    browser = Browser(listener)
    link = welcome(one, listener, browser)
    browser.sock.sendall(b"\xff" * 100)
    with pytest.raises(LinkError, match="read from ws/"):
        next_of(link)


@pytest.mark.parametrize(
    ("origins", "origin", "status"),
    [
        ("", None, 101),
        ("", "https://evil.example", 403),
        ("#origins=https://a.example,https://b.example", "https://b.example", 101),
        ("#origins=https://a.example", "https://evil.example", 403),
    ],
)
def test_web_pages_are_let_in_only_if_they_are_listed(
    origins: str, origin: str | None, status: int, rig: MakeRig
) -> None:
    one = rig(replace(WS, listen=lambda _: f"ws/127.0.0.1:0{origins}"))
    listener = one.listen()
    browser = Browser(listener, origin)
    if status == 101:
        welcome(one, listener, browser)
    else:
        with pytest.raises(LinkError, match="Origin"):
            welcome(one, listener, browser)
        browser.receive()
    [response] = browser.protocol.events_received()
    assert getattr(response, "status_code", None) == status


def test_a_listener_that_is_no_websocket(rig: MakeRig) -> None:
    plain = rig(TCP).listen()
    one = rig(replace(WS, connect=lambda locator: locator.replace("tcp/", "ws/")))

    def connect(answer: bytes) -> None:
        dialled = one.dial(plain)
        accepted = None
        for _ in turns():
            dialled.step()
            if accepted is None:
                accepted = plain.accept()
                if accepted is not None:
                    link = accepted.step()
                    assert link is not None
                    link.write([answer] if answer else [])
                    link.close()
            wait([(dialled.fileno(), dialled.wants()), (plain.fileno(), 1)])

    for answer, said in (
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "HTTP status 404: is the other endpoint a ws/ one"),
        (b"\x02\x00\x03\x00", "is the other endpoint a ws/ one"),
        (b"", "is the other endpoint a ws/ one"),
    ):
        with pytest.raises(LinkError, match=said):
            connect(answer)


def test_what_comes_with_the_answer_to_the_upgrade_is_not_lost(rig: MakeRig) -> None:
    one = rig(WS)
    listener = one.listen()
    dialled = one.dial(listener)
    accepted = None
    far = None
    for _ in turns():
        if accepted is None:
            assert dialled.step() is None
            accepted = listener.accept()
        else:
            far = accepted.step()
            if far is not None:
                break
        wait([(dialled.fileno(), dialled.wants()), (listener.fileno(), 1)])
    assert far is not None
    one.closing.append(far)
    far.write([b"at once"])
    near = None
    for _ in turns():  # the client reads the answer and the message in one go
        near = dialled.step()
        if near is not None:
            break
    assert near is not None
    ends = Pair(one, listener, near, far)
    assert ends.next(near) == b"at once"


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "elea.link.ws")
    monkeypatch.setitem(sys.modules, "websockets.client", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'elea\[ws\]'"):
        Registry(entries=()).scheme("ws")
