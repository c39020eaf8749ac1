from __future__ import annotations

import argparse

import pytest

from elea.cli import payloads
from elea.qos import CongestionControl, Priority
from elea.query import ConsolidationMode, QueryTarget


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    payloads.add_payload_options(parser)
    payloads.add_quality_options(parser)
    payloads.add_query_options(parser)
    return parser.parse_args(arguments)


def test_nothing_given_is_the_default_of_the_api() -> None:
    args = parsed()
    assert payloads.read_payload(args) is None
    assert payloads.qualities(args) == payloads.Qualities(None, None, None)
    assert payloads.target(args) is None
    assert payloads.consolidation(args) is None


@pytest.mark.parametrize(
    ("text", "octets"), [("", b""), ("é", "é".encode()), ("-5", b"-5"), ("\udcff", b"\xff")]
)
def test_an_argument_travels_as_the_shell_passed_it(text: str, octets: bytes) -> None:
    assert payloads.read_payload(parsed(text)) == octets


@pytest.mark.parametrize("priority", [one for one in Priority if one is not Priority.CONTROL])
def test_every_priority_of_applications_has_a_name(priority: Priority) -> None:
    name = payloads.option_name(priority)
    assert payloads.qualities(parsed("--priority", name)).priority is priority


def test_the_priority_of_the_protocol_is_not_for_applications() -> None:
    with pytest.raises(argparse.ArgumentError, match="invalid choice"):
        parsed("--priority", "control")


@pytest.mark.parametrize("control", CongestionControl)
def test_every_congestion_control_has_a_name(control: CongestionControl) -> None:
    name = payloads.option_name(control)
    args = parsed("--congestion-control", name, "--express")
    assert payloads.qualities(args) == payloads.Qualities(None, control, True)


@pytest.mark.parametrize("mode", ConsolidationMode)
@pytest.mark.parametrize("target", QueryTarget)
def test_every_way_to_ask_has_a_name(target: QueryTarget, mode: ConsolidationMode) -> None:
    names = payloads.option_name(target), payloads.option_name(mode)
    args = parsed("--target", names[0], "--consolidation", names[1])
    assert payloads.target(args) is target
    assert payloads.consolidation(args) is mode


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many"])
def test_a_count_that_is_none_was_refused_without_saying_what_is_expected(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a whole number, 1 or more"):
        payloads.count(text)


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "soon"])
def test_seconds_that_are_none_were_refused_without_saying_what_is_expected(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a number of seconds, 0 or more"):
        payloads.seconds(text)
