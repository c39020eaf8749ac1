"""Lines of the specification that other files do not show, with real Cyclone DDS participants."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from typing import Any

import pytest
from tests.dds.conftest import Rig
from tests.dds.peers import LIMIT_S, block_of, until
from tests.meta.tree import ROOT

from elea.dds.stamps import ntp64_of
from elea.session.handlers import FifoChannel
from elea.timestamp import NTP64, Timestamp

line = pytest.mark.line
HOUR_NS = 3_600_000_000_000


def chatter(value: int) -> bytes:
    return b"\0\1\0\0" + value.to_bytes(4, "little") + b"\1\0\0\0\0\0\0\0"


def matching(publisher: Any) -> Any:
    """A publisher, once it knows a subscriber."""
    until(lambda: publisher.matching_status.matching, f"a subscriber of {publisher.key_expr}")
    return publisher


@line("D-931")
def test_peers_are_other_processes_on_loopback_in_domains_of_their_own(rig: Rig) -> None:
    guid = bytes.fromhex(rig.peer.guid)
    known = until(lambda: rig.bridge.presence.participants.get(guid), "the peer")
    assert int(known.properties["__Pid"]) != os.getpid()
    addresses = known.properties["__NetworkAddresses"].replace(",", " ").split()
    hosts = {one.rpartition("/")[2].rpartition(":")[0] or one for one in addresses}
    assert hosts - {"239.255.0.1"} == {"127.0.0.1"}  # and the group, on loopback alone
    assert rig.bridge.settings.is_loopback
    # Another process of this host, such as a second worker, takes other domains.
    code = "from tests.dds.peers import next_domain; print(next_domain())"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert ran.returncode == 0, ran.stderr
    assert block_of(int(ran.stdout)) != block_of(rig.domain)


@line("D-542", "D-543")
def test_clocks_that_are_ahead_are_counted_and_told_both_ways(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    before = rig.bridge.counts.stamps_replaced
    ahead_ns = time.time_ns() + HOUR_NS
    with (
        caplog.at_level(logging.WARNING, "elea.dds"),
        rig.far.declare_subscriber("Ahead", FifoChannel(10)) as subscriber,
    ):
        guid = rig.peer.writer("ahead", "Ahead", "Chatter")
        rig.matched("ahead")
        rig.peer.write("ahead", [{"number": one, "text": ""} for one in (1, 2)], ahead_ns)
        for _ in range(2):
            assert subscriber.handler.recv(LIMIT_S).attachment is not None
        assert rig.bridge.counts.stamps_replaced == before + 2
        rig.peer.reader("ahead in", "AheadIn", "Chatter")
        rig.matched("ahead in")
        rig.matched_by("to_dds", "AheadIn", 1)
        stamp = Timestamp(NTP64.from_value(ntp64_of(ahead_ns)), rig.far.zid().to_bytes())
        with rig.far.declare_publisher("AheadIn") as publisher:
            matching(publisher)
            for value in (1, 2):
                publisher.put(chatter(value), timestamp=stamp)
        taken = rig.peer.taken("ahead in", 2)
    assert [one["value"]["number"] for one in taken] == [1, 2]
    assert all(one["ns"] < ahead_ns for one in taken)
    assert rig.bridge.counts.stamps_replaced == before + 4
    told = [one for one in caplog.messages if "ahead" in one and "clock" in one]
    assert len(told) == 2, told
    assert guid in told[0]
    assert "to_dds" in told[1]
