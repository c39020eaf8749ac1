"""Metrics, as OpenMetrics text."""

from __future__ import annotations

import gzip
import re

from tests.unit.daemon.rig import ask, client_of, options, root_of, running

from elea.daemon.metrics import ENCODING, Family, text

SAMPLE = re.compile(r'^[a-z_]+(\{([a-z_]+="([^"\\\n]|\\.)*",?)*\})? [0-9.]+$')


def test_labels_are_escaped() -> None:
    family = Family("a", "counter", "What.", [({"b": 'c"\n\\'}, 1)])
    assert text([family]) == (
        '# HELP a What.\n# TYPE a counter\na_total{b="c\\"\\n\\\\"} 1\n# EOF\n'
    )


def test_every_line_is_a_sample_or_says_what_follows() -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        [shown] = ask(client, f"{root_of(daemon)}/metrics?compression=false").values()
        lines = shown.decode().splitlines()
        assert lines[-1] == "# EOF"
        samples = [line for line in lines if not line.startswith("#")]
        assert [line for line in samples if not SAMPLE.match(line)] == []
        zid = str(client.zid())
        [received] = [line for line in samples if line.startswith("elea_transport_received_o")]
        assert f'remote_id="{zid}",remote_whatami="client"' in received
        assert int(received.rpartition(" ")[2]) > 0
        assert 'elea_sessions{whatami="client"} 1' in samples


def test_what_a_query_may_ask_for() -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        key = f"{root_of(daemon)}/metrics"
        [reply] = client.get(key)
        assert reply.ok is not None
        assert str(reply.ok.encoding) == f"{ENCODING};content-encoding=gzip"
        assert gzip.decompress(reply.ok.payload.to_bytes()).endswith(b"# EOF\n")
        [brief] = ask(client, f"{key}?compression=false;descriptors=false").values()
        assert brief.count(b"#") == 1
        [summed] = ask(client, f"{key}?compression=false;per_transport=false").values()
        assert b"remote_id" not in summed
        assert b"\nelea_transport_sent_messages_total " in summed
