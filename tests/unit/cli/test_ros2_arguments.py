"""`elea ros2` with wrong arguments: told before anything is connected, with exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from elea.cli.exit_codes import WRONG_USAGE
from elea.cli.main import main

STRING = "std_msgs/msg/String"
NOWHERE = ("--connect", "tcp/127.0.0.1:1")  # nothing listens there


@pytest.mark.line("R2-501", "R2-503")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("topic", "echo", "bad name"), "expected chunks of letters, digits and _"),
        (("topic", "echo", "/a", "--filter", "(("), "is refused at offset"),
        (("topic", "echo", "/a", "--field", "a["), "expected a path such as a.b[0]"),
        (("topic", "hz", "/a//b"), "expected chunks of letters, digits and _"),
        (("topic", "pub", "/a/", STRING), "expected chunks of letters, digits and _"),
        (("topic", "pub", "/a", "nonsense"), "expected a name such as std_msgs/msg/String"),
        (("topic", "pub", "/a", STRING, "{data: ["), "expected the node content"),
        (("topic", "pub", "/a", STRING, "--rate", "0"), "expected more than 0 Hz, got 0"),
        (("topic", "pub", "/a", STRING, "--rate", "nan"), "expected more than 0 Hz, got nan"),
        (("topic", "pub", "/a", STRING, "--rate", "inf"), "expected more than 0 Hz, got inf"),
        (("topic", "list", "--domain", "233"), "expected 0 to 232, got 233"),
        (("node", "list", "--prefix", "a//b"), "a chunk is empty"),
        (("service", "call", "/s//"), "expected chunks of letters, digits and _"),
        (("service", "call", "/s", "{a: ["), "expected the node content"),
        (("service", "call", "/s", "--type", "x"), "expected a name such as"),
        (("param", "list", "/n//"), "expected chunks of letters, digits and _"),
        (("param", "set", "/n", "p", "["), "expected the node content"),
        (("action", "send_goal", "/a b", "x/action/Y"), "expected chunks of letters"),
        (("action", "send_goal", "/a", "Y"), "expected a name such as"),
        (("action", "send_goal", "/a", "x/action/Y", "{"), "expected the node content"),
        (("record", "--to", "x"), "expected names of topics, or --all"),
        (("replay", "x", "--remap", "x"), "expected /a:=/b, got 'x'"),
        (("replay", "x", "--topics", "a b"), "expected chunks of letters, digits and _"),
        (("replay", "x", "--speed", "-1"), "expected 0 or more for speed and clock"),
        (("replay", "x", "--speed", "nan"), "expected 0 or more for speed and clock"),
        (("replay", "x", "--clock", "inf"), "expected 0 or more for speed and clock"),
    ],
)
def test_wrong_arguments_ended_as_failures_do(
    words: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["ros2", *words, *NOWHERE])
    assert (code, reason in capsys.readouterr().err) == (WRONG_USAGE, True)


def test_a_type_that_is_no_name_ended_as_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ros2", "interface", "show", "nope"]) == WRONG_USAGE
    assert "expected a name such as std_msgs/msg/String" in capsys.readouterr().err


def test_a_failure_is_no_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ros2", "topic", "echo", "/a", *NOWHERE]) == 1
    assert main(["ros2", "interface", "show", "std_msgs/msg/Nope"]) == 1
    assert "no definition of std_msgs/msg/Nope" in capsys.readouterr().err
