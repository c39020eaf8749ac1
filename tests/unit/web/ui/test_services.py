"""Logs and devices, from what services tell: in full, in part, or as nonsense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.daemon.rig import options, running
from tests.unit.web.ui.rig import Browser, rest_of

from elea.store.recorder.service import RecorderService
from elea.web.service import start
from elea.web.ui.services import devices, logs

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)
NAMES = st.sampled_from(
    [
        *("logs", "names", "counts", "left", "key_exprs", "listen", "ends", "publishers"),
        *("subscribers", "routes_by_state", "lease_ms", "stuck", "one"),
    ]
)
KEYS = st.sampled_from(
    ["recorder/recordings/a", "xrce/gateway", "xrce/devices/01", "dds/bridge", "dds/bridge/7"]
)


@given(st.dictionaries(KEYS, JSON | st.dictionaries(NAMES, JSON)))
def test_whatever_is_told_can_be_shown(told: Any) -> None:
    for part in (logs(told), devices(told)):
        json.dumps(part)


def test_what_a_screen_would_act_on_is_escaped() -> None:
    evil = "\u202e\x1b"
    shown = [
        logs({"recorder/recordings/a": {"key_exprs": [evil], "logs": {evil: {"state": evil}}}}),
        devices({f"xrce/devices/{evil}": {"source": evil, "names": {"1": evil}}}),
    ]
    assert all("202e" in json.dumps(part, ensure_ascii=False) for part in shown)
    assert all(evil not in json.dumps(part, ensure_ascii=False) for part in shown)


def test_a_recording_that_failed_says_why() -> None:
    told: Any = {"recorder/recordings/a": {"state": "Failed", "error": "disk full"}}
    part: Any = logs(told)
    [row] = part["logs"]
    assert (row["name"], row["state"], row["error"]) == ("a", "Failed", "disk full")


def test_devices_that_left_are_shown_newest_first() -> None:
    left = [{"pid": "01", "reason": 1, "why": "late"}, {"pid": "02", "reason": 2, "why": "gone"}]
    told: Any = {
        "xrce/gateway": {"listen": ["udp/127.0.0.1:1"], "left": left, "counts": {"in": 3, "x": 0}},
        "xrce/devices/03": {"names": {str(n): f"a/{n}" for n in range(30)}, "lease_ms": 500},
        "dds/bridge": {"domain": 7, "routes_by_state": {"active": 2}, "standby": False},
    }
    part: Any = devices(told)
    assert part["left"] == [["02", "gone", 2], ["01", "late", 1]]
    assert part["gateway"] == {"listen": ["udp/127.0.0.1:1"], "counts": [["in", 3]]}
    [device] = part["devices"]
    assert (device["pid"], len(device["names"]), device["names_skip"]) == ("03", 20, 10)
    [bridge] = part["bridges"]
    assert (bridge["domain"], bridge["routes"], bridge["stuck"]) == (7, [["active", 2]], "")


def test_logs_of_a_running_router(tmp_path: Path) -> None:
    recordings = '{fleet: {key_exprs: "fleet/**"}}'
    chosen = options(
        f'plugins/recorder:{{directory: "{tmp_path}", recordings: {recordings}}}',
        rest_http_port="0",
    )
    with running(chosen, rest=start, recorder=RecorderService) as daemon:
        daemon.session.put("fleet/a", "1")
        with Browser(rest_of(daemon).url) as browser:
            browser.say(want={"id": 1, "kind": "log"})
            browser.say(want={"id": 2, "kind": "devices"})

            def has_row(part: dict[str, Any]) -> bool:
                return bool(part["w"] == 1 and part["logs"] and part["logs"][0].get("rows"))

            [log] = browser.until(has_row)["logs"]
            assert (log["name"], log["state"], log["rows"]) == ("fleet", "Recording", 1)
            assert log["keys"] == ["fleet/**"]
            assert log["octets"] > 0
