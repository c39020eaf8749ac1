"""Devices at an Elea router, and Eclipse clients of it: what one writes, the other has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from tests.interop.daemon import alive_at, answered, asked, texts
from tests.interop.ends import ECLIPSE, WAIT_S, Taken, eventually, matched, session
from tests.unit.daemon.rig import options, running
from tests.unit.devices.rig import LISTEN, QUIET, Raw

from elea.daemon.daemon import Daemon
from elea.devices.device import Device, device_settings, encoding_property
from elea.devices.service import XrceService
from elea.encoding import Encoding
from elea.web.service import Rest, start


@contextmanager
def router() -> Iterator[tuple[XrceService, Any, Daemon]]:
    """The gateway of an Elea router, an Eclipse client of the router, and the router."""
    with running(
        options(LISTEN, QUIET, rest_http_port="0"), xrce=XrceService, rest=start
    ) as daemon:
        [service] = [one.service for one in daemon.services if isinstance(one.service, XrceService)]
        with session(ECLIPSE, "client", connect=daemon.locators()[0]) as client:
            yield service, client, daemon


@pytest.fixture(scope="module")
def there() -> Iterator[tuple[XrceService, Any, Daemon]]:
    with router() as found:
        yield found


@pytest.mark.line("X-121", "X-126", "X-127", "R290")
@pytest.mark.parametrize("number", [0, 1], ids=["udp", "tcp"])
def test_an_eclipse_subscriber_gets_what_a_device_writes(
    there: tuple[XrceService, Any, Daemon], number: int
) -> None:
    service, client, _ = there
    got = Taken()
    subscriber = client.declare_subscriber(f"up{number}/**", got)
    with Device(service.locators[number]) as device:
        text = encoding_property(Encoding.TEXT_PLAIN)
        rid = device.publisher(f"/up{number}/t", (text,))
        device.wait_matched(rid)
        device.write(rid, b"21.5")
        device.write_to(f"/up{number}/caf%C3%A9", b"\x00\xff")
        device.write(rid, bytes(5_000))  # in fragments, more than its window holds
        device.flush()
        assert got.reach(3)
    assert got.payloads == [b"21.5", b"\x00\xff", bytes(5_000)]
    assert [str(one.key_expr) for one in got.items] == [
        f"up{number}/t",
        f"up{number}/café",
        f"up{number}/t",
    ]
    assert [str(one.encoding) for one in got.items[:2]] == ["text/plain", "zenoh/bytes"]
    assert all(one.timestamp is not None for one in got.items)
    subscriber.undeclare()


@pytest.mark.line("X-122", "R291")
@pytest.mark.parametrize("number", [0, 1], ids=["udp", "tcp"])
def test_a_device_gets_what_an_eclipse_client_puts(
    there: tuple[XrceService, Any, Daemon], number: int
) -> None:
    service, client, _ = there
    key = f"down{number}"
    with (
        Device(service.locators[number]) as push,
        Device(service.locators[number]) as pull,
        Device(service.locators[number]) as sleepy,
    ):
        push.subscriber(f"/{key}/*")
        sid = pull.subscriber(f"/{key}/a", pull=True)
        sleepy.subscriber(f"/{key}/**", window_ms=(0, 200, 100))
        publisher = client.declare_publisher(f"{key}/a")
        assert matched(publisher)
        for payload in (b"1", b"2"):
            publisher.put(payload)
        assert [one.payload for _ in range(2) if (one := push.receive(WAIT_S))] == [b"1", b"2"]
        assert pull.receive(0.1) is None  # nothing before a Pull
        assert [one.payload for one in pull.pull(sid)] == [b"1", b"2"]
        got = sleepy.receive(WAIT_S)
        assert got is not None
        assert got.path == f"{key}/a"
        publisher.undeclare()


@pytest.mark.line("X-128", "X-130", "R292")
def test_an_eclipse_client_asks_for_and_deletes_what_is_kept(
    there: tuple[XrceService, Any, Daemon],
) -> None:
    service, client, daemon = there
    with Device(service.locators[0]) as device:
        device.write_to("/kept/x#transient", b"7")
        device.flush()
    assert answered(client, "kept/x", ["7"])
    [rest] = [one.service for one in daemon.services if isinstance(one.service, Rest)]
    with httpx.Client(base_url=rest.url, timeout=WAIT_S, trust_env=False) as http:
        assert [one["value"] for one in http.get("/kept/*").json()] == ["Nw=="]
        assert http.put("/rest/in", content=b"x").status_code == 200
    client.delete("kept/x")
    assert eventually(lambda: not texts(asked(client, "kept/x")))


def test_a_device_gets_what_is_put_by_rest(there: tuple[XrceService, Any, Daemon]) -> None:
    service, _, daemon = there
    [rest] = [one.service for one in daemon.services if isinstance(one.service, Rest)]
    with (
        Device(service.locators[0]) as device,
        httpx.Client(base_url=rest.url, timeout=WAIT_S, trust_env=False) as http,
    ):
        device.subscriber("/rest/*")
        assert http.put("/rest/in", content=b"x").status_code == 200
        got = device.receive(WAIT_S)
        assert got is not None
        assert (got.path, got.payload) == ("rest/in", b"x")


@pytest.mark.line("X-110", "R293")
def test_a_device_pulls_from_an_eclipse_queryable(there: tuple[XrceService, Any, Daemon]) -> None:
    service, client, _ = there

    def answer(query: Any) -> None:
        query.reply("store/a", b"1")
        query.reply("store/b", b"2")

    queryable = client.declare_queryable("store/*", answer)
    with Device(service.locators[0]) as device:
        id_ = device.selected("/store/*")
        found: list[bytes] = []

        def both() -> bool:
            found[:] = sorted(one.payload for one in device.pull(id_))
            return len(found) == 2

        assert eventually(both)
        assert found == [b"1", b"2"]
    queryable.undeclare()


@pytest.mark.line("X-129", "X-132", "R294")
def test_an_eclipse_client_sees_devices(there: tuple[XrceService, Any, Daemon]) -> None:
    service, client, daemon = there
    key = f"@xrce/{daemon.session.zid()}/session/0d01"
    with Device(service.locators[1], device_settings(b"\x0d\x01")) as device:
        device.subscriber("/any/thing")
        assert eventually(lambda: key in alive_at(client, "@xrce/*/session/*"))
        assert eventually(lambda: any("any/thing" in one for one in texts(asked(client, key))))
    assert eventually(lambda: key not in alive_at(client, "@xrce/*/session/*"))
    with Raw(service.locators[0], lease=3) as silent:
        silent.open()
        lease = f"@xrce/{daemon.session.zid()}/session/{silent.pid.hex()}"
        assert eventually(lambda: lease not in alive_at(client, "@xrce/*/session/*"))


@pytest.mark.line("X-023", "R295")
def test_devices_and_eclipse_clients_share_a_port(there: tuple[XrceService, Any, Daemon]) -> None:
    _, client, daemon = there
    got = Taken()
    subscriber = client.declare_subscriber("shared/**", got)
    with Device(daemon.locators()[0]) as device:
        rid = device.publisher("/shared/x")
        device.wait_matched(rid)
        device.write(rid, b"1")
        assert got.reach(1)
        device.subscriber("/shared/y")
        assert eventually(lambda: client.put("shared/y", b"2") or device.receive(0.2) is not None)
    subscriber.undeclare()
