"""The service in a router, the program `elea dds`, and the verbs that look at a domain."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from tests.dds.conftest import Rig
from tests.dds.peers import LIMIT_S, config_of, next_domain, peer, until
from tests.meta.tree import ROOT
from tests.ports import free_port

import elea
from elea.cli.main import main
from elea.config.config import Config
from elea.daemon import exposure
from elea.dds.service import DdsService, RosDdsService
from elea.errors import ConfigError, EleaError, MissingDependencyError

line = pytest.mark.line


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Any]:
    """The JSON lines that a command prints."""
    assert main(["dds", *arguments]) == 0
    return [json.loads(one) for one in capsys.readouterr().out.splitlines()]


@line("D-001", "D-785", "D-817")
def test_the_program_bridges_until_it_is_told_to_stop(tmp_path: Path) -> None:
    domain = next_domain()
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "elea.cli.main", "dds", "-d", str(domain), "-l", endpoint]
    command += ["-s", "robot7", "--deny", "Secret", "--no-multicast-scouting", "-i", "ab"]
    environment = {**os.environ, "ELEA_NO_SCOUTING": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith("ready: router ab ")
        with (
            elea.open(config_of(connect=endpoint, mode="client")) as session,
            peer(domain) as other,
        ):
            subscriber = session.declare_subscriber("robot7/Talk")
            other.writer("w", "Talk", "Chatter")
            until(lambda: other.matched("w"))
            other.write("w", [{"number": 1, "text": ""}])
            assert str(subscriber.handler.recv(LIMIT_S).key_expr) == "robot7/Talk"
            status = [
                one.ok for one in session.get("@/ab/router/status/plugins/dds/bridge") if one.ok
            ]
            assert json.loads(status[0].payload.to_string())["domain"] == domain
            subscriber.undeclare()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@line("D-786", "D-876")
def test_a_domain_is_listed_without_being_bridged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    domain = next_domain()
    here = ["-d", str(domain), "--timeout", "20"]
    with peer(domain) as other:
        other.writer("w", "Look", "Robot")
        other.reader("r", "Look", "Robot", reliable=False)
        other.reader("p", "Pub", "Chatter")
        [typed] = output(capsys, "typeof", "Look", "--json", *here)
        assert typed["name"] == "demo::Robot"
        assert typed["layout"].startswith("appendable {name: string")
        short = ["-d", str(domain), "--timeout", "2"]

        def listed() -> bool:
            """What was discovered in the time given: on a busy host not all at first."""
            found = output(capsys, "ls", "--json", *short)
            kinds = {(one["kind"], one.get("topic")) for one in found}
            return {("writer", "Look"), ("reader", "Look"), ("reader", "Pub")} <= kinds

        until(listed)
        [matched] = until(lambda: output(capsys, "match", "Look", "--json", *short))
        assert matched["matched"] is True
        assert output(capsys, "pub", "Pub", '{"number": 4, "text": "x"}', "--json", *here) == [
            {"readers": 1}
        ]
        assert other.taken("p", 1)[0]["value"] == {"number": 4, "text": "x"}
        file = tmp_path / "schemas.toml"

        def written() -> bool:
            assert main(["dds", "schemas", "--output", str(file), *short]) == 0
            return 'encoding = "application/cdr;demo::Robot"' in file.read_text()

        until(written)
        assert main(["dds", "typeof", "Nothing", "-d", str(domain), "--timeout", "0.2"]) == 1
        assert main(["dds", "pub", "Pub", '{"number": "x"}', *here]) == 1


@line("D-002", "D-003", "D-832")
def test_without_the_package_one_line_says_what_to_install(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(MissingDependencyError, match=r"elea\[dds\]"):
        DdsService(rig.near, {"domain": 99})
    monkeypatch.setattr(metadata, "version", lambda _name: "0.10.5")
    with pytest.raises(EleaError, match=r"needs cyclonedds 11, found 0\.10\.5"):
        DdsService(rig.near, {"domain": 99})


@line("D-832")
def test_a_domain_that_cannot_be_opened_is_refused_with_the_library_s_words(rig: Rig) -> None:
    with pytest.raises(ConfigError, match="domain 99 cannot be opened"):
        DdsService(rig.near, {"domain": 99, "discovery": {"interfaces": ["192.0.2.99"]}})
    service = DdsService(rig.near, {"domain": 99})
    service.stop()


@line("D-811")
def test_other_interfaces_need_consent() -> None:
    config = Config()
    config.insert_json5("plugins/dds", "{localhost_only: false}")
    config.insert_json5("plugins_loading/enabled", "true")
    config.insert_json5("listen/endpoints", "[]")
    with pytest.raises(ConfigError, match="--allow-plain"):
        exposure.check(config, allow_plain=False)
    exposure.check(config, allow_plain=True)
    assert any("DDS domain 0: open to other hosts" in one for one in exposure.lines(config))
    config.insert_json5("plugins/dds", "{domain: 3}")
    exposure.check(config, allow_plain=False)
    assert any("DDS domain 3: open to this host only" in one for one in exposure.lines(config))


@line("D-752", "D-753")
def test_status_and_metrics_of_the_service() -> None:
    domain = next_domain()
    with elea.open(config_of()) as session:
        service = DdsService(session, {"domain": domain})
        try:
            names = {name: value for name, _, _, value in service.counted()}
            assert names["elea_dds_failures"] == 0
            assert service.status()["bridge"]["domain"] == domain  # type: ignore[index,call-overload]
        finally:
            service.stop()


@line("D-311", "D-268")
def test_types_in_the_configuration_make_routes_exact(rig: Rig) -> None:
    domain = next_domain()
    layout = "{number: i32, text: string}"
    with elea.open(config_of()) as session, peer(domain) as other:
        section: dict[str, Any] = {
            "domain": domain,
            "types": {"demo::Chatter": {"layout": layout}},
        }
        service = DdsService(session, section)
        try:
            [made] = service.bridges
            other.bare_reader("r", "Typed")
            until(lambda: other.bare_matched("r") > 0)
            [route] = list(made.routes.values())
            assert until(lambda: route.tier).value == "exact"
            session.put("Typed", bytes.fromhex("00010000 05000000 03000000 686f0000"))
            assert until(lambda: other.bare_take("r")) == [[5, "ho"]]
        finally:
            service.stop()
    with elea.open(config_of()) as session, pytest.raises(ConfigError, match="types/X"):
        DdsService(session, {"domain": domain, "types": {"X": {"layout": "[i32]"}}})


@line("D-311")
def test_a_declared_route_writes_before_a_reader_is_there() -> None:
    domain = next_domain()
    route = {"topic": "Later", "type": "demo::Chatter", "key": "a/b"}
    section: dict[str, Any] = {
        "domain": domain,
        "types": {"demo::Chatter": {"layout": "{number: i32, text: string}"}},
        "routes": [{**route, "qos": {"durability": "transient_local", "depth": 5}}],
    }
    with elea.open(config_of()) as session, peer(domain) as other:
        service = DdsService(session, section)
        try:
            [made] = service.bridges
            until(lambda: [one.state.value.value for one in made.routes.values()] == ["Active"])
            session.put("a/b", bytes.fromhex("00010000 05000000 03000000 686f0000"))
            until(lambda: made.describe.counts()["to_dds_samples"] == 1)
            other.reader("r", "Later", "Chatter", durability="transient_local")
            [sample] = other.taken("r", 1)
            assert sample["value"] == {"number": 5, "text": "ho"}
        finally:
            service.stop()


@line("D-662", "D-663", "D-665")
def test_ros_topics_have_ros_names() -> None:
    domain = next_domain()
    with elea.open(config_of()) as session, peer(domain) as other:
        service = RosDdsService(session, {"namespace": "/bot1", "domain": domain})
        try:
            subscriber = session.declare_subscriber("bot1/chatter")
            other.writer("w", "rt/chatter", "Chatter")
            until(lambda: other.matched("w"))
            other.write("w", [{"number": 1, "text": ""}])
            assert str(subscriber.handler.recv(LIMIT_S).key_expr) == "bot1/chatter"
            subscriber.undeclare()
            # The writer is announced to bridges with ROS names.
            told = f"@/{session.zid()}/@ros2_lv/MP/bot1§chatter/demo::Chatter/:1::0,100"
            replies = session.liveliness().get("@/*/@ros2_lv/**")
            assert told in [str(one.ok.key_expr) for one in replies if one.ok]
            # A publisher that another bridge announces becomes a mirror writer here.
            [made] = service.bridges
            token = "@/ab/@ros2_lv/MP/bot1§far/demo::Chatter/:1::0,10"
            with session.liveliness().declare_token(token):
                until(lambda: any(id_.key == "bot1/far" for id_ in list(made.routes)))
                [route] = [one for one in list(made.routes.values()) if one.id.key == "bot1/far"]
                until(lambda: route.mirrors)
                assert route.id.topic == "rt/far"
            until(lambda: all(one.guid[0] != 0xFE for one in list(made.table.endpoints.values())))
        finally:
            service.stop()


@line("D-003")
def test_programs_use_the_package_beside_a_bridge() -> None:
    """The bridge sets signatures of C functions; the classes of the package have their own."""
    domain = next_domain()
    program = f"""
from tests.dds.idl_types import Chatter
from tests.dds.peers import bridge, config_of
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
import elea
import time

with elea.open(config_of()) as session, bridge(session, {domain}, on_demand=False):
    qos = Qos(Policy.Reliability.Reliable(10**9), Policy.History.KeepAll)
    participant = DomainParticipant({domain})
    topic = Topic(participant, "Own", Chatter)
    reader, writer = DataReader(participant, topic, qos), DataWriter(participant, topic, qos)
    end = time.monotonic() + {LIMIT_S}
    while len(writer.get_matched_subscriptions()) < 2:
        assert time.monotonic() < end
        time.sleep(0.01)
    writer.write(Chatter(number=7, text="seven"))
    while not (taken := reader.take(10)):
        assert time.monotonic() < end
        time.sleep(0.01)
    print([(one.number, one.text) for one in taken])
"""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=ROOT
    )
    assert ran.stdout == "[(7, 'seven')]\n", ran.stderr


@line("D-757")
def test_doctor_tells_of_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--json", "--timeout", "0.1"])
    checks = [json.loads(one) for one in capsys.readouterr().out.splitlines()]
    [found] = [one for one in checks if one["check"] == "dds"]
    assert found["found"].startswith("cyclonedds 11.")
