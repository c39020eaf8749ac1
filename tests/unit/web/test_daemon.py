"""The service in a router: configuration, exposure, reload, metrics, the admin space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.unit.cli.ends import eventually
from tests.unit.daemon.rig import client_of, options, read, root_of, running

from elea.daemon import exposure
from elea.daemon.daemon import Daemon
from elea.daemon.effective import Effective
from elea.daemon.services import installed
from elea.errors import ConfigError
from elea.web.service import Rest, start
from elea.web.settings import TOKEN_ENV

TOKEN = "correct-horse-battery"


def rest_of(daemon: Daemon) -> Rest:
    [one] = daemon.services
    assert isinstance(one.service, Rest)
    return one.service


def fetched(daemon: Daemon, path: str) -> httpx.Response:
    return httpx.get(rest_of(daemon).url + path, trust_env=False)


def test_the_service_is_found_by_its_name() -> None:
    found = installed("rest")
    assert found is not None
    assert (found.group, found.load()) == ("elea.services", start)


def test_metrics_of_the_node_and_of_the_service() -> None:
    with running(options(rest_http_port="0", id="a1"), rest=start) as daemon, client_of(daemon):
        assert eventually(
            lambda: 'elea_sessions{whatami="client"} 1.0' in fetched(daemon, "/metrics").text
        )
        shown = fetched(daemon, "/metrics")
        assert shown.headers["content-type"].startswith("text/plain")
        assert 'zenoh_build_info{local_id="a1",local_whatami="router"' in shown.text
        assert 'elea_rest_requests_total{method="GET",status="200"}' in shown.text
        assert "zenoh_rx_network_message_total{" in shown.text
        assert "remote_zid" not in shown.text
        assert "remote_zid" in fetched(daemon, "/metrics?per_transport=true").text
        openmetrics = httpx.get(
            rest_of(daemon).url + "/metrics",
            headers={"accept": "application/openmetrics-text; version=1.0.0"},
            trust_env=False,
        )
        assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
        assert openmetrics.text.endswith("# EOF\n")


def test_a_reload_restarts_it_only_when_its_section_changed() -> None:
    settings = options(rest_http_port="0", adminspace_permissions="rw")
    with running(settings, rest=start) as daemon, client_of(daemon) as client:
        first = rest_of(daemon)
        client.put(f"{root_of(daemon)}/config/metadata", '{name: "other"}')
        assert eventually(lambda: "other" in daemon.config.get_json("metadata"))
        assert rest_of(daemon) is first
        assert fetched(daemon, "/health").status_code == 200
        client.put(f"{root_of(daemon)}/config/plugins/rest", '{http_port: "0", body_len: 10}')
        assert eventually(lambda: [one.service for one in daemon.services] not in ([], [first]))
        too_long = httpx.put(f"{rest_of(daemon).url}/a", content=bytes(11), trust_env=False)
        assert too_long.status_code == 413
        status = f"{root_of(daemon)}/status/plugins/rest"
        assert read(client, f"{status}/url") == rest_of(daemon).url
        assert read(client, f"{status}/streams") == 0


def test_a_write_that_would_open_it_is_refused() -> None:
    settings = options(rest_http_port="0", adminspace_permissions="rw")
    with running(settings, rest=start) as daemon, client_of(daemon) as client:
        first = rest_of(daemon)
        client.put(f"{root_of(daemon)}/config/plugins/rest", '{http_port: "0.0.0.0:0"}')
        client.put(f"{root_of(daemon)}/config/metadata", '{name: "later"}')
        assert eventually(lambda: "later" in daemon.config.get_json("metadata"))
        assert rest_of(daemon) is first


def test_a_port_in_use_stops_a_router_that_was_told_to_serve() -> None:
    with running(options(rest_http_port="0"), rest=start) as daemon:
        port = rest_of(daemon).url.rpartition(":")[2]
        with (
            pytest.raises(ConfigError, match=r"plugins/rest: it did not start: cannot serve"),
            running(options(rest_http_port=port), rest=start),
        ):
            pass


def explained(*cfg: str, **more: Any) -> list[str]:
    return [
        line
        for line in exposure.lines(Effective.of(options(*cfg, **more)).config)
        if "REST" in line
    ]


def test_what_it_opens_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    assert explained() == []
    assert explained(rest_http_port="0.0.0.0:8000") == []
    assert explained(rest_http_port="8000") == [
        "REST at http://127.0.0.1:8000: open to this host only, not encrypted",
        "REST: anybody may read every key and /metrics, anybody may write every key",
        "REST: the page shows nodes, declared keys and values to anybody",
    ]
    monkeypatch.setenv(TOKEN_ENV, TOKEN)
    more = '{http_port: "[::]:8000", protect: "everything", allowed_origins: ["*"]}'
    assert explained(f"plugins/rest:{more}") == [
        "REST at http://[::]:8000: open to other hosts, not encrypted",
        "REST: holders of the token may read every key and /metrics, holders of the token may"
        " write every key",
        "REST: the page shows nodes, declared keys and values to holders of the token",
        "REST: pages of * may use it from a browser",
    ]


@pytest.mark.parametrize("allowed", [False, True])
def test_a_plain_port_for_others_needs_consent(
    allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Effective.of(options(rest_http_port="0.0.0.0:8000")).config
    with pytest.raises(ConfigError, match="everybody could write"):
        exposure.check(config, allow_plain=True)
    monkeypatch.setenv(TOKEN_ENV, TOKEN)
    if allowed:
        assert exposure.check(config, allow_plain=True) == []
    else:
        with pytest.raises(ConfigError, match=r"plugins/rest/http_port.*--allow-plain"):
            exposure.check(config, allow_plain=False)


def test_the_token_is_nowhere_to_be_seen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """T56: neither in the configuration, nor in logs, answers and metrics."""
    file = tmp_path / "token"
    file.write_text(TOKEN, encoding="utf-8")
    file.chmod(0o600)
    section = f'plugins/rest/token_file:"{file}"'
    settings = options(section, rest_http_port="0")
    with running(settings, rest=start) as daemon, client_of(daemon) as client:
        shown = str(read(client, f"{root_of(daemon)}/config/plugins"))
        for answer in (
            httpx.put(f"{rest_of(daemon).url}/a", trust_env=False),
            fetched(daemon, "/metrics"),
        ):
            shown += answer.text + str(answer.headers)
        shown += str(explained(section, rest_http_port="0"))
    assert "token_file" in shown
    assert TOKEN not in shown + caplog.text
