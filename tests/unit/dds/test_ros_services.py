"""Requests, tokens and graph messages of ROS 2, and which interfaces are allowed."""

from __future__ import annotations

import re

import pytest

from elea.dds import ros_request
from elea.dds.ros import Interface, InterfaceFilter, key_name, service_label, service_topic
from elea.dds.ros_graph import Node, ParticipantNodes, gid_len_of
from elea.dds.ros_request import RequestId
from elea.dds.ros_tokens import ServiceAnnouncement
from elea.dds.settings import DdsSettings
from elea.errors import ConfigError

line = pytest.mark.line


@line("D-666")
def test_ids_of_requests_stand_between_header_and_body() -> None:
    id_ = RequestId.make(0x0102, 3)
    sample = ros_request.to_dds(b"\0\1\0\0body", id_)
    assert sample == b"\0\1\0\0" + b"\2\1" + bytes(6) + b"\3" + bytes(7) + b"body"
    assert ros_request.from_dds(sample) == (id_, b"\0\1\0\0body")
    assert RequestId.read(id_.to_attachment()) == id_
    big = RequestId.make(0x0102, 3, is_little=False)
    assert big.data == bytes(6) + b"\1\2" + bytes(7) + b"\3"
    assert RequestId.read(big.to_attachment()) == big
    # A query without a payload is a request without members.
    assert ros_request.to_dds(b"", id_) == b"\0\1\0\0" + id_.data


@pytest.mark.parametrize("payload", [b"\0", b"\0\7\0\0body", b"text"])
def test_payloads_that_are_no_requests_are_refused(payload: bytes) -> None:
    assert ros_request.to_dds(payload, RequestId.make(1, 1)) is None
    assert ros_request.from_dds(payload) is None
    assert RequestId.read(payload) is None


@line("D-665")
def test_tokens_of_services_and_actions_round_trip() -> None:
    for kind in ("SS", "SC", "AS", "AC"):
        key = f"@/ab12/@ros2_lv/{kind}/bot1§dock/example§action§Dock"
        told = ServiceAnnouncement.read(key)
        assert told is not None
        assert told.to_key() == key
    assert ServiceAnnouncement.read("@/ab12/@ros2_lv/MP/a/b/:1::") is None
    action = ServiceAnnouncement("ab", True, True, "dock", "example/action/Dock")
    assert dict(action.services())["dock/_action/get_result"] == "example/action/Dock_GetResult"
    assert [one.key for one in action.topics()] == [
        "dock/_action/feedback",
        "dock/_action/status",
    ]


def test_names_of_services() -> None:
    assert service_topic("rq/Request") is None
    assert service_label("pkg::srv::dds_::Add_Response_") == "pkg/srv/Add"
    assert key_name("bot2/tf", "/bot1") == "bot2/tf"


@line("D-669")
@pytest.mark.parametrize("gid_len", [16, 24])
def test_messages_of_the_graph_tell_the_length_of_their_ids(gid_len: int) -> None:
    guids = bytes(range(16)), bytes(range(16, 32))
    told = ParticipantNodes(
        guids[0], (Node("/", "a", (), guids), Node("/ns", "talker", guids[:1]), Node("/", "b"))
    )
    octets = told.to_bytes(gid_len)
    assert ParticipantNodes.read(octets) == (told, gid_len)
    for cut in range(len(octets) - 4):
        with pytest.raises(ValueError, match="no message"):
            ParticipantNodes.read(octets[:cut], gid_len)
    assert gid_len_of("humble") == 24
    assert gid_len_of("iron") == gid_len_of("jazzy") == 16


@line("D-670")
def test_interfaces_match_by_whole_names() -> None:
    allow = {Interface.PUBLISHER: re.compile("/a|/b"), Interface.ACTION_SERVER: re.compile("/act")}
    rules = InterfaceFilter(allow, {Interface.PUBLISHER: re.compile("/b")})
    assert rules.allows_topic("rt/a", is_writer=True)
    assert not rules.allows_topic("rt/b", is_writer=True)
    assert not rules.allows_topic("rt/aa", is_writer=True)
    assert not rules.allows_topic("rt/a", is_writer=False)  # a kind that is not listed
    assert rules.allows_topic("rt/act/_action/feedback", is_writer=True)
    assert rules.allows_service("/act/_action/send_goal", is_server=True)
    assert not rules.allows_service("/act/_action/send_goal", is_server=False)
    assert InterfaceFilter(None, {}).allows_service("/any", is_server=False)


@line("D-662", "D-666", "D-670")
def test_sections_of_ros_bridges() -> None:
    section = {
        "names": "ros2",
        "allow": {"publishers": ["/tf", "/odom"], "service_clients": []},
        "queries_timeout": {
            "default": 2.0,
            "services": ["/add=0.5"],
            "actions": {"get_result": ["/dock=3600"], "send_goal": [".*=1"]},
        },
    }
    found = DdsSettings.read(section)  # type: ignore[arg-type]
    interfaces = found.filter.interfaces
    assert interfaces is not None
    assert interfaces.allows(Interface.PUBLISHER, "/odom")
    assert not interfaces.allows(Interface.SERVICE_CLIENT, "/add")
    for name, seconds in (
        ("/add", 0.5),
        ("/other", 2.0),
        ("/dock/_action/get_result", 3600.0),
        ("/fly/_action/get_result", 300.0),
        ("/fly/_action/send_goal", 1.0),
    ):
        assert found.service_timeout_s(name) == seconds
    with pytest.raises(ConfigError, match=r'need names: "ros2"'):
        DdsSettings.read({"allow": {"publishers": "/tf"}})
    with pytest.raises(ConfigError, match="publishers"):
        DdsSettings.read({"names": "ros2", "deny": {"publisher": "/tf"}})
    with pytest.raises(ConfigError, match="actions"):
        DdsSettings.read({"names": "ros2", "queries_timeout": {"actions": 3}})
