"""The gateway on sockets: what devices say over UDP and TCP, and what the data space sees of it."""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.ends import eventually
from tests.unit.daemon.rig import options, running
from tests.unit.devices.rig import QUIET, Raw, Served, client_of, served, subscriber

import elea
from elea.devices.device import Device, device_settings, encoding_property
from elea.devices.lines import open_line
from elea.devices.scouting import scout_at, scout_group
from elea.devices.service import XrceService
from elea.errors import ClosedError, ConfigError
from elea.xrce.closing import CloseReason
from elea.xrce.declaration_records import (
    PUSH_MODE_ID,
    CommitDecl,
    PublisherDecl,
    ResourceDecl,
    ResultDecl,
    SubscriberDecl,
)
from elea.xrce.encode import encode
from elea.xrce.message_records import (
    Accept,
    AckNack,
    Close,
    Declare,
    Hello,
    KeepAlive,
    Scout,
    StreamData,
    WriteData,
)
from elea.xrce.properties import EMPTY_IS_DELETE
from elea.xrce.status import RefusedError

PLACES = ("udp", "tcp", "shared")


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    with served() as one:
        yield one


def declare(sn: int, *declarations: object) -> Declare:
    return Declare(sync=False, committed=False, sn=sn, declarations=declarations)  # type: ignore[arg-type]


def data(sn: int, id_: int, payload: bytes) -> StreamData:
    return StreamData(reliable=True, sync=True, sn=sn, id=id_, prid=None, payload=payload)


def written(sn: int, name: bytes, payload: bytes) -> WriteData:
    return WriteData(reliable=True, sync=True, sn=sn, resource=name, payload=payload)


@pytest.mark.line("X-023")
@pytest.mark.parametrize("place", PLACES)
def test_a_device_that_declares_one_by_one_and_late(gateway: Served, place: str) -> None:
    """As the C implementation does: names with a slash, ids first, one declaration a message."""
    with client_of(gateway) as client, Raw(gateway.endpoint(place)) as device:
        took = subscriber(gateway, client, "raw/**")
        assert device.open().open_pid == device.pid
        device.say(declare(0, PublisherDecl(rid=2)))
        device.say(declare(1, SubscriberDecl(id=4, mode=PUSH_MODE_ID)))
        device.say(declare(2, ResourceDecl(rid=2, resource=b"/raw/out")))
        device.say(declare(3, ResourceDecl(rid=4, resource=b"/raw/in")))
        device.say(declare(4, CommitDecl(commit_id=7)))
        result = device.expect(
            Declare, lambda one: any(isinstance(each, ResultDecl) for each in one.declarations)
        )
        [said] = [one for one in result.declarations if isinstance(one, ResultDecl)]
        assert (said.commit_id, said.status) == (7, 0)
        device.say(data(5, 2, b"\x00\xff up"))
        sample = took.recv(timeout=20)
        assert (str(sample.key_expr), sample.payload.to_bytes()) == ("raw/out", b"\x00\xff up")
        client.put("raw/in", b"down")
        assert device.expect(StreamData).payload == b"down"
        device.close()


@pytest.mark.parametrize("place", PLACES)
def test_a_name_without_any_declaration(gateway: Served, place: str) -> None:
    with client_of(gateway) as client, Raw(gateway.endpoint(place)) as device:
        took = subscriber(gateway, client, "bare/**")
        device.open()
        for _ in range(2):  # said twice, delivered once
            device.say(written(0, b"/bare/x", b"1"))
        assert took.recv(timeout=20).payload.to_bytes() == b"1"
        device.say(written(1, b"/bare/x", b"2"))
        assert took.recv(timeout=20).payload.to_bytes() == b"2"
        device.expect(AckNack)
        device.close()
        assert device.expect(Close).reason == 0


@pytest.mark.line("X-044")
def test_a_silent_device_leaves(gateway: Served) -> None:
    with Raw(gateway.udp) as device:
        device.say(bytes.fromhex("030104c0ffee020200"))  # a lease of 200 ms
        device.expect(Accept)
        device.say(KeepAlive(pid=bytes.fromhex("c0ffee02")))
        assert device.expect(Close).reason == CloseReason.SUCCESS
        assert eventually(
            lambda: bytes.fromhex("c0ffee02") not in gateway.service._hub.gateway.devices
        )


@pytest.mark.line("X-047")
def test_the_gateway_is_never_silent_for_its_lease() -> None:
    with served("plugins/xrce/lease_ms:300") as one, Raw(one.udp) as device:
        assert device.open().lease == 3
        for _ in range(3):
            device.say(KeepAlive(pid=device.pid))
            device.expect(KeepAlive)


@pytest.mark.line("X-018")
def test_a_frame_that_is_too_long_ends_the_connection(gateway: Served) -> None:
    with Raw(gateway.tcp) as device:
        device.open()
        device.octets(b"\x80\x80\x04")  # 65536
        assert device.expect(Close).reason == CloseReason.GENERIC
        assert device.until(lambda: device.ended)


@pytest.mark.parametrize("place", ["tcp", "shared"])
def test_nonsense_on_a_stream_ends_it(gateway: Served, place: str) -> None:
    with Raw(gateway.endpoint(place)) as device:
        device.open()
        device.say(b"\x1f\x1f\x1f")
        assert device.expect(Close).reason == CloseReason.GENERIC
        assert device.until(lambda: device.ended)


@pytest.mark.line("X-017")
def test_a_stream_without_lengths(gateway: Served) -> None:
    with client_of(gateway) as client, Raw(gateway.shared) as device:
        took = subscriber(gateway, client, "unframed/x")
        device.octets(b"\x00" + device.hello)
        device.expect(Accept)
        message = bytes.fromhex("69 00 0b") + b"/unframed/x" + b"\x021!"
        for octet in message:  # across segments
            device.octets(bytes((octet,)))
        assert took.recv(timeout=20).payload.to_bytes() == b"1!"


@pytest.mark.line("X-028")
@pytest.mark.parametrize("place", PLACES)
def test_a_scout_is_answered_where_it_comes_from(gateway: Served, place: str) -> None:
    with Raw(gateway.endpoint(place)) as device:
        device.say(Scout(mask=1))
        hello = device.expect(Hello)
        assert hello.mask == 3
        assert [one.decode() for one in hello.locators] == [gateway.udp, gateway.tcp]
    assert [one.role_names for one in scout_at(gateway.endpoint(place), 20.0)] == [
        ["broker", "durability"]
    ]


@pytest.mark.line("X-024")
def test_a_scout_by_multicast() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        group = f"239.255.0.1:{probe.getsockname()[1]}"
    with served("plugins/xrce/scouting:true", f'plugins/xrce/group:"{group}"') as one:
        [found] = [next(scout_group(group, "127.0.0.1", 20.0))]
        assert found.source == one.udp
        assert found.locators == (one.udp, one.tcp)
        assert found.roles & 1


@pytest.mark.line("X-099")
def test_data_by_multicast_belongs_to_the_session_of_its_source() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    cfg = ("plugins/xrce/scouting:true", f'plugins/xrce/group:"239.255.0.1:{port}"')
    with served(*cfg) as one, client_of(one) as client, Raw(one.udp) as device:
        took = subscriber(one, client, "group/x")
        device.open()
        here = socket.inet_aton("127.0.0.1")
        device.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, here)
        said = encode(written(0, b"/group/x", b"to all"))
        device.sock.sendto(said, ("239.255.0.1", port))
        assert took.recv(timeout=20).payload.to_bytes() == b"to all"
        assert device.expect(AckNack).sn == 1  # from where the gateway is, by unicast
        device.close()


def test_the_group_may_have_the_port_of_the_devices() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    cfg = (
        f'plugins/xrce/listen:["udp/0.0.0.0:{port}"]',
        f'plugins/xrce/group:"239.255.0.1:{port}"',
        'plugins/xrce/interface:"127.0.0.1"',
        "plugins/xrce/scouting:true",
        "plugins/xrce/__required__:true",
    )
    with running(options(QUIET, *cfg), xrce=XrceService) as daemon:
        found = next(scout_group(f"239.255.0.1:{port}", "127.0.0.1", 20.0))
        assert found.source == f"udp/127.0.0.1:{port}"
        with Raw(f"udp/127.0.0.1:{port}") as device:
            device.open()
            [one] = daemon.services
            assert isinstance(one.service, XrceService)
            assert one.service._counts()["received"] == 2  # one Scout, heard once, and one Open


@pytest.mark.line("X-129", "X-132")
def test_a_device_is_seen_while_it_is_there(gateway: Served) -> None:
    zid = gateway.session.zid()
    with client_of(gateway) as client:
        watched = client.liveliness().declare_subscriber(f"@xrce/{zid}/session/*", history=True)
        with Device(gateway.udp, device_settings(b"\x0a\x01")) as device:
            rid = device.publisher("/seen/out")
            device.subscriber("/seen/**")
            here = f"@xrce/{zid}/session/0a01"
            seen: list[tuple[str, elea.SampleKind]] = []

            def saw(kind: elea.SampleKind) -> bool:
                while (token := watched.try_recv()) is not None:
                    seen.append((str(token.key_expr), token.kind))
                return (here, kind) in seen

            assert eventually(lambda: saw(elea.SampleKind.PUT))
            [reply] = client.get(f"@xrce/{zid}/session/0a01")
            assert reply.ok is not None
            shown = json.loads(reply.ok.payload.to_string())
            assert shown["names"][str(rid)] == "seen/out"
            assert [one["mode"] for one in shown["subscribers"].values()] == ["push"]
            [reply] = client.get(f"@xrce/{zid}")
            assert reply.ok is not None
            assert json.loads(reply.ok.payload.to_string())["devices"] >= 1
            metrics = {name: value for name, _, _, value in gateway.service.counted()}
            assert metrics["elea_xrce_devices"] >= 1
            assert "devices/0a01" in gateway.service.status()
        assert eventually(lambda: saw(elea.SampleKind.DELETE))


@pytest.mark.line("X-126", "X-127", "X-128", "X-130")
def test_the_last_value_stays_until_it_is_deleted(gateway: Served) -> None:
    with client_of(gateway) as client:
        with Device(gateway.udp) as device:
            text = encoding_property(elea.Encoding.TEXT_PLAIN)
            rid = device.publisher("/kept/a#transient", (text,))
            device.wait_matched(rid)  # the gateway itself reads what it keeps
            device.write(rid, b"1")
            device.write(rid, b"2")
            device.flush()
        [reply] = client.get("kept/*")
        assert reply.ok is not None
        assert reply.ok.payload.to_string() == "2"
        assert reply.ok.encoding == elea.Encoding.TEXT_PLAIN
        assert reply.ok.timestamp is not None
        assert [one.ok for one in client.get("kept/*?_filter=value > 2")] == []
        assert len(list(client.get("kept/*?_filter=value = 2"))) == 1
        [error] = client.get("kept/*?_filter=)")
        assert error.err is not None
        with Device(gateway.udp) as reader:
            reader.subscriber("/kept/a#transient")
            early = reader.receive(20.0)
            assert early is not None
            assert early.payload == b"2"
            client.delete("kept/a")
            assert eventually(lambda: not list(client.get("kept/a")))
            client.put("kept/a", b"3")
            late = reader.receive(20.0)
            assert late is not None
            assert late.payload == b"3"  # and the deletion was not told


def test_what_was_written_by_name_is_followed_too(gateway: Served) -> None:
    with client_of(gateway) as client:

        def kept() -> list[bytes]:
            return [one.ok.payload.to_bytes() for one in client.get("follow/*") if one.ok]

        with Device(gateway.udp) as device:
            device.write_to("/follow/a#transient", b"1")
            device.flush()
        assert kept() == [b"1"]
        client.put("follow/a", b"2")
        assert eventually(lambda: kept() == [b"2"])
        client.delete("follow/a")
        assert eventually(lambda: not kept())
        assert eventually(lambda: "follow/a" not in gateway.service._space._follow._followed)


def test_a_device_that_asks_for_deletions_is_told() -> None:
    said = device_settings(b"\x0a\x02")
    able = dataclasses.replace(
        said, properties=dataclasses.replace(said.properties, capabilities=EMPTY_IS_DELETE)
    )
    with served() as one, Device(one.udp, able) as device:
        device.subscriber("/gone/*")
        one.session.delete("gone/x")
        got = device.receive(20.0)
        assert got is not None
        assert (got.path, got.payload) == ("gone/x", b"")
        device.write_to("/gone/y", b"")
        took = one.session.declare_subscriber("gone/z")
        device.write_to("/gone/z", b"")
        assert took.recv(timeout=20).kind is elea.SampleKind.DELETE


@pytest.mark.line("X-110")
def test_a_pull_asks_the_storages_of_the_data_space(gateway: Served) -> None:
    with client_of(gateway) as client, Device(gateway.tcp) as device:

        def answer(query: elea.Query) -> None:
            with query:
                query.reply("rest/a", b"7", encoding=elea.Encoding.TEXT_PLAIN)
                query.reply("rest/b", b"8", encoding=elea.Encoding.TEXT_PLAIN)

        queryable = client.declare_queryable("rest/*", answer)
        sid = device.selected("/rest/*")
        assert eventually(lambda: len(device.pull(sid)) == 2)
        assert [one.payload for one in device.pull(device.selected("/rest/*?{value > 7}"))] == [
            b"8"
        ]
        queryable.undeclare()


@pytest.mark.line("X-118")
def test_persistent_samples_survive_the_gateway(tmp_path: Path) -> None:
    place = f"plugins/xrce/persistent:{json.dumps(str(tmp_path))}"
    with served(place) as one, Device(one.udp) as device:
        for name, value in (("/safe/p#persistent", b"p"), ("/safe/t#transient", b"t")):
            rid = device.publisher(name)
            device.wait_matched(rid)
            device.write(rid, value)
        device.flush()
        assert one.counts()["persistent"] == 1
    with served(place) as one, client_of(one) as client:
        assert [str(each.ok and each.ok.key_expr) for each in client.get("safe/*")] == ["safe/p"]
        with Device(one.udp) as device:
            device.subscriber("/safe/*#persistent")
            got = device.receive(20.0)
            assert got is not None
            assert (got.path, got.payload) == ("safe/p", b"p")
        client.delete("safe/p")
        assert eventually(lambda: not list(client.get("safe/*")))


@pytest.mark.line("X-131")
def test_devices_of_two_gateways_reach_each_other() -> None:
    with (
        served() as one,
        served(connect=(one.shared,)) as other,
        Device(one.udp) as reader,
        Device(other.tcp) as writer,
    ):
        reader.subscriber("/far/**")
        rid = writer.publisher("/far/x")
        writer.wait_matched(rid)
        writer.write(rid, b"hello")
        got = reader.receive(20.0)
        assert got is not None
        assert got.payload == b"hello"


def test_overlapping_subscriptions_tell_a_sample_once(gateway: Served) -> None:
    with client_of(gateway) as client, Device(gateway.udp) as one, Device(gateway.udp) as other:
        one.subscriber("/over/*")
        other.subscriber("/over/a")
        other.subscriber("/over/**")
        client.put("over/a", b"1")
        client.put("over/end", b"2")
        assert [one.receive(20.0) is not None for _ in range(2)] == [True, True]
        assert one.receive(0.2) is None
        assert len([got for _ in range(3) if (got := other.receive(20.0))]) == 3
        assert other.receive(0.2) is None


def test_what_devices_write_comes_back_once_to_each(gateway: Served) -> None:
    with Device(gateway.udp) as one, Device(gateway.tcp) as other:
        for device in (one, other):
            device.subscriber("/each/x")
        one.write_to("/each/x", b"1")
        for device in (one, other):
            got = device.receive(20.0)
            assert got is not None
            assert got.payload == b"1"
            assert device.receive(0.2) is None


@pytest.mark.line("X-051")
def test_one_session_over_udp_and_tcp(gateway: Served) -> None:
    with (
        client_of(gateway) as client,
        Raw(gateway.udp) as datagrams,
        Raw(gateway.tcp) as stream,
    ):
        took = subscriber(gateway, client, "two/ways")
        stream.pid = datagrams.pid
        datagrams.open()
        stream.open()
        assert [*gateway.devices].count(stream.pid) == 1
        named = ResourceDecl(rid=2, resource=b"/two/down")
        stream.say(
            declare(0, named, SubscriberDecl(id=2, mode=PUSH_MODE_ID), CommitDecl(commit_id=1))
        )
        stream.expect(Declare)
        # Both ways lead to one channel, and what is reliable is answered by the stream.
        datagrams.say(written(1, b"/two/ways", b"1"))
        assert took.recv(timeout=20).payload.to_bytes() == b"1"
        stream.say(written(2, b"/two/ways", b"2"))
        assert took.recv(timeout=20).payload.to_bytes() == b"2"
        stream.expect(AckNack, lambda one: one.sn >= 3)
        client.put("two/down", b"sure", congestion_control=elea.CongestionControl.BLOCK)
        assert stream.expect(StreamData).payload == b"sure"
        assert not any(isinstance(one, (StreamData, AckNack)) for one in datagrams.messages)
        stream.sock.close()  # and the session goes on by the other way
        datagrams.say(written(3, b"/two/ways", b"3"))
        assert took.recv(timeout=20).payload.to_bytes() == b"3"
        datagrams.expect(AckNack, lambda one: one.sn >= 4)
        datagrams.close()


@pytest.mark.line("X-037")
@pytest.mark.parametrize("place", PLACES)
def test_a_device_that_is_started_again_at_once(gateway: Served, place: str) -> None:
    with client_of(gateway) as client:
        took = subscriber(gateway, client, "restart/x")
        for payload in (b"1", b"2", b"3"):  # from another port each time, and without a Close
            with Raw(gateway.endpoint(place)) as device:
                device.pid = b"\x0d\x0d\x0d" + place[:1].encode()
                device.open()
                device.say(written(0, b"/restart/x", payload))
                assert took.recv(timeout=20).payload.to_bytes() == payload


@pytest.mark.line("X-037")
def test_a_device_that_begins_anew(gateway: Served) -> None:
    with Raw(gateway.udp) as device, client_of(gateway) as client:
        took = subscriber(gateway, client, "anew/x")
        for payload in (b"1", b"2"):
            # Later than what may be the same Open said again, so it is a new beginning.
            def opened(payload: bytes = payload) -> bool:
                device.open()
                device.say(written(0, b"/anew/x", payload))
                try:
                    return took.recv(timeout=0.5).payload.to_bytes() == payload
                except TimeoutError:
                    return False

            assert eventually(opened)


@pytest.mark.parametrize(("mtu", "length"), [(20, 5), (64, 256)])
def test_frames_may_be_short(gateway: Served, mtu: int, length: int) -> None:
    payload = bytes(range(length))
    with client_of(gateway) as client:
        took = subscriber(gateway, client, "s")
        with Device(gateway.udp, device_settings(frame_len=mtu)) as device:
            device.subscriber("/b")
            device.write_to("/s", payload)
            assert took.recv(timeout=20).payload.to_bytes() == payload
            client.put("b", payload)
            got = device.receive(20.0)
            assert got is not None
            assert got.payload == payload


def test_a_connection_that_breaks_leaves_its_session_to_the_lease(gateway: Served) -> None:
    with Raw(gateway.tcp) as device:
        device.open()
        pid = device.pid
        device.say(KeepAlive(pid=pid))
        assert eventually(lambda: pid in gateway.devices)
        number = gateway.service._hub._last_number
    assert eventually(lambda: number not in gateway.service._hub._connections)
    with Raw(gateway.udp) as device:  # and it goes on from elsewhere
        device.say(KeepAlive(pid=pid), Close(pid=pid, reason=0))
        assert device.expect(Close).reason == 0


def test_a_connection_of_a_session_without_lease_takes_it_along(gateway: Served) -> None:
    with Raw(gateway.tcp, lease=0) as device:
        device.open()
        assert eventually(lambda: device.pid in gateway.devices)
    assert eventually(lambda: device.pid not in gateway.devices)


def test_one_octet_is_not_enough_to_be_told_apart(gateway: Served) -> None:
    with Raw(gateway.shared) as device:
        frame = b"\x02\x01\x01"
        device.octets(frame[:1])
        device.octets(frame[1:])
        assert device.expect(Hello).mask


def test_devices_hear_when_the_gateway_goes() -> None:
    with served() as one:
        device = Device(one.udp)
        assert device.is_open
    with pytest.raises(ClosedError, match="ended"):
        device.poll(20.0)
    device.close()


def test_a_refused_device_knows_why() -> None:
    with served("plugins/xrce/sessions_count:1") as one, Device(one.udp) as device:
        with pytest.raises(ClosedError, match="reason 3, resources"):
            Device(one.udp)
        with pytest.raises(RefusedError, match="invalid"):
            device.subscriber("/a/../b")
        with pytest.raises(RefusedError, match="unsupported"):
            device.selected("/a?{nonesuch(x)}")


def test_where_access_is_controlled_the_port_is_not_shared() -> None:
    rules = [f"access_control/{name}:[]" for name in ("rules", "subjects", "policies")]
    allow = 'access_control/default_permission:"allow"'
    with served(*rules, allow, "access_control/enabled:true") as one:
        line = open_line(one.tcp)
        line.sock.close()
        assert "shared_port': False" in str(one.service.status()["gateway"])


def test_a_port_that_is_taken() -> None:
    with served() as one:
        cfg = (QUIET, f'plugins/xrce/listen:["{one.tcp}"]', "plugins/xrce/__required__:true")
        with (
            pytest.raises(ConfigError, match=r"did not start.*listen on"),
            running(options(*cfg), xrce=XrceService),
        ):
            pass


def test_without_timestamps_there_is_no_gateway() -> None:
    cfg = (QUIET, "timestamping/enabled:false", "plugins/xrce/__required__:true")
    with pytest.raises(ConfigError, match="timestamping"), running(options(*cfg), xrce=XrceService):
        pass
