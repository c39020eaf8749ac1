"""`elea ros2` at a fleet that Eclipse Zenoh plays."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.ends import eventually
from tests.ros.robot import Robot, fleet, robot

import elea.ros as ros
from elea.cli.main import main
from elea.cli.ros2_calls import feedback_printer
from elea.ros.context import session_config
from elea.ros.formats.keys import NO_HASH
from elea.ros.formats.library import Library
from elea.ros.formats.shipped import shipped
from elea.ros.formats.tokens import Kind

line = pytest.mark.line
STRING = "std_msgs/msg/String"
ADD = "example_interfaces/srv/AddTwoInts"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with fleet() as where:
        yield where


@pytest.fixture
def talker(endpoint: str) -> Iterator[Robot]:
    with robot(endpoint) as made:
        yield made


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def elea_ros2(endpoint: str) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        if words[1:2] in (("echo",), ("hz",)) and "--timeout" not in words:
            words = (*words, "--timeout", "60")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(["ros2", *words, "--connect", endpoint])
        return code, out.getvalue(), err.getvalue()

    return run


class Beside:
    """A command that runs beside the test."""

    def __init__(self, run: Run, *words: str) -> None:
        self.result: tuple[int, str, str] = (-1, "", "")
        self._thread = threading.Thread(target=self._run, args=(run, words))
        self._thread.start()

    def _run(self, run: Run, words: tuple[str, ...]) -> None:
        self.result = run(*words)

    def end(self) -> tuple[int, str, str]:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.result


@line("R2-157")
def test_topics_are_listed(talker: Robot, elea_ros2: Run) -> None:
    talker.publisher("/robot1/chatter", STRING)
    talker.publisher("/robot1/points", "sensor_msgs/msg/PointCloud2")
    talker.publisher("/fib/_action/feedback", STRING)
    assert elea_ros2("topic", "list", "-t") == (
        0,
        "/robot1/chatter [std_msgs/msg/String]\n/robot1/points [sensor_msgs/msg/PointCloud2]\n",
        "",
    )
    assert "/fib/_action/feedback" in elea_ros2("topic", "list", "-a")[1]
    rows = [json.loads(one) for one in elea_ros2("topic", "list", "--json")[1].splitlines()]
    assert rows[0]["name"] == "/robot1/chatter"
    assert (rows[0]["publishers"], rows[0]["via"]) == (1, "rmw_zenoh")


@line("R2-154", "R2-175")
def test_a_topic_is_described(talker: Robot, elea_ros2: Run) -> None:
    published = talker.publisher("/robot1/chatter", STRING, ros.SENSOR_DATA)
    talker.subscription("/robot1/chatter", STRING, ros.LATCHED)
    code, out, _ = elea_ros2("topic", "info", "-v", "robot1/chatter")
    assert code == 0
    assert out.splitlines()[0] == (
        "Type: std_msgs/msg/String   RIHS01_df66…1a18   defined: shipped (jazzy)"
    )
    assert "Publishers: 1   Subscriptions: 1" in out
    gid = published.token.gid.hex()
    assert f"gid {gid[:4]}…{gid[-4:]}  best_effort volatile keep_last 5  via rmw_zenoh" in out
    assert "warning: /robot1/talker to /robot1/talker: reliability" in out
    code, _, err = elea_ros2("topic", "info", "/nothing", "--domain", "5")
    assert code == 1
    assert "there are nodes in the domains [0]" in err


@line("R2-501")
def test_messages_are_printed(talker: Robot, elea_ros2: Run) -> None:
    published = talker.publisher("/robot1/chatter", STRING, ros.LATCHED)
    published.publish({"data": "Hello World: 4"})
    code, out, _ = elea_ros2("topic", "echo", "/robot1/chatter", "--once")
    assert (code, out) == (0, "data: 'Hello World: 4'\n---\n")
    _, out, _ = elea_ros2("topic", "echo", "/robot1/chatter", "--once", "--json")
    told = json.loads(out)
    assert told["message"] == {"data": "Hello World: 4"}
    assert (told["node"], told["sequence_number"]) == ("/robot1/talker", 1)
    _, out, _ = elea_ros2("topic", "echo", "/robot1/chatter", "--once", "--raw")
    assert out.startswith("00 01 00 00 0f 00 00 00 48")


@line("R2-501")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--field", "header.stamp.sec"], "7\n---\n"),
        (["--field", "name[1]"], "b\n---\n"),
        (["--csv"], "7,0,base,a,b,1.0,2.0\n"),
        (["--no-arr", "--field", "name"], "'<array of 2>'\n---\n"),
        (["--no-str", "--field", "header.frame_id"], "'<text of 4>'\n---\n"),
        (["--filter", "header.stamp.sec > 6", "--field", "header.frame_id"], "base\n---\n"),
    ],
)
def test_parts_of_messages_are_printed(
    talker: Robot, elea_ros2: Run, options: list[str], expected: str
) -> None:
    published = talker.publisher("/joints", "sensor_msgs/msg/JointState", ros.LATCHED)
    header = {"stamp": {"sec": 7}, "frame_id": "base"}
    published.publish({"header": header, "name": ["a", "b"], "position": [1.0, 2.0]})
    assert elea_ros2("topic", "echo", "/joints", "--once", *options)[:2] == (0, expected)


@line("R2-501")
def test_long_lists_are_cut_and_a_filter_leaves_out(talker: Robot, elea_ros2: Run) -> None:
    published = talker.publisher("/scan", "sensor_msgs/msg/LaserScan", ros.LATCHED)
    published.publish({"ranges": [1.0] * 500})
    words = ("topic", "echo", "/scan", "--once", "--field", "ranges")
    assert elea_ros2(*words)[1].count("- 1.0\n") == 128
    assert elea_ros2(*words, "-f")[1].count("- 1.0\n") == 500
    code, out, _ = elea_ros2(*words, "--filter", "range_max > 3", "--timeout", "0.3")
    assert (code, out) == (1, "")


@line("R2-325")
def test_a_type_that_is_not_known_is_printed_in_hex(
    talker: Robot, elea_ros2: Run, tmp_path: Path
) -> None:
    kind = Library.of_text("int32 a", "odd_pkg/msg/Foo").message("odd_pkg/msg/Foo")
    talker.publisher("/custom", kind, ros.LATCHED).publish({"a": 5})
    code, out, err = elea_ros2("topic", "echo", "/custom", "--once")
    assert (code, out) == (0, "00 01 00 00 05 00 00 00\n")
    assert "no definition of odd_pkg/msg/Foo RIHS01_" in err
    assert "give --types" in err
    folder = tmp_path / "share" / "odd_pkg" / "msg"
    folder.mkdir(parents=True)
    (folder / "Foo.msg").write_text("int32 a\n")
    types = str(tmp_path / "share")
    _, out, _ = elea_ros2("topic", "echo", "/custom", "--once", "--types", types)
    assert out == "a: 5\n---\n"
    code, out, _ = elea_ros2("type", "check", "--types", types)
    assert (code, "same" in out) == (0, True)
    (folder / "Foo.msg").write_text("int64 a\n")
    code, out, _ = elea_ros2("type", "check", "--types", types)
    assert (code, "differs" in out) == (1, True)


@line("R2-502", "R2-205")
def test_rates_losses_and_delays(talker: Robot, elea_ros2: Run) -> None:
    published = talker.publisher("/robot1/imu", "sensor_msgs/msg/Imu")
    beside = Beside(elea_ros2, "topic", "hz", "/robot1/imu", "-n", "20", "--json")
    published.wait_matching()
    for number in range(20):
        published.number += 2 if number == 10 else 0
        published.publish({})
    code, out, _ = beside.end()
    told = json.loads(out.splitlines()[-1])
    assert code == 0
    assert (told["window"], told["lost"]) == (20, 2)
    assert told["rate_hz"] > 0
    assert told["delay_ms"] >= 0
    assert told["bytes_per_s"] > 0


@line("R2-503", "R2-506")
def test_messages_are_published(talker: Robot, elea_ros2: Run) -> None:
    ear = talker.subscription("/robot1/pose", "geometry_msgs/msg/PoseStamped")
    value = "{header: auto, pose: {position: {x: 1.5}}}"
    words = ("topic", "pub", "/robot1/pose", "geometry_msgs/msg/PoseStamped", value)
    assert elea_ros2(*words, "-n", "3", "-r", "100", "-w", "1", "--wait", "20")[0] == 0
    assert ear.reach(3)
    assert ear.messages[0].header.stamp.sec > 1_700_000_000
    assert ear.messages[0].pose.position.x == 1.5
    assert ear.messages[0].pose.orientation.w == 1.0
    code, _, err = elea_ros2("topic", "pub", "-1", "/none", STRING, "--wait", "0.1")
    assert (code, "expected 1 subscriptions, got 0" in err) == (1, True)
    wrong = "{heador: auto}"
    code, _, err = elea_ros2(*words[:-1], wrong)
    assert (code, "did you mean header?" in err) == (1, True)


@line("R2-153", "R2-402")
def test_nodes_are_listed_and_described(endpoint: str, talker: Robot, elea_ros2: Run) -> None:
    talker.publisher("/robot1/chatter", STRING)
    talker.server("/add", ADD, lambda _: {})
    with robot(endpoint):
        twice = (0, "/robot1/talker\n/robot1/talker\n")
        assert eventually(lambda: elea_ros2("node", "list")[:2] == twice)
        err = elea_ros2("node", "list")[2]
        assert "2 nodes have the name /robot1/talker" in err
    assert eventually(lambda: elea_ros2("node", "list")[1] == "/robot1/talker\n")
    _, out, _ = elea_ros2("node", "info", "/robot1/talker")
    assert "  Publishers:\n    /robot1/chatter: std_msgs/msg/String\n" in out
    assert f"  Service servers:\n    /add: {ADD}\n" in out
    rows = elea_ros2("node", "info", "/robot1/talker", "--json")[1].splitlines()
    assert {json.loads(one)["kind"] for one in rows} == {"MP", "SS"}
    assert elea_ros2("node", "info", "/nobody")[0] == 1


@line("R2-281", "R2-285")
def test_services_are_listed_and_called(talker: Robot, elea_ros2: Run) -> None:
    talker.server("/add_two_ints", ADD, lambda request: {"sum": request.a + request.b})
    assert elea_ros2("service", "list", "-t")[1] == f"/add_two_ints [{ADD}]\n"
    code, out, _ = elea_ros2("service", "call", "/add_two_ints", "{a: 40, b: 2}")
    assert (code, out) == (0, "sum: 42\n")
    talker.declare(talker.endpoint(Kind.CLIENT, "/gone", ADD, shipped().hash(ADD)))
    code, _, err = elea_ros2("service", "call", "/gone", "{}", "--wait", "0.2")
    assert (code, "no server for /gone (1 clients wait too)" in err) == (1, True)


@line("R2-304")
def test_parameters_of_a_node(endpoint: str, elea_ros2: Run) -> None:
    with ros.Node("tuned", connect=endpoint, parameters={"rate": 5, "tags": ["a"]}):
        assert elea_ros2("param", "list", "/tuned")[1] == "rate\ntags\n"
        assert elea_ros2("param", "get", "/tuned", "rate")[1] == "5\n"
        assert elea_ros2("param", "set", "/tuned", "rate", "7")[0] == 0
        assert elea_ros2("param", "get", "/tuned", "rate", "--json")[1] == "7\n"
        code, _, err = elea_ros2("param", "set", "/tuned", "rate", "fast")
        assert (code, "has another type" in err) == (1, True)
        assert elea_ros2("param", "get", "/tuned", "nothing")[0] == 1


@line("R2-302", "R2-303", "R2-283")
def test_a_goal_is_sent(talker: Robot, elea_ros2: Run) -> None:
    action = "example_interfaces/action/Fibonacci"
    goals: list[Any] = []

    def accept(request: Any) -> dict[str, Any]:
        goals.append(request)
        return {"accepted": request.goal.order > 0}

    talker.server("/fib/_action/send_goal", f"{action}_SendGoal", accept)
    talker.server(
        "/fib/_action/get_result",
        f"{action}_GetResult",
        lambda _: {"status": 4, "result": {"sequence": [0, 1, 1]}},
    )
    assert elea_ros2("action", "list", "-t")[1] == f"/fib [{action}]\n"
    assert elea_ros2("service", "list")[1] == ""
    assert " SS " in elea_ros2("action", "info", "/fib")[1]
    code, out, _ = elea_ros2("action", "send_goal", "/fib", action, "{order: 3}")
    assert (code, out) == (0, "status: 4\nresult:\n  sequence:\n  - 0\n  - 1\n  - 1\n")
    assert goals[0].goal.order == 3
    assert elea_ros2("action", "send_goal", "/fib", action, "{order: 0}")[0] == 1


@line("R2-303", "R2-503")
def test_a_goal_in_lines_was_no_yaml(talker: Robot, elea_ros2: Run) -> None:
    """Goals are written as messages and requests are, each member on a line of its own too."""
    action = "example_interfaces/action/Fibonacci"
    goals: list[int] = []

    def refuse(request: Any) -> dict[str, Any]:
        goals.append(request.goal.order)
        return {"accepted": False}

    talker.server("/fib/_action/send_goal", f"{action}_SendGoal", refuse)
    for text in ("order: 3", "# a goal\norder: 4\n"):
        code, _, err = elea_ros2("action", "send_goal", "/fib", action, text)
        assert (code, "the goal was rejected" in err) == (1, True), err
    assert goals == [3, 4]


@line("R2-302", "R2-303")
def test_feedback_of_other_goals_was_printed_as_that_of_ours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    feedback = shipped().action("example_interfaces/action/Fibonacci").feedback
    heard = feedback_printer(bytes(range(16)))
    for uuid in (range(16), range(1, 17)):
        value = {"goal_id": {"uuid": list(uuid)}, "feedback": {"sequence": [uuid[0]]}}
        heard(feedback.decode(feedback.encode(value)))
    assert capsys.readouterr().out == "sequence:\n- 0\n---\n"


@line("R2-504")
def test_interfaces_are_shown_and_hashed(elea_ros2: Run, tmp_path: Path) -> None:
    _, out, _ = elea_ros2("interface", "show", "geometry_msgs/msg/Vector3")
    assert out.splitlines()[:3] == ["float64 x", "float64 y", "float64 z"]
    assert f"# {shipped().hash(ADD)}" in elea_ros2("interface", "show", ADD)[1]
    folder = tmp_path / "std_msgs" / "msg"
    folder.mkdir(parents=True)
    (folder / "String.msg").write_text("# a text\nstring data\n")
    _, out, _ = elea_ros2("interface", "hash", str(folder / "String.msg"))
    assert out == f"{shipped().hash(STRING)}  {STRING}\n"


@line("R2-505")
def test_a_doctor_finds_what_is_odd(talker: Robot, elea_ros2: Run) -> None:
    talker.publisher("/fine", STRING)
    assert elea_ros2("doctor") == (0, "1 nodes, nothing is odd\n", "")
    talker.publisher("/fine", STRING, hash=NO_HASH)
    talker.publisher("/twice", STRING)
    talker.publisher("/twice", "std_msgs/msg/Bool")
    talker.publisher("/image", "sensor_msgs/msg/Image", backends={"cpu": ""})
    odd = talker.session.liveliness().declare_token("@ros2_lv/0/ab/0/0/XX/%/%/n")
    code, out, _ = elea_ros2("doctor", "--domain", "9")
    assert code == 1
    for text in (
        "domain 9: no node; there are some in [0]",
        "domain 0: Humble and later",
        "/twice: several types",
        "/image: buffers of Lyrical",
        "tokens: 1 could not be read",
    ):
        assert text in out, out
    del odd


@line("R2-814")
def test_names_of_strangers_are_escaped(talker: Robot, elea_ros2: Run) -> None:
    key = f"@ros2_lv/0/{talker.token.zid}/5/5/NN/%/%/a\x1b[31mb"
    kept = talker.session.liveliness().declare_token(key)
    assert "/a\\x1b[31mb\n" in elea_ros2("node", "list")[1]
    del kept


@line("R2-803")
def test_variables_of_ros_are_read(
    talker: Robot,
    endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", "0")
    monkeypatch.setenv("ZENOH_CONFIG_OVERRIDE", f'connect/endpoints=["{endpoint}"]')
    assert main(["ros2", "node", "list"]) == 0
    assert capsys.readouterr().out == "/robot1/talker\n"
    monkeypatch.setenv("ROS_DOMAIN_ID", "x")
    assert main(["ros2", "node", "list"]) == 1


@line("R2-253")
def test_who_hides_is_told_that_images_may_be_missing(talker: Robot, elea_ros2: Run) -> None:
    talker.publisher("/image", "sensor_msgs/msg/Image", backends={"cpu": ""})
    words = ("topic", "echo", "/image", "--hidden", "--timeout", "0.2")
    assert "leave --hidden out" in elea_ros2(*words)[2]
    assert "leave --hidden out" not in elea_ros2(*words[:3], *words[4:])[2]


@line("R2-801", "R2-816")
def test_the_section_of_the_configuration(talker: Robot, elea_ros2: Run, tmp_path: Path) -> None:
    talker.publisher("/robot1/chatter", STRING, ros.LATCHED).publish({"data": "x"})
    file = tmp_path / "elea.json5"
    section = {"domain": 0, "read_only": True, "node": "watcher", "via": "rmw", "distro": "jazzy"}
    file.write_text(json.dumps({"plugins": {"ros2": section}}))
    config = ("--config", str(file))
    assert elea_ros2("topic", "echo", "/robot1/chatter", "--once", *config)[1] == "data: x\n---\n"
    for words in (
        ("topic", "pub", "-1", "/robot1/chatter", STRING),
        ("service", "call", "/add", "{}", "--type", ADD),
        ("param", "set", "/n", "a", "1"),
    ):
        code, _, err = elea_ros2(*words, *config)
        assert (code, "plugins/ros2/read_only: is true" in err) == (1, True), err
    assert "plugins/ros2/read_only: is true" in elea_ros2("doctor", *config)[1]
    for wrong, reason in (
        ({"domian": 1}, "the nearest known one is plugins/ros2/domain"),
        ({"domain": 300}, "expected a whole number from 0 to 232, got the number 300"),
        ({"hidden": 1}, "expected true or false"),
        ({"types": "x"}, "expected a list of: a path, got the text 'x'"),
        ({"distro": "noetic"}, 'expected one of "lyrical"'),
        ({"node": "a b"}, "expected letters"),
        ([], "expected an object"),
    ):
        file.write_text(json.dumps({"plugins": {"ros2": wrong}}))
        code, _, err = elea_ros2("node", "list", *config)
        assert (code, reason in err) == (1, True), err


@line("R2-802")
def test_a_session_in_a_fleet_is_a_silent_client(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    config = session_config()
    assert json.loads(config.get_json("mode")) == "client"
    assert json.loads(config.get_json("connect/endpoints")) == ["tcp/localhost:7447"]
    assert json.loads(config.get_json("scouting/multicast/enabled")) is False
    assert json.loads(config.get_json("timestamping/enabled")) is True


@line("R2-802")
def test_a_router_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ros2", "node", "list", "--connect", "tcp/127.0.0.1:1"]) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_what_is_no_message_is_no_traceback(talker: Robot, elea_ros2: Run) -> None:
    code, _, err = elea_ros2("topic", "echo", "/nothing", "--once", "--wait", "0.1")
    assert (code, "nobody has /nothing; give its type" in err) == (1, True)
    code, _, err = elea_ros2("topic", "pub", "/x", "no_pkg/msg/Type", "--wait", "0.1")
    assert (code, "no definition of no_pkg/msg/Type" in err) == (1, True)
