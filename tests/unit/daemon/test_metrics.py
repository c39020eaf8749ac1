"""Metrics, as OpenMetrics text."""

from __future__ import annotations

import gzip
import re
from importlib import import_module

import pytest
from tests.unit.cli.ends import eventually
from tests.unit.daemon.rig import ask, client_of, options, read, root_of, running

import elea
from elea.daemon.daemon import Daemon
from elea.daemon.metrics import COUNTERS, DROPS, ENCODING, Family, text
from elea.errors import NotStoredError
from elea.routing.stats import Drop
from elea.transport.stats import TransportStats

SAMPLE = re.compile(r'^[a-z_]+(\{([a-z_]+="([^"\\\n]|\\.)*",?)*\})? [0-9.]+$')


def test_labels_are_escaped() -> None:
    family = Family("a", "counter", "What.", [({"b": 'c"\n\\'}, 1)])
    assert text([family]) == (
        '# HELP a What.\n# TYPE a counter\na_total{b="c\\"\\n\\\\"} 1\n# EOF\n'
    )


def metric_lines(client: elea.Session, daemon: Daemon, parameters: str = "") -> list[str]:
    [shown] = ask(client, f"{root_of(daemon)}/metrics?compression=false{parameters}").values()
    return shown.decode().splitlines()


def value(lines: list[str], start: str) -> int:
    [found] = [line for line in lines if line.startswith(start)]
    return int(found.rpartition(" ")[2])


def test_every_line_is_a_sample_or_says_what_follows() -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        lines = metric_lines(client, daemon)
        assert lines[-1] == "# EOF"
        samples = [line for line in lines if not line.startswith("#")]
        assert [line for line in samples if not SAMPLE.match(line)] == []
        assert len(samples) == len({line.rpartition(" ")[0] for line in samples})
        local = f'local_id="{daemon.session.zid()}",local_whatami="router"'
        remote = f'remote_zid="{client.zid()}",remote_whatami="client"'
        per_transport = f'zenoh_rx_per_transport_bytes_total{{{local},protocol="tcp",{remote}}} '
        assert value(samples, per_transport) > 0
        assert value(samples, "zenoh_rx_bytes_total") > 0
        assert value(samples, "zenoh_rx_network_message_total") > 0
        assert value(samples, "elea_process_resident_bytes") > 1_000_000
        assert 'elea_sessions{whatami="client"} 1' in samples
        assert f'zenoh_links_opened{{{local},protocol="tcp"}} 1' in samples
        assert f"zenoh_transports_opened{{{local}}} 1" in samples


def test_a_library_of_others_reads_it_the_same() -> None:
    parser = import_module("prometheus_client.openmetrics.parser")
    with running(options()) as daemon, client_of(daemon) as client:
        text = "\n".join([*metric_lines(client, daemon), ""])
    names = {one.name for one in parser.text_string_to_metric_families(text)}
    assert {"zenoh_tx_bytes", "elea_drops", "elea_process_cpu_seconds"} <= names


def test_resources_by_who_declared_them() -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        before = metric_lines(client, daemon)
        kept = [client.declare_subscriber(f"a/{number}") for number in range(3)]
        ask(client, f"{root_of(daemon)}/subscriber/a/2")
        after = metric_lines(client, daemon)
        for start, by in (
            ('elea_declared_keys{kind="subscriber"}', 3),
            (_resource(daemon, "subscriber", "remote"), 3),
            (_resource(daemon, "subscriber", "local"), 0),
        ):
            assert value(after, start) - value(before, start) == by
        assert len(kept) == 3


def _resource(daemon: Daemon, kind: str, locality: str) -> str:
    local = f'local_id="{daemon.session.zid()}",local_whatami="router"'
    return f'zenoh_resources_declared{{{local},resource="{kind}",locality="{locality}"}}'


def test_sums_do_not_shrink_when_somebody_leaves() -> None:
    with running(options()) as daemon, client_of(daemon) as watcher:
        with client_of(daemon) as client:
            client.put("a", b"x" * 10_000)
            ask(client, root_of(daemon))
            before = value(metric_lines(watcher, daemon), "zenoh_rx_bytes_total")
        assert before > 10_000
        gone = 'elea_sessions{whatami="client"}'
        assert eventually(lambda: value(metric_lines(watcher, daemon), gone) == 1)
        assert value(metric_lines(watcher, daemon), "zenoh_rx_bytes_total") >= before


def test_every_drop_is_counted_by_reason() -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        shown = metric_lines(client, daemon)
        for where, reasons in (
            ("transport", [reason for _, reason in DROPS.values()]),
            ("routing", [one.value for one in Drop]),
        ):
            for reason in reasons:
                labels = f'where="{where}",direction='
                mine = [one for one in shown if f'reason="{reason}"}}' in one and labels in one]
                assert len(mine) == 1, reason
        assert client.get("nobody/answers/this") is not None
        client.put("nobody/wants/this", b"")
        unwanted = 'elea_drops_total{where="routing",direction="rx",reason="no_queryable"}'
        assert eventually(lambda: value(metric_lines(client, daemon), unwanted) >= 1)


def test_all_counters_of_a_transport_are_shown() -> None:
    shown = {*COUNTERS, "received_frames"}  # frames are in the batches
    assert shown == TransportStats().as_dict().keys()


def test_keys_make_no_series() -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        before = len(metric_lines(client, daemon))
        kept = [client.declare_subscriber(f"many/{number}") for number in range(500)]
        ask(client, f"{root_of(daemon)}/subscriber/many/499")
        for number in range(500):
            client.put(f"other/{number}", b"")
        assert len(metric_lines(client, daemon)) == before < 200
        assert len(kept) == 500


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
        assert b"remote_zid" not in summed
        assert b"\nzenoh_tx_network_message_total{" in summed


def test_counters_with_the_node() -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        plain = read(client, root_of(daemon))
        assert "stats" not in plain
        assert "stats" not in plain["sessions"][0]
        assert read(client, f"{root_of(daemon)}?_stats=false").keys() == plain.keys()
        shown = read(client, f"{root_of(daemon)}?_stats")
        [session] = shown["sessions"]
        assert session["stats"]["rx_bytes"] > 0
        assert session["stats"]["rx_n_msgs"]["net"] > 0
        assert session["stats"]["waiting_messages"] == 0
        assert shown["stats"]["rx_bytes"] >= session["stats"]["rx_bytes"]
        assert shown["stats"]["process"]["resident_bytes"] > 1_000_000
        assert shown["stats"]["uptime_seconds"] > 0


def test_what_waits_in_a_spool_is_shown() -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        assert not [line for line in metric_lines(client, daemon) if line.startswith("elea_spool")]
        assert ask(client, f"{root_of(daemon)}/spool") == {}
        with daemon.session.declare_spool(max_bytes=1_000):
            daemon.session.put("k", "here", ack="stored")
            with pytest.raises(NotStoredError):
                daemon.session.put("k", bytes(2_000), ack="stored")
            lines = metric_lines(client, daemon)
            assert value(lines, "elea_spool_waiting ") == 1
            assert value(lines, "elea_spool_bytes ") > 0
            assert 'elea_spool_samples_total{outcome="spooled"} 1' in lines
            assert 'elea_spool_samples_total{outcome="forwarded"} 0' in lines
            assert 'elea_spool_samples_total{outcome="full"} 1' in lines
            assert [line for line in lines if line.startswith("elea_spool_oldest_age_seconds ")]
            shown = read(client, f"{root_of(daemon)}/spool")
            assert (shown["waiting_count"], shown["full_count"]) == (1, 1)
            assert shown["oldest_age_ns"] > 0
