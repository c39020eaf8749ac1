"""The section `plugins/dds`: what is legal, and what is refused with the path of the key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elea.config.kinds import Value
from elea.dds.cyclone import configuration
from elea.dds.qos import Qos
from elea.dds.routes import Direction
from elea.dds.section import SECTION, markdown
from elea.dds.settings import DdsSettings, ros_section
from elea.errors import ConfigError

line = pytest.mark.line


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROS_DOMAIN_ID", "CYCLONEDDS_URI"):
        monkeypatch.delenv(name, raising=False)


@line("D-781", "D-782")
def test_a_section_of_zenoh_bridge_dds_works() -> None:
    settings = DdsSettings.read(
        {
            "scope": "robot7",
            "domain": 5,
            "allow": ["a", "b"],
            "deny": "^robot7/rt/rosout$",
            "max_frequencies": [".*/points=5"],
            "pub_priorities": ["x=2:express", "y=7"],
            "generalise_subs": ["a/**"],
            "forward_discovery": False,
            "reliable_routes_blocking": True,
            "queries_timeout": 2,
            "shm_enabled": False,
            "work_thread_num": 4,
            "__required__": True,
        }
    )
    assert settings.names.scope == "robot7"
    assert settings.filter.allows("robot7/a", Direction.FROM_DDS)
    assert not settings.filter.allows("robot7/rt/rosout", Direction.FROM_DDS)
    assert settings.rate_of("r/points") == 5.0
    assert settings.rate_of("r/other") is None
    assert settings.priority_of("x") == (2, True)
    assert settings.priority_of("zz") == (5, False)
    assert settings.notes == (
        "plugins/dds/work_thread_num has no effect",
        "plugins/dds/generalise_subs has no effect",
    )
    assert settings.is_loopback


@line("D-781")
def test_the_domain_is_that_of_ros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", "42")
    assert DdsSettings.read({}).domain == 42
    assert DdsSettings.read({"domain": 7}).domain == 7
    for text in ("many", "\N{SUPERSCRIPT TWO}", "9" * 5000):
        monkeypatch.setenv("ROS_DOMAIN_ID", text)
        assert DdsSettings.read({}).domain == 0
    monkeypatch.setenv("ROS_DOMAIN_ID", "many")
    assert DdsSettings.read({}).domain == 0


@line("D-109", "D-781", "D-782", "D-783")
@pytest.mark.parametrize(
    ("section", "path"),
    [
        ({"domian": 1}, "plugins/dds/domian"),
        ({"domain": 233}, "plugins/dds/domain"),
        ({"domain": True}, "plugins/dds/domain"),
        ({"scope": "a/*"}, "plugins/dds/scope"),
        ({"allow": "("}, "plugins/dds/allow"),
        ({"allow": 5}, "plugins/dds/allow"),
        ({"shm_enabled": True}, "plugins/dds/shm_enabled"),
        ({"direction": "up"}, "plugins/dds/direction"),
        ({"max_frequencies": ["x"]}, "plugins/dds/max_frequencies"),
        ({"max_frequencies": ["x=0"]}, "plugins/dds/max_frequencies"),
        ({"pub_priorities": ["x=9"]}, "plugins/dds/pub_priorities"),
        ({"queries_timeout": -1}, "plugins/dds/queries_timeout"),
        ({"linger": "5"}, "plugins/dds/linger"),
        ({"generalise_subs": ["a//b"]}, "plugins/dds/generalise_subs"),
        ({"discovery": 5}, "plugins/dds/discovery"),
        ({"discovery": {"peer": []}}, "plugins/dds/discovery/peer"),
        ({"discovery": {"peers": ['"/>']}}, "plugins/dds/discovery/peers"),
        ({"discovery": {"ttl": 999}}, "plugins/dds/discovery/ttl"),
        ({"discovery": {"participant_index": 500}}, "plugins/dds/discovery/participant_index"),
        ({"discovery": {"config": "<CycloneDDS>"}}, "plugins/dds/discovery/config"),
        ({"discovery": {"config": "<!DOCTYPE x>"}}, "plugins/dds/discovery/config"),
        ({"discovery": {"config": "<a/>"}, "localhost_only": True}, "plugins/dds/localhost_only"),
        ({"types": {"X": {}}}, "plugins/dds/types/X"),
        ({"types": {"X": {"layout": "{}", "key": 1}}}, "plugins/dds/types/X/key"),
        ({"routes": [{"topic": "T"}]}, "plugins/dds/routes/0"),
        ({"routes": [{"topic": "T", "type": "X", "direction": "up"}]}, "routes/0/direction"),
        ({"qos": [{"match": "x", "reader": {"depth": "many"}}]}, "plugins/dds/qos/0"),
        ({"qos": [{"reader": {}}]}, "plugins/dds/qos/0"),
        ({"domains": []}, "plugins/dds/domains"),
        ({"domains": [{"domain": 1}, {"domain": 1}]}, "plugins/dds/domains"),
        ({"domains": [{"domain": 1}], "scope": "x"}, "plugins/dds/scope"),
    ],
)
def test_what_is_not_legal_is_refused_by_its_path(section: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as raised:
        DdsSettings.read_all(section)
    assert path in str(raised.value)


@line("D-782", "D-783")
@pytest.mark.parametrize(
    ("section", "error"),
    [
        ({"domain": 233}, "domain: expected a whole number from 0 to 232, got the number 233"),
        ({"linger": "5"}, "linger: expected a number from 0 to 86400, got the text '5'"),
        ({"names": "ros"}, 'names: expected one of "dds", "ros2", got the text \'ros\''),
        (
            {"shm_enabled": True},
            "shm_enabled: expected false, got true: the DDS library has no shared memory exchange",
        ),
        (
            {"max_frequencies": ["a=1", "b"]},
            "max_frequencies/1: expected a text REGEX=HERTZ, got the text 'b': there is no = in it",
        ),
        (
            {"queries_timeout": {"services": "a=0"}},
            "queries_timeout/services: expected a text REGEX=SECONDS, got the text 'a=0':"
            " 0 is not above 0, up to 86400",
        ),
        (
            {"pub_priorities": "x=9"},
            "pub_priorities: expected a text REGEX=1..7[:express], got the text 'x=9':"
            " '9' is not 1 to 7, and :express or nothing",
        ),
        (
            {"discovery": {"peers": ['"/>']}},
            "discovery/peers/0: expected an address or a name, got the text '\"/>':"
            " it has other characters than addresses and names",
        ),
        ({"qos": [{"reader": {}}]}, "qos/0/match: expected a regular expression, got nothing"),
    ],
)
def test_what_is_refused_is_said_in_the_one_form(section: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        DdsSettings.read_all(section)
    assert str(raised.value) == f"plugins/dds/{error}"


@line("D-311", "D-364")
@pytest.mark.parametrize(
    ("section", "path"),
    [
        ({"routes": [{"topic": "T", "type": "X", "qos": 5}]}, "routes/0/qos"),
        ({"qos": [{"match": "a", "reader": ["depth"]}]}, "qos/0/reader"),
        ({"domains": [{"domains": [{"domain": 1}]}]}, "domains/0/domains"),
    ],
)
def test_what_was_passed_over_in_silence_is_refused(section: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as raised:
        DdsSettings.read_all(section)
    assert raised.value.path == f"plugins/dds/{path}"


@line("D-782", "D-783")
def test_what_cannot_be_compiled_or_read_is_refused_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "cyclone.xml"
    file.write_bytes(b"<a>\xff</a>")
    for section, path in (
        ({"allow": "a{99999999999999999999}"}, "allow"),
        ({"pub_priorities": "a=\N{SUPERSCRIPT TWO}"}, "pub_priorities"),
        ({"discovery": {"config": f"file://{file}"}}, "discovery/config"),
        ({"discovery": {"config": "<a/>", "ttl": 3}}, "discovery/ttl"),
    ):
        with pytest.raises(ConfigError) as raised:
            DdsSettings.read(section)  # type: ignore[arg-type]
        assert raised.value.path == f"plugins/dds/{path}"


@line("D-782")
def test_a_key_that_is_null_is_as_one_that_is_absent() -> None:
    nothing: dict[str, Value] = {key.name: None for key in SECTION.keys}
    found, absent = DdsSettings.read(nothing), DdsSettings.read({})
    assert replace(found, said={}) == replace(absent, said={})


@line("D-666")
def test_an_expression_of_a_timeout_is_judged_without_what_is_put_around_it() -> None:
    """`a)(b` is none, and `(?:a)(b)` would be."""
    with pytest.raises(ConfigError, match=r"queries_timeout/services/0: .* unbalanced parenthesis"):
        DdsSettings.read({"queries_timeout": {"services": ["a)(b=3"]}})


@line("D-782")
def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="domain"):
        DdsSettings.read({"domian": 1})


@line("D-812")
def test_loopback_is_the_default() -> None:
    text = configuration(DdsSettings.read({}), "/tmp/log")
    assert '<NetworkInterface address="127.0.0.1"/>' in text
    assert '<Peer address="127.0.0.1"/>' in text
    assert "<ParticipantIndex>auto</ParticipantIndex>" in text
    assert "<MaxAutoParticipantIndex>120</MaxAutoParticipantIndex>" in text


@line("D-212", "D-811", "D-813")
def test_what_leaves_the_host_is_told() -> None:
    beyond = DdsSettings.read({"localhost_only": False})
    assert not beyond.is_loopback
    assert "<MulticastTimeToLive>1</MulticastTimeToLive>" in configuration(beyond, "x")
    peers = DdsSettings.read({"discovery": {"peers": ["192.0.2.7"], "interfaces": ["eth0"]}})
    assert not peers.is_loopback
    text = configuration(peers, "x")
    assert '<Peer address="192.0.2.7"/>' in text
    assert '<NetworkInterface name="eth0"/>' in text
    assert DdsSettings.read({"discovery": {"peers": ["127.0.0.1:7410"]}}).is_loopback


@line("D-783")
def test_the_configuration_of_the_library_is_merged_last(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "<CycloneDDS><Domain/></CycloneDDS>"
    settings = DdsSettings.read({"discovery": {"config": said}})
    assert configuration(settings, "x").endswith(f",{said}")
    monkeypatch.setenv("CYCLONEDDS_URI", said)
    assert not DdsSettings.read({}).localhost_only
    with pytest.raises(ConfigError, match="CYCLONEDDS_URI"):
        DdsSettings.read({"localhost_only": True})


@line("D-364")
def test_the_first_matching_rule_overrides_qos() -> None:
    rules = [
        {"match": "^a$", "reader": {"depth": 7}, "writer": {"strength": 3}},
        {"match": "a", "reader": {"depth": 9}},
    ]
    settings = DdsSettings.read({"qos": rules})  # type: ignore[dict-item]
    assert settings.reader_qos("a", Qos()).depth == 7
    assert settings.reader_qos("ab", Qos()).depth == 9
    assert settings.writer_qos("a", Qos()).strength == 3
    assert settings.writer_qos("c", Qos()) == Qos()


@line("D-662")
def test_a_section_of_ros2dds_is_one_of_this_bridge() -> None:
    section = ros_section({"namespace": "/bot1", "ros_localhost_only": True, "domain": 3})
    settings = DdsSettings.read(section)
    assert (settings.ros, settings.namespace, settings.domain) == (True, "/bot1", 3)


@line("D-639")
def test_several_domains_are_several_sections() -> None:
    found = DdsSettings.read_all({"domains": [{"domain": 0}, {"domain": 1, "scope": "b"}]})
    assert [(one.domain, one.names.scope) for one in found] == [(0, ""), (1, "b")]


def test_the_page_lists_every_key() -> None:
    page = markdown()
    assert all(f"| `{key.name}` |" in page for key in SECTION.keys)
