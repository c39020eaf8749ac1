"""Endpoints that change while a node runs: listeners come and go, neighbours stay."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.link.certificates import certificates
from tests.link.line import Line
from tests.link.test_driver import until

from elea.config.config import Config
from elea.errors import LinkError
from elea.link.driver import Driver
from elea.link.start import open_driver
from elea.locator import Endpoint

ANYWHERE = "tcp/127.0.0.1:0"


def groups(*endpoints: str) -> tuple[tuple[Endpoint, ...], ...]:
    return tuple((Endpoint.parse(one),) for one in endpoints)


@contextmanager
def node(*listen: str, connect: tuple[str, ...] = (), **more: object) -> Iterator[Driver]:
    config = Config.from_mapping(
        {
            "mode": "peer",
            "listen": {"endpoints": list(listen)},
            "connect": {"endpoints": list(connect), "retry": {"period_init_ms": 20}},
            "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
            **more,
        }
    )
    driver = open_driver(config)
    try:
        yield driver
    finally:
        driver.close(1_000_000_000)


def free_endpoint() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"tcp/127.0.0.1:{probe.getsockname()[1]}"


def is_open(endpoint: str) -> bool:
    try:
        socket.create_connection(Endpoint.parse(endpoint).host_port(), 5).close()
    except ConnectionRefusedError:
        return False
    return True


def zids(driver: Driver) -> list[bytes]:
    with driver.lock:
        return [one.zid for one in driver.node.neighbours()]


def test_neighbours_outlive_the_listener_they_came_by() -> None:
    first, second = free_endpoint(), free_endpoint()
    with node(first) as here, node(connect=(first,)) as there:
        until(lambda: zids(here) == [there.node.zid])
        here.change_endpoints(groups(second), ())
        assert (is_open(first), is_open(second)) == (False, True)
        assert here.locators() == (second,)
        assert [str(one) for one in here.bound()] == [second]
        assert zids(here) == [there.node.zid]
        with node(connect=(second,)) as late:
            until(lambda: zids(here) == [there.node.zid, late.node.zid])


def test_a_listener_that_stays_is_not_touched() -> None:
    first, second = free_endpoint(), free_endpoint()
    with node(first) as here:
        here.change_endpoints(groups(first, second), ())
        assert (is_open(first), is_open(second)) == (True, True)
        assert [str(one) for one in here.bound()] == [first, second]


def test_a_new_endpoint_may_have_the_port_of_an_old_one() -> None:
    old = free_endpoint()
    new = old.replace("127.0.0.1", "127.0.0.2")
    with node(old) as here:
        here.change_endpoints(groups(new), ())
        assert [str(one) for one in here.bound()] == [new]
        here.change_endpoints(groups(new.replace("127.0.0.2", "0.0.0.0")), ())
        assert is_open(old)


def test_what_cannot_be_bound_changes_nothing() -> None:
    old, fine = free_endpoint(), free_endpoint()
    with node(old) as here, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LinkError):
            here.change_endpoints(groups(fine, f"tcp/127.0.0.1:{port}"), groups(fine))
        assert [str(one) for one in here.bound()] == [old]
        assert (is_open(old), is_open(fine)) == (True, False)
        assert here.node.settings.connect == ()


def test_who_is_configured_anew_is_connected_to_and_who_is_not_stays() -> None:
    first, second = free_endpoint(), free_endpoint()
    with node(second) as two, node(connect=(first,)) as here:
        with node(first) as one:
            until(lambda: zids(here) == [one.node.zid])
            here.change_endpoints((), groups(second))
            until(lambda: zids(here) == [one.node.zid, two.node.zid])
            here.change_endpoints((), groups(second))
            assert zids(here) == [one.node.zid, two.node.zid]
        until(lambda: zids(here) == [two.node.zid])
        with here.lock:
            wanted = [connector.endpoints for connector in here.node._dialling]
        assert wanted == list(groups(second))


def test_certificates_are_read_again(tmp_path: Path) -> None:
    made = certificates()
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    key.write_text(made.server.key_text)
    key.chmod(0o600)
    certificate.write_text(made.server.certificate_text)
    tls = {"listen_private_key": str(key), "listen_certificate": str(certificate)}
    listen = "tls/127.0.0.1:0"
    with node(listen, transport={"link": {"tls": tls}}) as here:
        before = here.bound()
        here.change_endpoints(groups(listen), ())
        certificate.write_text("not a certificate")
        with pytest.raises(LinkError):
            here.change_endpoints(groups(listen, ANYWHERE), ())
        assert here.bound() == before


def test_a_neighbour_is_shown_with_its_links() -> None:
    endpoint = free_endpoint()
    with node(endpoint) as here, node(connect=(endpoint,)) as there:
        until(lambda: zids(here) == [there.node.zid])
        with here.lock:
            [view] = here.node.views()
        assert (view.zid, view.whatami, view.region) == (there.node.zid, 1, "north")
        assert [str(link.local) for link in view.links] == [endpoint]
        assert (view.user, view.waiting_count) == (None, 0)
        until(lambda: here.node.views()[0].counters["received_batches"] > 0)
        assert view.since_ns <= here.now_ns()


def test_a_newcomer_that_comes_as_the_loop_stops_is_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was left open, and a traceback told of it."""
    for _ in range(10):
        endpoint = free_endpoint()
        with node(endpoint):
            assert is_open(endpoint)
    gc.collect()  # a socket that nobody closed is a warning, which fails the test
    assert caplog.records == []


def test_the_speed_of_a_line_could_not_change_while_somebody_was_on_it() -> None:
    """A device has one descriptor: the link of a listener that goes has to go, too."""
    line = Line()
    slow, fast = (f"serial/{line.far}#baudrate={speed}" for speed in (9_600, 115_200))
    connect = f"serial/{line.near}#baudrate=9600;tout=20000"
    with node(slow) as here, node(connect=(connect,)) as there:
        until(lambda: zids(here) == [there.node.zid])
        here.change_endpoints(groups(fast), ())
        # Pseudo-terminals have no speed, so the other end comes back.
        until(lambda: zids(here) == [there.node.zid] and zids(there) == [here.node.zid])
        assert here.locators() == (f"serial/{line.far}",)
    line.close()
