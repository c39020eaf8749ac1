"""A session after a fork, and one that was pickled: another node takes up the work."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
import textwrap

import pytest
from tests.unit.session.fake_node import FakeDriver

import elea
from elea.config.config import Config
from elea.errors import ClosedError
from elea.session import dispatch
from elea.session.outlet import BEFORE_WAITING, ORPHANS
from elea.session.ports import DriverPort
from elea.session.session import Session
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr
from elea.wire.network.declaration.queryable import DeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import Interest
from elea.wire.network.push import Push


class Forked:
    """A session as a forked child finds it."""

    def __init__(self) -> None:
        self.parent = FakeDriver()
        self.drivers: list[FakeDriver] = []
        self.session = Session(Config(), self.parent, reopen=self._reopen)

    def _reopen(self) -> DriverPort:
        driver = FakeDriver()
        driver.node.zid = b"\x09"
        self.drivers.append(driver)
        return driver

    def fork(self) -> None:
        self.session._context.orphan()


def test_a_child_gives_up_the_parents_links_and_does_nothing_else() -> None:
    forked = Forked()
    forked.session.declare_subscriber("a", print)
    sent = len(forked.parent.node.sent)
    forked.fork()
    assert forked.parent.aborted
    forked.session.close()
    assert (forked.drivers, len(forked.parent.node.sent)) == ([], sent)
    assert not forked.parent.closed


def test_what_waits_for_a_recorder_is_the_parents() -> None:
    forked = Forked()
    spool = forked.session.declare_spool()
    forked.fork()
    other = forked.session.declare_spool()
    assert other is not spool
    assert forked.session._context.acks is not spool._acks
    forked.session.close()
    assert not spool._gone


def test_a_call_opens_another_node_and_declares_everything_there() -> None:
    forked = Forked()
    session = forked.session
    session.declare_keyexpr("a")
    subscriber = session.declare_subscriber("a")
    publisher = session.declare_publisher("a")
    queryable = session.declare_queryable("q")
    watcher = session.liveliness().declare_subscriber("t/*")
    token = session.liveliness().declare_token("t/1")
    replies = session.get("q")
    assert [sample.kind.name for sample in watcher.drain()] == ["PUT"]
    forked.fork()
    publisher.put("1")
    [driver] = forked.drivers
    kinds = [
        type(message.body) if isinstance(message, Declare) else type(message)
        for message in driver.node.sent
    ]
    assert sorted(map(str, kinds)) == sorted(
        map(
            str,
            [
                DeclareKeyExpr,
                DeclareSubscriber,
                DeclareQueryable,
                DeclareToken,
                Interest,
                Interest,
                Push,
            ],
        )
    )
    assert subscriber.recv().payload == "1"
    assert bytes(session.zid()) == b"\x09"
    # The token of the parent is gone, and ours came.
    assert [sample.kind.name for sample in watcher.drain()] == ["DELETE", "PUT"]
    assert list(replies) == []
    assert len(forked.drivers) == 1
    assert [dispatch._step_aside] == BEFORE_WAITING
    queryable.undeclare()
    token.undeclare()
    session.close()
    assert driver.closed


def test_waiting_for_a_sample_opens_another_node() -> None:
    forked = Forked()
    subscriber = forked.session.declare_subscriber("a")
    forked.fork()
    with pytest.raises(TimeoutError):
        subscriber.recv(timeout=0)
    assert len(forked.drivers) == 1


def test_a_session_on_somebody_elses_driver_says_that_it_cannot() -> None:
    session = Session(Config(), FakeDriver())
    session._context.orphan()
    with pytest.raises(ClosedError, match="fork"):
        session.put("a", "1")
    session.close()


SCRIPT = """
    import os, sys
    import elea

    session = elea.open({{
        "mode": "client",
        "connect": {{"endpoints": ["tcp/127.0.0.1:{port}"]}},
        "scouting": {{"multicast": {{"enabled": False}}}},
    }})
    publisher = session.declare_publisher("from/child")
    child = os.fork()
    if child == 0:
        publisher.put(str(session.zid()))
        session.put("from/child", str(session.zid()))
        session.close()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    session.put("from/parent", str(session.zid()))
    session.close()
    sys.exit(os.waitstatus_to_exitcode(status))
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_forked_child_publishes_over_a_link_of_its_own() -> None:
    port = free_port()
    alone = {"multicast": {"enabled": False}}
    with elea.open(
        {"listen": {"endpoints": [f"tcp/127.0.0.1:{port}"]}, "scouting": alone}
    ) as server:
        subscriber = server.declare_subscriber("from/*")
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(SCRIPT.format(port=port))],
            check=True,
            timeout=60,
        )
        samples = [subscriber.recv(timeout=20) for _ in range(3)]
    assert sorted(str(sample.key_expr) for sample in samples) == [
        "from/child",
        "from/child",
        "from/parent",
    ]
    assert len({sample.payload.to_string() for sample in samples}) == 2


def test_a_pickled_session_opens_another_one() -> None:
    alone = {"multicast": {"enabled": False}}
    config = {"listen": {"endpoints": ["tcp/127.0.0.1:0"]}, "scouting": alone, "id": "a1"}
    with elea.open(config) as session:
        other = pickle.loads(pickle.dumps(session))
        assert isinstance(other, Session)
        assert other.zid() != session.zid()
        other.close()
        assert not session.is_closed()


def test_asking_without_waiting_opens_another_node() -> None:
    forked = Forked()
    subscriber = forked.session.declare_subscriber("a")
    forked.fork()
    assert subscriber.try_recv() is None
    [driver] = forked.drivers
    assert any(isinstance(one, Declare) for one in driver.node.sent)
    forked.session.close()


def test_a_child_writes_at_once() -> None:
    forked = Forked()
    forked.fork()
    forked.session.put("a", "1")
    [driver] = forked.drivers
    assert driver.writes_at_once
    assert not forked.parent.writes_at_once
    forked.session.close()


def test_a_grandchild_opens_a_node_of_its_own() -> None:
    forked = Forked()
    forked.fork()
    assert forked.session._context.hold_for_fork() is not None  # and opens nothing
    forked.fork()
    assert forked.drivers == []
    forked.session.put("a", "1")
    assert len(forked.drivers) == 1
    forked.session.close()
    assert ORPHANS == []


def test_a_fork_waits_for_a_thread_that_changes_something() -> None:
    forked = Forked()
    context = forked.session._context
    go_on = context.hold_for_fork()
    assert go_on is not None
    assert forked.parent.lock.locked()
    go_on()
    with forked.parent.lock:  # a thread that takes too long
        assert context.hold_for_fork() is None
    context.orphan(torn=True)
    with pytest.raises(ClosedError, match="open a session in the child"):
        forked.session.put("a", "1")
    assert forked.drivers == []
    forked.session.close()
