"""ROS 2 names: services, actions, the graph and history, as zenoh-bridge-ros2dds has them.

The other end is a real Eclipse Zenoh session; the robot is a real Cyclone DDS participant that
plays nodes with rmw_cyclonedds: `rq/`, `rr/` topics with 16 bytes before each body.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import zenoh
from tests.dds.peers import Peer, bridge, config_of, next_domain, peer, until
from tests.ports import free_port

import elea
from elea.dds.bridge import Bridge
from elea.dds.port import Endpoint, Mirror, Unmatched
from elea.dds.ros_graph import NODE
from elea.dds.state import State
from elea.dds.to_dds import ToDds

line = pytest.mark.line

HEADER = b"\0\1\0\0"


@contextmanager
def eclipse_pair() -> Iterator[tuple[Any, elea.Session]]:
    """An Eclipse Zenoh session, and an Elea session for the bridge, with a link."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    config = zenoh.Config()
    for path, value in (
        ("mode", '"peer"'),
        ("scouting/multicast/enabled", "false"),
        ("listen/endpoints", "[]"),
        ("connect/endpoints", f'["{endpoint}"]'),
        ("timestamping/enabled", "true"),
    ):
        config.insert_json5(path, value)
    with elea.open(config_of(listen=endpoint)) as near, zenoh.open(config) as far:
        until(lambda: near.info.peers_zid())
        yield far, near


@contextmanager
def ros(**section: Any) -> Iterator[tuple[Any, Bridge, Peer]]:
    """A bridge with ROS names: the Eclipse session (its stubs are partial), bridge and robot."""
    domain = next_domain()
    with (
        eclipse_pair() as (far, near),
        bridge(near, domain, names="ros2", linger=0.2, **section) as made,
        peer(domain) as other,
    ):
        yield far, made, other


def add_request(a: int, b: int) -> bytes:
    return HEADER + struct.pack("<qq", a, b)


def add_server(other: Peer, name: str = "add") -> None:
    other.reader("requests", f"rq/{name}Request", "AddRequest", depth=0)
    other.writer("replies", f"rr/{name}Reply", "AddReply", depth=0)


def add_client(other: Peer, name: str = "add") -> None:
    other.writer("asks", f"rq/{name}Request", "AddRequest", depth=0)
    other.reader("hears", f"rr/{name}Reply", "AddReply", depth=0)


def serve(other: Peer) -> dict[str, Any]:
    """Take one request and reply to it; returns the request."""
    [taken] = other.taken("requests", 1)
    until(lambda: other.matched("replies"), "who reads the replies")
    request: dict[str, Any] = taken["value"]
    reply = {name: request[name] for name in ("client", "sequence")}
    other.write("replies", [{**reply, "sum": request["a"] + request["b"]}])
    return request


def tokens(session: Any) -> set[str]:
    replies = session.liveliness().get("@/*/@ros2_lv/**")
    return {str(one.ok.key_expr) for one in replies if one.ok}


@line("D-666", "D-665", "D-705", "D-936")
def test_a_server_of_the_domain_answers_queries() -> None:
    with ros(namespace="/bot1") as (far, made, other):
        add_server(other)
        token = f"@/{made.session.zid()}/@ros2_lv/SS/bot1§add/example§srv§Add"
        until(lambda: token in tokens(far))
        querier = far.declare_querier("bot1/add")
        until(lambda: querier.matching_status.matching)
        # Of a bridge: the id of the request travels as attachment.
        rqh = b"rqh" + struct.pack("<Qq", 77, 5) + b"\1"
        replies = querier.get(payload=add_request(2, 3), attachment=rqh)
        request = serve(other)
        assert (request["client"], request["sequence"]) == (77, 5)
        [reply] = list(replies)
        assert reply.ok is not None
        assert str(reply.ok.key_expr) == "bot1/add"
        assert reply.ok.payload.to_bytes() == HEADER + struct.pack("<q", 5)
        # Of a plain session: the bridge makes the id, as a client of rmw_cyclonedds does.
        replies = querier.get(payload=add_request(20, 30))
        request = serve(other)
        [route] = list(made.routes.values())
        writer = next(one for one in route.mirrors if one.guid[15] in (2, 3))
        assert request["client"] == made.dds.instance_of(writer)
        [reply] = list(replies)
        assert reply.ok is not None
        assert reply.ok.payload.to_bytes() == HEADER + struct.pack("<q", 50)
        mirror = made.mirror_qos[writer.handle][0]
        assert mirror.user_data.startswith(b"clientid= 1.10.")


@line("D-666", "D-665")
def test_a_client_of_the_domain_makes_queries() -> None:
    with ros() as (far, made, other):
        asked: list[Any] = []

        def answer(query: zenoh.Query) -> None:
            asked.append(query)
            assert query.payload is not None
            a, b = struct.unpack("<qq", query.payload.to_bytes()[4:])
            query.reply("add", HEADER + struct.pack("<q", a + b))

        add_client(other)
        token = f"@/{made.session.zid()}/@ros2_lv/SC/add/example§srv§Add"
        until(lambda: token in tokens(far))
        # No server: none is shown to the nodes of the domain.
        assert other.matched("asks") == 0
        queryable = far.declare_queryable("add", answer)
        until(lambda: other.matched("asks") == 1 and other.matched("hears") == 1)
        other.write("asks", [{"client": 9, "sequence": 4, "a": 1, "b": 2}])
        [heard] = other.taken("hears", 1)
        assert heard["value"] == {"client": 9, "sequence": 4, "sum": 3}
        assert asked[0].attachment.to_bytes() == b"rqh" + struct.pack("<Qq", 9, 4) + b"\1"
        queryable.undeclare()
        until(lambda: other.matched("asks") == 0)


@line("D-666")
def test_a_reply_waits_for_the_reader_of_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    with ros(queries_timeout=60.0) as (far, made, other):
        dds: Any = made.dds
        unmatched = dds.unmatched
        is_known, looks = False, 0

        def matches(mirror: Mirror, *, is_writer: bool) -> Unmatched:
            """The reader of the client is discovered later than its writer."""
            nonlocal looks
            if is_writer and not is_known:
                looks += 1
                return Unmatched((), "")
            found: Unmatched = unmatched(mirror, is_writer=is_writer)
            return found

        def answer(query: zenoh.Query) -> None:
            query.reply("add", HEADER + struct.pack("<q", 3))

        monkeypatch.setattr(dds, "unmatched", matches)
        queryable = far.declare_queryable("add", answer)
        add_client(other)
        until(lambda: other.matched("asks") == 1 and other.matched("hears") == 1)
        other.write("asks", [{"client": 9, "sequence": 4, "a": 1, "b": 2}])
        until(lambda: looks >= 3)
        assert other.take("hears") == []
        is_known = True
        assert [one["value"]["sum"] for one in other.taken("hears", 1)] == [3]
        queryable.undeclare()


@line("D-668")
def test_a_server_that_vanishes_ends_queries_and_a_client_cancels_them() -> None:
    with ros(queries_timeout=600.0) as (far, made, other):
        add_server(other)
        querier = far.declare_querier("add", timeout=600.0)
        until(lambda: querier.matching_status.matching)
        replies = querier.get(payload=add_request(1, 1))
        other.taken("requests", 1)
        other.delete("requests")
        [reply] = list(replies)  # long before the timeout
        assert reply.err is not None
        assert b"the server is gone" in reply.err.payload.to_bytes()
        other.delete("replies")
    with ros(queries_timeout=600.0) as (far, made, other):
        asked: list[zenoh.Query] = []
        queryable = far.declare_queryable("slow", asked.append)
        add_client(other, "slow")
        until(lambda: other.matched("asks") == 1 and other.matched("hears") == 1)
        other.write("asks", [{"client": 9, "sequence": 4, "a": 1, "b": 2}])
        until(lambda: asked)
        [route] = list(made.routes.values())
        until(lambda: route.pending_count == 1)
        other.delete("asks")
        until(lambda: route.pending_count == 0)
        # Other services go on.
        add_server(other)
        querier = far.declare_querier("add")
        until(lambda: querier.matching_status.matching)
        replies = querier.get(payload=add_request(4, 5))
        serve(other)
        [reply] = list(replies)
        assert reply.ok is not None
        asked.clear()
        queryable.undeclare()


@line("D-665", "D-666", "D-705")
def test_a_server_elsewhere_is_shown_to_the_nodes_of_the_domain() -> None:
    with ros() as (far, _made, other):
        add_client(other)
        token = far.liveliness().declare_token("@/ab12/@ros2_lv/SS/add/example§srv§Add")
        until(lambda: other.matched("asks") == 1)
        token.undeclare()
        until(lambda: other.matched("asks") == 0)


@line("D-664", "D-666", "D-936")
def test_an_action_is_three_services_and_two_topics() -> None:
    with ros() as (far, made, other):
        for name, kind in (
            ("send_goal", "Goal"),
            ("cancel_goal", "Cancel"),
            ("get_result", "Result"),
        ):
            other.reader(f"{name} in", f"rq/dock/_action/{name}Request", f"{kind}Request", depth=0)
            other.writer(f"{name} out", f"rr/dock/_action/{name}Reply", f"{kind}Reply", depth=0)
        other.writer("feedback", "rt/dock/_action/feedback", "Feedback")
        other.writer("status", "rt/dock/_action/status", "Status", durability="transient_local")
        zid = made.session.zid()
        until(
            lambda: (
                tokens(far)
                == {f"@/{zid}/@ros2_lv", f"@/{zid}/@ros2_lv/AS/dock/example§action§Dock"}
            )
        )
        heard: list[zenoh.Sample] = []
        subscriber = far.declare_subscriber("dock/_action/feedback", heard.append)
        until(lambda: other.matched("feedback") == 1)
        other.write("feedback", [{"distance": 12}])
        until(lambda: heard)
        assert heard[0].payload.to_bytes() == HEADER + struct.pack("<i", 12)
        for name, kind in (("send_goal", "Goal"), ("get_result", "Result")):
            querier = far.declare_querier(f"dock/_action/{name}")
            until(partial(_is_served, querier))
            replies = querier.get(payload=HEADER + struct.pack("<i", 3))
            [taken] = other.taken(f"{name} in", 1)
            until(partial(_has_matched, other, f"{name} out"))
            given = {one: taken["value"][one] for one in ("client", "sequence")}
            member = "accepted" if kind == "Goal" else "result"
            other.write(f"{name} out", [{**given, member: 1}])
            [reply] = list(replies)
            assert reply.ok is not None
            assert reply.ok.payload.to_bytes() == HEADER + struct.pack("<i", 1)
        assert made.settings.service_timeout_s("/dock/_action/get_result") == 300.0
        subscriber.undeclare()


@line("D-665", "D-666")
def test_an_action_elsewhere_is_shown_to_the_nodes_of_the_domain() -> None:
    with ros() as (far, made, other):
        token = far.liveliness().declare_token("@/ab12/@ros2_lv/AS/dock/example§action§Dock")
        other.writer("goal", "rq/dock/_action/send_goalRequest", "GoalRequest", depth=0)
        other.reader("feedback", "rt/dock/_action/feedback", "Feedback")
        until(lambda: other.matched("goal") == 1 and other.matched("feedback") == 1)
        assert {id_.key for id_ in list(made.routes)} == {
            f"dock/_action/{name}"
            for name in ("send_goal", "cancel_goal", "get_result", "feedback", "status")
        }
        token.undeclare()
        until(lambda: other.matched("goal") == 0)


@line("D-664", "D-564")
def test_history_passes_as_advanced_publishers_and_subscribers_have_it() -> None:
    with ros(transient_local_cache_multiplier=2) as (far, made, other):
        # From DDS: a late advanced subscriber gets the history, and then live samples.
        other.writer("latched", "rt/map", "Chatter", durability="transient_local", depth=1)
        until(lambda: other.matched("latched") == 1)
        other.write("latched", [{"number": number, "text": ""} for number in range(5)])
        [route] = [one for one in list(made.routes.values()) if one.id.key == "map"]
        until(lambda: route.sorter.cache.count == 2)  # type: ignore[union-attr]
        heard: list[zenoh.Sample] = []
        late: Any = zenoh.ext.declare_advanced_subscriber(
            far, "map", heard.append, history=zenoh.ext.HistoryConfig(detect_late_publishers=True)
        )
        until(lambda: len(heard) == 2)
        other.write("latched", [{"number": 5, "text": ""}])
        until(lambda: len(heard) == 3)
        assert [_number(one) for one in heard] == [3, 4, 5]
        late.undeclare()
        # To DDS: history of a publisher that was there, and of one that appears later.
        cache = zenoh.ext.CacheConfig(max_samples=10)
        early: Any = zenoh.ext.declare_advanced_publisher(
            far, "plan", cache=cache, publisher_detection=True
        )
        for number in range(3):
            early.put(HEADER + struct.pack("<i", number) + b"\1\0\0\0\0\0\0\0")
        other.reader("plans", "rt/plan", "Chatter", durability="transient_local", depth=2)
        got = [one["value"]["number"] for one in other.taken("plans", 2)]
        assert got == [1, 2]  # no more than the reader keeps
        early.undeclare()


def _is_served(querier: Any) -> bool:
    return bool(querier.matching_status.matching)


def _has_matched(other: Peer, name: str) -> bool:
    return bool(other.matched(name))


def _number(sample: zenoh.Sample) -> int:
    return int.from_bytes(sample.payload.to_bytes()[4:8], "little")


@line("D-664")
def test_a_publisher_that_appears_later_is_asked_for_its_history() -> None:
    with ros() as (far, made, other):
        other.reader("plans", "rt/plan", "Chatter", durability="transient_local", depth=5)
        until(lambda: other.matched("plans") == 1)
        [route] = list(made.routes.values())
        assert isinstance(route, ToDds)
        until(lambda: route.history.was_asked and not route.is_asking)
        # Its sample was put before it had a link; the token tells that it is there.
        sample = HEADER + struct.pack("<i", 7) + b"\1\0\0\0\0\0\0\0"
        key = f"plan/@adv/pub/{far.info.zid()}/uhlc/_"
        queryable = far.declare_queryable(key, lambda query: query.reply("plan", sample))
        token = far.liveliness().declare_token(key)
        assert [one["value"]["number"] for one in other.taken("plans", 1)] == [7]
        token.undeclare()
        queryable.undeclare()


@line("D-664")
def test_a_publisher_that_is_known_before_its_cache_is_asked_for_its_history() -> None:
    with ros() as (far, made, other):
        asked: list[str] = []
        sample = HEADER + struct.pack("<i", 7) + b"\1\0\0\0\0\0\0\0"
        key = f"plan/@adv/pub/{far.info.zid()}/uhlc/_"

        def answer(query: zenoh.Query) -> None:
            """The first query, to all publishers, comes too early."""
            asked.append(str(query.key_expr))
            if "*" not in asked[-1]:
                query.reply("plan", sample)

        queryable = far.declare_queryable(key, answer)
        token = far.liveliness().declare_token(key)
        known = made.session.liveliness()
        until(lambda: any(one.ok for one in known.get(key)))
        other.reader("plans", "rt/plan", "Chatter", durability="transient_local", depth=5)
        assert [one["value"]["number"] for one in other.taken("plans", 1)] == [7]
        assert sorted(asked) == ["plan/@adv/**", key]
        token.undeclare()
        queryable.undeclare()


@line("D-669", "D-936")
def test_the_bridge_is_a_node_of_the_graph_and_knows_the_others() -> None:
    with ros() as (far, made, other):
        qos: dict[str, Any] = {"durability": "transient_local", "depth": 1}
        other.writer("tells", "ros_discovery_info", "Entities", **qos)
        other.reader("hears", "ros_discovery_info", "Entities", **{**qos, "depth": 0})
        guid = other.reader("chatter", "rt/chatter", "Chatter")
        until(lambda: other.matched("tells") == 2 and other.matched("chatter") == 1)
        node = {"namespace": "/", "name": "talker", "readers": [guid], "writers": []}
        other.write("tells", [{"gid": other.guid, "node_entities_info_seq": [node]}])
        until(lambda: [one.name for _, one in made.graph.nodes()] == ["talker"])
        # Its mirror of the reader is an endpoint of the node `elea_bridge`.
        seen: list[Any] = []

        def told() -> bool:
            """The reader hears its own participant as well, before or after the bridge."""
            infos = [one["value"] for one in other.take("hears") if one["valid"]]
            mine = [one for one in infos if bytes(one["gid"]["data"]) == made.dds.guid]
            seen.extend(mine)
            return bool(seen) and bool(seen[-1]["node_entities_info_seq"][0]["writer_gid_seq"])

        until(told)
        [entry] = seen[-1]["node_entities_info_seq"]
        assert (entry["node_namespace"], entry["node_name"]) == ("/", NODE)
        [route] = list(made.routes.values())
        gids = [bytes(one["data"]) for one in entry["writer_gid_seq"]]
        assert gids == [one.guid for one in route.mirrors]
        assert bytes(seen[-1]["gid"]["data"]) == made.dds.guid
        querier = far.declare_querier(f"@/{made.session.zid()}/dds/node/**")
        until(partial(_is_served, querier))
        replies = list(querier.get())
        assert [str(one.ok.key_expr).rpartition("/")[2] for one in replies if one.ok] == ["talker"]
        # The topic of the graph itself is not bridged.
        assert {id_.topic for id_ in list(made.routes)} == {"rt/chatter"}


@line("D-670")
def test_interfaces_are_allowed_by_whole_names_here_and_elsewhere() -> None:
    allow = {"publishers": ["/chat.*"], "subscribers": "/cmd", "service_servers": ["/add"]}
    with ros(allow=allow, deny={"publishers": ["/chatty"]}) as (far, made, other):
        other.writer("a", "rt/chatter", "Chatter")
        other.writer("b", "rt/chatty", "Chatter")
        other.writer("c", "rt/my/chatter", "Chatter")
        other.reader("d", "rt/cmd", "Chatter")
        other.reader("e", "rt/cmd_vel", "Chatter")
        add_server(other)
        other.writer("f", "rq/otherRequest", "AddRequest")
        other.reader("g", "rr/otherReply", "AddReply")
        told = [
            far.liveliness().declare_token(f"@/ab12/@ros2_lv/{one}")
            for one in (
                "MP/cmd/demo::Chatter/:1::0,10",  # a publisher elsewhere: a subscriber here
                "MP/cmd2/demo::Chatter/:1::0,10",
                "MS/chatters/demo::Chatter/:1::0,10",
                "SS/sub/example§srv§Add",
            )
        ]
        wanted = {"chatter", "cmd", "chatters", "add"}
        until(lambda: {id_.key for id_ in list(made.routes)} >= wanted)
        mine = bytes.fromhex(other.guid)[:12]
        until(lambda: len([one for one in _endpoints(made) if one.guid[:12] == mine]) == 9)
        assert {id_.key for id_ in list(made.routes)} == wanted
        for one in told:
            one.undeclare()


def _endpoints(made: Bridge) -> list[Endpoint]:
    """All endpoints; they change meanwhile."""
    parts = (made.table, made.services, made.graph)
    return [one for part in parts for one in list(part.endpoints.values())]


@line("D-667")
def test_services_without_visible_request_ids_are_told() -> None:
    with ros() as (_far, made, other):
        add_server(other)
        until(lambda: made.routes)
        [route] = list(made.routes.values())
        until(lambda: route.state.value is State.ACTIVE)
        # A node with rmw_fastrtps differs in the begin of its GUIDs, which name the vendor.
        foreign = [replace(one, guid=b"\x01\x0f" + one.guid[2:]) for one in route.plan.endpoints]

        def swap(_now_ns: int) -> None:
            for one in list(route.plan.endpoints):
                made.services.remove(one.guid)
            for one in foreign:
                made.services.add(one)

        made.post(swap)
        until(lambda: route.state.error == "request ids not visible")
        until(lambda: route.state.value is State.FAILED)
        assert route.mirrors == []


@line("D-705")
def test_a_bridge_with_dds_names_tells_that_ros_names_are_elsewhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "elea.dds")
    domain = next_domain()
    with eclipse_pair() as (far, near), bridge(near, domain):
        token = far.liveliness().declare_token("@/ab12/@ros2_lv")
        until(lambda: any('set names: "ros2" to meet it' in one for one in caplog.messages))
        token.undeclare()
