"""Nodes of Elea in a fleet that Eclipse Zenoh plays: graph, topics, services, both ways."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.interop.child import child
from tests.interop.ends import ECLIPSE, eventually, module_of, settings_of
from tests.ros.robot import Robot, fleet, robot

import elea.ros as ros
from elea.errors import InvalidValueError
from elea.ros.formats.attachment import Attachment, parse_attachment
from elea.ros.formats.keys import NO_HASH
from elea.ros.formats.library import Library
from elea.ros.formats.shipped import shipped
from elea.ros.formats.tokens import Kind, Token, parse_token

line = pytest.mark.line
STRING = "std_msgs/msg/String"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with fleet() as where:
        yield where


@pytest.fixture
def talker(endpoint: str) -> Iterator[Robot]:
    with robot(endpoint) as made:
        yield made


@pytest.fixture
def node(endpoint: str) -> Iterator[ros.Node]:
    with ros.Node("inspector", namespace="/ops", connect=endpoint) as made:
        yield made


@line("R2-152", "R2-153", "R2-154", "R2-903", "R2-605")
def test_tokens_come_and_go(talker: Robot, node: ros.Node) -> None:
    events: list[tuple[str, bool]] = []
    end = node.graph.listen(lambda token, came: events.append((token.name, came)))
    published = talker.publisher("/robot1/chatter", STRING)
    assert node.graph.wait_for("/robot1/chatter", 20)
    [topic] = [one for one in node.graph.topics() if one.name == "/robot1/chatter"]
    assert topic.types == [STRING]
    assert [one.name for one in node.graph.nodes()][:2] == ["/ops/inspector", "/robot1/talker"]
    talker.subscription("/robot1/chatter", "std_msgs/msg/Bool")
    assert eventually(lambda: len(node.graph.topic("/robot1/chatter")) == 2)
    [topic] = [one for one in node.graph.topics() if one.name == "/robot1/chatter"]
    assert topic.has_conflict
    published.declared.undeclare()
    assert eventually(lambda: ("/robot1/chatter", False) in events)
    assert node.graph.publishers("/robot1/chatter") == []
    end()


@line("R2-152", "R2-903")
def test_a_killed_node_leaves_nothing(endpoint: str, node: ros.Node) -> None:
    with child(ECLIPSE, settings_of("client", connect=endpoint)) as other:
        token = Token(0, other.zid, 0, 0, Kind.NODE, "/", "doomed")
        other.do("token", token.key)
        assert node.graph.wait_for("/doomed", 20)
        other.kill()
        assert eventually(lambda: "/doomed" not in [one.name for one in node.graph.nodes()])


@line("R2-151", "R2-814")
def test_tokens_that_cannot_be_read_are_counted_and_told_once(
    talker: Robot, node: ros.Node, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "elea.ros"):
        kept = [
            talker.session.liveliness().declare_token(
                f"@ros2_lv/0/{talker.token.zid}/0/{number}/XX"
            )
            for number in range(3)
        ]
        assert eventually(lambda: node.graph.bad_count == 3)
        assert sum("token left out" in one.message for one in caplog.records) == 1
    del kept


@line("R2-153")
def test_an_endpoint_without_a_node_token_makes_a_node(talker: Robot, node: ros.Node) -> None:
    token = talker.endpoint(Kind.PUBLISHER, "/lonely", STRING, shipped().hash(STRING))
    other = Token(
        0, token.zid, 77, 78, token.kind, "/", "ghost", token.name, token.type, token.hash
    )
    talker.declare(other)
    assert eventually(lambda: "/ghost" in [one.name for one in node.graph.nodes()])


@line("R2-157", "R2-601", "R2-156", "R2-305")
def test_ros_nodes_see_a_node_of_elea(endpoint: str, talker: Robot) -> None:
    seen: dict[str, bool] = {}
    watcher = talker.session.liveliness().declare_subscriber(
        "@ros2_lv/0/**",
        lambda sample: seen.__setitem__(str(sample.key_expr), str(sample.kind).endswith("PUT")),
        history=True,
    )
    node = ros.Node("inspector", namespace="/ops", connect=endpoint)
    zid = node.context.zid
    node.create_publisher(STRING, "chatter", 10)

    def mine() -> list[Token]:
        found = [parse_token(key) for key, there in list(seen.items()) if there]
        return [one for one in found if isinstance(one, Token) and one.zid == zid]

    assert eventually(lambda: len(mine()) == 4)
    assert {(one.kind.value, one.name, one.eid) for one in mine()} == {
        ("NN", "", 0),
        ("MP", "/rosout", 1),
        ("SS", "/ops/inspector/get_type_description", 2),
        ("MP", "/ops/chatter", 3),
    }
    [rosout] = [one for one in mine() if one.name == "/rosout"]
    assert rosout.qos.text() == ":1:,1000:,:10,0:,,"
    node.close()
    node.close()
    assert eventually(lambda: mine() == [])
    watcher.undeclare()


@line("R2-201", "R2-203", "R2-205", "R2-206", "R2-221", "R2-223", "R2-903")
def test_messages_of_a_robot_arrive_with_all_that_is_known(talker: Robot, node: ros.Node) -> None:
    published = talker.publisher("/robot1/chatter", STRING)
    assert node.graph.wait_for("/robot1/chatter", 20)
    subscription = node.subscribe("/robot1/chatter")
    published.wait_matching()
    published.publish({"data": "one"})
    published.number += 4
    published.publish({"data": "two"})
    first, second = subscription.take(20), subscription.take(20)
    assert (first.data, second.data) == ("one", "two")
    assert first.info.node == "/robot1/talker"
    assert first.info.gid == published.token.gid
    assert (first.info.sequence_number, second.info.sequence_number) == (1, 6)
    assert (second.info.lost, subscription.lost) == (4, 4)
    assert first.info.source_time <= second.info.source_time


@line("R2-202")
def test_attachments_that_are_missing_or_odd_are_accepted(talker: Robot, node: ros.Node) -> None:
    published = talker.publisher("/robot1/odd", STRING)
    subscription = node.create_subscription(STRING, "/robot1/odd")
    published.wait_matching()
    published.publish({"data": "none"}, attach=b"")
    published.publish({"data": "odd"}, attach=b"abc")
    messages = [subscription.take(20) for _ in range(2)]
    assert [one.data for one in messages] == ["none", "odd"]
    assert [one.info.gid for one in messages] == [None, None]
    assert node.context.counts.attachments_bad == 1


@line("R2-201", "R2-202", "R2-222", "R2-903")
def test_a_robot_hears_elea(talker: Robot, node: ros.Node) -> None:
    ear = talker.subscription("/robot1/cmd", STRING)
    publisher = node.create_publisher(STRING, "/robot1/cmd", 10)
    assert publisher.wait_for_subscriptions(1, 20)
    assert eventually(lambda: publisher._publisher.matching_status.matching)
    for number in range(5):
        publisher.publish({"data": str(number)})
    assert ear.reach(5)
    assert [one.data for one in ear.messages] == list("01234")
    assert [one.sequence_number for one in ear.attachments] == [1, 2, 3, 4, 5]
    assert {one.gid for one in ear.attachments} == {publisher.token.gid}
    assert ear.refused == 0


@line("R2-606", "R2-602")
def test_a_wrong_message_is_not_sent(talker: Robot, node: ros.Node) -> None:
    ear = talker.subscription("/robot1/cmd2", STRING)
    publisher = node.create_publisher(ros.types[STRING], "/robot1/cmd2")
    assert eventually(lambda: publisher._publisher.matching_status.matching)
    with pytest.raises(ValueError, match="data: expected a text, got 5"):
        publisher.publish({"data": 5})
    publisher.publish(ros.types[STRING](data="good"))  # type: ignore[call-arg]
    assert ear.reach(1)
    assert ear.attachments[0].sequence_number == 1


def kept_count(session: Any, key: str) -> int:
    """What caches hold; what was published before the answer has passed the router, too."""
    names = module_of(session)
    options = {
        "target": names.QueryTarget.ALL,
        "consolidation": names.ConsolidationMode.NONE,
    }
    replies = session.get(f"{key}/@adv/**?_anyke", **options)
    return sum(reply.ok is not None for reply in replies)


@line("R2-222", "R2-223", "R2-903", "R2-224")
@pytest.mark.parametrize("reliability", [ros.Reliability.RELIABLE, ros.Reliability.BEST_EFFORT])
def test_late_joiners_get_what_is_kept(
    talker: Robot, node: ros.Node, reliability: ros.Reliability
) -> None:
    qos = ros.QoS(reliability, ros.Durability.TRANSIENT_LOCAL, depth=3)
    name = f"/robot1/map_{reliability.value}"
    published = talker.publisher(name, STRING, qos)
    for number in range(5):
        published.publish({"data": str(number)})
    assert node.graph.wait_for(name, 20)
    assert eventually(lambda: kept_count(node.context.session, published.key) == 3)
    # Nothing is asked of the caller: the publisher's token says that it keeps messages.
    subscription = node.subscribe(name)
    assert [subscription.take(20).data for _ in range(3)] == ["2", "3", "4"]
    published.publish({"data": "5"})
    assert subscription.take(20).data == "5"
    ours = node.create_publisher(STRING, f"{name}/ours", qos)
    for number in range(5):
        ours.publish({"data": str(number)})
    key = node.context.key(f"{name}/ours", STRING, shipped().hash(STRING))
    assert eventually(lambda: kept_count(talker.session, key) == 3)
    ear = talker.subscription(f"{name}/ours", STRING, qos)
    assert ear.reach(3)
    assert [one.data for one in ear.messages] == ["2", "3", "4"]
    ours.publish({"data": "5"})
    assert ear.reach(4)
    assert ear.messages[3].data == "5"


@line("R2-102", "R2-225", "R2-355", "R2-903")
def test_humble_is_heard_beside_jazzy(talker: Robot, node: ros.Node) -> None:
    jazzy = talker.publisher("/robot1/mixed", STRING)
    humble = talker.publisher("/robot1/mixed", STRING, hash=NO_HASH)
    subscription = node.create_subscription(STRING, "/robot1/mixed")
    for published, text in ((jazzy, "new"), (humble, "old")):
        published.wait_matching()
        published.publish({"data": text})
    messages = [subscription.take(20) for _ in range(2)]
    assert sorted(one.data for one in messages) == ["new", "old"]
    assert {one.info.hash for one in messages} == {jazzy.token.hash, NO_HASH}


@line("R2-506")
def test_publishing_takes_the_hash_of_who_is_there(talker: Robot, node: ros.Node) -> None:
    other = Library.of_text("string data\nint32 more", STRING).message(STRING)
    talker.subscription("/robot1/both", other)
    assert node.graph.wait_for("/robot1/both", 20)
    with pytest.raises(ros.UnknownTypeError, match="definition of std_msgs/msg/String is RIHS01_"):
        node.create_publisher(STRING, "/robot1/both")
    talker.subscription("/robot1/both", STRING)
    assert eventually(lambda: len(node.graph.topic("/robot1/both")) == 2)
    with pytest.raises(InvalidValueError, match="have the hashes"):
        node.create_publisher(STRING, "/robot1/both")


@line("R2-251", "R2-254", "R2-257", "R2-903")
def test_buffers_of_lyrical_arrive_once(talker: Robot, node: ros.Node) -> None:
    image = "sensor_msgs/msg/CompressedImage"
    published = talker.publisher("/robot1/image", image, backends={"cpu": ""})
    subscription = node.create_subscription(image, "/robot1/image", qos=ros.SENSOR_DATA)
    assert subscription.token.key.endswith("/backends:cpu:")
    published.wait_matching()
    published.wait_matching("_buf_cpu")
    attached = Attachment(1, 5, published.token.gid).to_bytes()
    for suffix in ("_buf_cpu", ""):
        published.publish({"format": "png", "data": b"abc"}, suffix=suffix, attach=attached)
    published.publish({"format": "jpeg"}, suffix="_buf_cpu")
    assert [subscription.take(20).format for _ in range(2)] == ["png", "jpeg"]
    assert subscription.lost == 0  # these publishers number per group of receivers (R2-205)
    ours = node.create_publisher(image, "/ops/image")
    assert "backends" not in ours.token.key
    plain = node.create_subscription(STRING, "/robot1/text")
    assert "backends" not in plain.token.key


@line("R2-281", "R2-282", "R2-903")
def test_elea_calls_a_robot(talker: Robot, node: ros.Node) -> None:
    talker.server(
        "/add", "example_interfaces/srv/AddTwoInts", lambda request: {"sum": request.a + request.b}
    )
    client = node.create_client("example_interfaces/srv/AddTwoInts", "/add")
    assert client.call({"a": 40, "b": 2}, 20, wait=20).sum == 42
    with pytest.raises(ValueError, match="a: expected a number"):
        client.call({"a": "x"})


@line("R2-281", "R2-282", "R2-286", "R2-903")
def test_a_robot_calls_elea(talker: Robot, node: ros.Node) -> None:
    node.create_service(
        "example_interfaces/srv/AddTwoInts", "/sum", lambda request: {"sum": request.a + request.b}
    )
    kind = shipped().service("example_interfaces/srv/AddTwoInts")
    key = node.context.key("/sum", kind.name, kind.hash)
    attached = Attachment(7, 1, bytes(range(16)))
    payload = kind.request.encode({"a": 1, "b": 2})

    def replies(**more: Any) -> list[Any]:
        return list(talker.session.get(key, payload=payload, timeout=20, **more))

    assert eventually(lambda: replies(attachment=attached.to_bytes()))
    [reply] = replies(attachment=attached.to_bytes())
    assert kind.response.decode(reply.ok.payload.to_bytes()).sum == 3
    got = parse_attachment(reply.ok.attachment.to_bytes())
    assert got is not None
    assert (got.sequence_number, got.gid) == (attached.sequence_number, attached.gid)
    [reply] = replies()
    assert reply.err.payload.to_string() == "attachment expected: 33 bytes"


@line("R2-284", "R2-903")
def test_the_first_of_two_servers_is_heard(endpoint: str, talker: Robot, node: ros.Node) -> None:
    with robot(endpoint, "second") as other:
        for one in (talker, other):
            one.server("/twice", "std_srvs/srv/Trigger", lambda _: {"success": True, "message": ""})
        assert eventually(lambda: len(node.graph.servers("/twice")) == 2)
        client = node.create_client("std_srvs/srv/Trigger", "/twice")
        assert client.call({}, 20).success
        assert eventually(lambda: client.late_replies == 1)


@line("R2-285", "R2-283", "R2-903")
def test_no_server_and_a_silent_server_are_two_errors(talker: Robot, node: ros.Node) -> None:
    client = node.create_client("std_srvs/srv/Trigger", "/nobody")
    with pytest.raises(ros.NoServerError, match="no server for /nobody"):
        client.call({}, wait=0)
    release = threading.Event()

    def stuck(_request: Any) -> Any:
        release.wait(20)
        return {}

    talker.server("/stuck", "std_srvs/srv/Trigger", stuck)
    silent = node.create_client("std_srvs/srv/Trigger", "/stuck")
    assert silent.wait_for_service(20)
    with pytest.raises(ros.ServiceTimeoutError, match=r"no reply within 0\.2 s"):
        silent.call({}, 0.2)
    release.set()


@line("R2-287")
def test_a_slow_request_holds_up_its_client_alone(endpoint: str, node: ros.Node) -> None:
    release, order = threading.Event(), []

    def handle(request: Any) -> Any:
        if request.a == 1:
            release.wait(20)
        order.append(request.a)
        return {"sum": request.a}

    add = "example_interfaces/srv/AddTwoInts"
    node.create_service(add, "/slow", handle)
    with ros.Node("other", connect=endpoint) as other:
        first, second = (one.create_client(add, "/slow") for one in (node, other))
        assert second.wait_for_service(20)
        pending = [first.call_async({"a": number}, 20) for number in (1, 2)]
        assert second.call({"a": 3}, 20, wait=20).sum == 3
        release.set()
        assert [one.result(20).sum for one in pending] == [1, 2]
        assert order == [3, 1, 2]


@line("R2-286")
def test_a_handler_that_fails_is_an_error_reply(node: ros.Node, endpoint: str) -> None:
    def bad(_request: Any) -> Any:
        raise KeyError("oops")

    async def good(_request: Any) -> Any:
        return {"success": True}

    service = node.create_service("std_srvs/srv/Trigger", "~/bad", bad)
    node.create_service("std_srvs/srv/Trigger", "~/good", good)
    with ros.Node("caller", connect=endpoint, rosout=False, describe=False) as caller:
        client = caller.create_client("std_srvs/srv/Trigger", "/ops/inspector/bad")
        with pytest.raises(ros.ServiceError, match="KeyError"):
            client.call({}, 20, wait=20)
        assert service.refused == 1
        better = caller.create_client("std_srvs/srv/Trigger", "/ops/inspector/good")
        assert better.call({}, 20, wait=20).success


@line("R2-323", "R2-321", "R2-305", "R2-813")
def test_a_type_nobody_gave_is_asked_of_the_fleet(endpoint: str, node: ros.Node) -> None:
    text = "uint8 KIND_A=3\nstring label\nPart[] parts\n"
    text += "===\nMSG: my_pkg/Part\nfloat64[3] xyz\nint8 k 7"
    types = ros.Types()
    kind = types.add_text("my_pkg/msg/Thing", text, "test")
    with ros.Node("maker", connect=endpoint, types=types) as maker:
        publisher = maker.create_publisher("my_pkg/msg/Thing", "/thing", ros.LATCHED)
        publisher.publish({"label": "a", "parts": [{"xyz": [1, 2, 3]}]})
        subscription = node.subscribe("/thing", timeout=20)
        message = subscription.take(20)
        assert message.label == "a"
        assert list(message.parts[0].xyz) == [1.0, 2.0, 3.0]
        assert (message.parts[0].k, message.KIND_A) == (7, 3)
        assert node.types.message("my_pkg/msg/Thing", kind.hash).source == "node /maker"


@line("R2-325")
def test_an_unknown_type_is_given_as_it_came(talker: Robot, node: ros.Node) -> None:
    kind = Library.of_text("int32 a", "odd_pkg/msg/Foo").message("odd_pkg/msg/Foo")
    published = talker.publisher("/custom", kind)
    assert node.graph.wait_for("/custom", 20)
    subscription = node.subscribe("/custom")
    published.wait_matching()
    published.publish({"a": 5})
    message = subscription.take(20)
    assert message.payload == kind.encode({"a": 5})
    assert message.reason.startswith(f"no definition of odd_pkg/msg/Foo {kind.hash[:11]}")
    assert subscription.undecodable == 1


@line("R2-104", "R2-226")
def test_data_is_told_from_tokens_and_deletions_are_not_handed_over(
    talker: Robot, node: ros.Node
) -> None:
    published = talker.publisher("/robot1/gone", STRING)
    keys: list[str] = []
    everything = node.context.session.declare_subscriber(
        "0/**", lambda sample: keys.append(str(sample.key_expr))
    )
    got: list[str] = []
    node.create_subscription(STRING, "/robot1/gone", lambda message: got.append(message.data))
    published.wait_matching()
    talker.session.delete(published.key)
    published.publish({"data": "after"})
    assert eventually(lambda: got == ["after"])
    assert eventually(lambda: keys == [published.key, published.key])
    everything.undeclare()


@line("R2-607")
def test_names_of_rclpy_are_kept(node: ros.Node) -> None:
    assert (node.get_name(), node.get_namespace()) == ("inspector", "/ops")
    assert node.get_fully_qualified_name() == "/ops/inspector"
    publisher = node.create_publisher(ros.types[STRING], "chatter", 10)
    assert (publisher.topic_name, publisher.get_subscription_count()) == ("/ops/chatter", 0)
    subscription = node.create_subscription(ros.types[STRING], "chatter", print, 10)
    assert subscription.topic_name == "/ops/chatter"
    client = node.create_client("std_srvs/srv/Trigger", "~/go")
    assert not client.wait_for_service(timeout_sec=0)
    service = node.create_service("std_srvs/srv/Trigger", "~/go", filled)
    assert client.wait_for_service(timeout_sec=20)
    assert client.call_async({}).result(20).success
    assert (service.service_name, client.srv_name) == ("/ops/inspector/go",) * 2
    for name in ("debug", "info", "warning", "error", "fatal"):
        getattr(node.get_logger(), name)("text")
    node.destroy_node()


def filled(_request: Any, response: Any) -> Any:
    """A handler as rclpy has them."""
    response.success = True
    return response


@line("R2-604")
def test_a_queue_keeps_the_newest(talker: Robot, node: ros.Node) -> None:
    published = talker.publisher("/robot1/fast", STRING)
    subscription = node.create_subscription(STRING, "/robot1/fast", qos=2)
    published.wait_matching()
    for number in range(6):
        published.publish({"data": str(number)})
    assert eventually(lambda: subscription.received == 6)
    assert subscription.dropped == 4
    assert [subscription.take(1).data for _ in range(2)] == ["4", "5"]
    with pytest.raises(TimeoutError):
        subscription.take(0.01)


@line("R2-603")
def test_a_callback_that_raises_gets_the_next_message(talker: Robot, node: ros.Node) -> None:
    published = talker.publisher("/robot1/calls", STRING)
    got: list[str] = []

    def heard(message: Any) -> None:
        got.append(message.data)
        raise RuntimeError(message.data)

    node.create_subscription(STRING, "/robot1/calls", heard)
    published.wait_matching()
    for text in ("a", "b"):
        published.publish({"data": text})
    assert eventually(lambda: got == ["a", "b"])


@line("R2-304", "R2-305")
def test_parameters_are_asked_for_and_set(endpoint: str, node: ros.Node) -> None:
    values = {"rate": 5, "name": "x", "gains": [1.0, 2.0], "on": True}
    with ros.Node("tuned", connect=endpoint, parameters=values) as tuned:
        assert tuned.parameters is not None

        def call(name: str, request: Any) -> Any:
            kind = f"rcl_interfaces/srv/{''.join(part.capitalize() for part in name.split('_'))}"
            return node.create_client(kind, f"/tuned/{name}").call(request, 20, wait=20)

        assert call("list_parameters", {}).result.names == ["gains", "name", "on", "rate"]
        answer = call("get_parameters", {"names": ["rate", "gains", "none"]}).values
        assert [one.type for one in answer] == [2, 8, 0]
        value = {"type": 2, "integer_value": 9}
        wrong = {"type": 4, "string_value": "z"}
        results = call(
            "set_parameters",
            {"parameters": [{"name": "rate", "value": value}, {"name": "rate", "value": wrong}]},
        ).results
        assert [one.successful for one in results] == [True, False]
        assert tuned.parameters["rate"] == 9


@line("R2-305")
def test_what_a_logger_is_told_is_on_rosout(talker: Robot, node: ros.Node) -> None:
    ear = talker.subscription("/rosout", "rcl_interfaces/msg/Log", ros.ROSOUT)
    node.get_logger().warning("battery low")
    assert ear.reach(1)
    assert (ear.messages[-1].level, ear.messages[-1].msg) == (30, "battery low")


@line("R2-401", "R2-402", "R2-403", "R2-155", "R2-404")
def test_a_fleet_behind_a_bridge(talker: Robot, node: ros.Node) -> None:
    session = talker.session
    zid = str(session.zid())
    service = shipped().service("example_interfaces/srv/AddTwoInts")

    def answer(query: Any) -> None:
        with query:
            request: Any = service.request.decode(query.payload.to_bytes())
            query.reply("bot9/add", service.response.encode({"sum": request.a + request.b}))

    # Before the tokens: the router knows it when the node sees them.
    serving = session.declare_queryable("bot9/add", answer, complete=True)
    kept = [
        session.liveliness().declare_token(f"@/{zid}/@ros2_lv{more}")
        for more in (
            "",
            "/MP/bot9§chatter/std_msgs§msg§String/:1::,10",
            "/SS/bot9§add/example_interfaces§srv§AddTwoInts",
        )
    ]
    kind = shipped().message(STRING)
    assert node.graph.wait_for("/bot9/chatter", 20)
    [topic] = [one for one in node.graph.topics() if one.name == "/bot9/chatter"]
    assert topic.via == f"bridge {zid}"
    assert f"bridge {zid}" in [one.name for one in node.graph.nodes()]
    subscription = node.subscribe("/bot9/chatter")
    publisher = session.declare_publisher("bot9/chatter")
    assert eventually(lambda: publisher.matching_status.matching)
    publisher.put(kind.encode({"data": "from dds"}))
    message = subscription.take(20)
    assert (message.data, message.info.gid, message.info.node) == ("from dds", None, None)
    got: list[bytes] = []
    session.declare_subscriber("bot9/cmd", lambda sample: got.append(sample.payload.to_bytes()))
    ours = node.create_publisher(STRING, "/bot9/cmd", via="bridge")
    assert eventually(lambda: ours._publisher.matching_status.matching)
    ours.publish({"data": "go"})
    assert eventually(lambda: got == [kind.encode({"data": "go"})])
    client = node.create_client(service.name, "/bot9/add", via="bridge")
    assert client.call({"a": 3, "b": 4}, 20, wait=20).sum == 7
    del kept, serving
