"""What `--config-check` refuses, what it names as without effect, and what a router warns of."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.link.certificates import certificates
from tests.unit.cli.ends import eventually, free_endpoint
from tests.unit.daemon.rig import options, running

from elea.cli.main import main
from elea.daemon import services
from elea.link.opening import Opening
from elea.node.ports import ConnectFailed, NeighbourUp
from elea.store.historian.service import HistorianService

RUN = ["router", "--config-check", "--no-multicast-scouting"]


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main([*RUN, *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def listen(endpoint: str) -> list[str]:
    """As a configuration has it; the options of the command line are checked by their parser."""
    return ["--cfg", f'listen/endpoints:["{endpoint}"]']


def connect(endpoint: str) -> list[str]:
    return ["--cfg", f'connect/endpoints:["{endpoint}"]']


VOLUME = 'plugins/storage_manager:{volumes:{rocks:{backend:"rocksdb"}}}'
NO_VOLUME = 'plugins/storage_manager:{storages:{a:{key_expr:"a/**",volume:"unheard"}}}'
STORAGE = (
    "plugins/storage_manager:{volumes:{fs:{},sqlite:{},log:{}},"
    'storages:{a:{key_expr:"a/**",volume:{id:%s}}}}'
)
TLS = "tls/127.0.0.1:7447"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (listen("warp/127.0.0.1:7447"), "listen/endpoints: warp/127.0.0.1:7447: no scheme 'warp'"),
        (connect("warp/10.0.0.1:7447"), "connect/endpoints: warp/10.0.0.1:7447: no scheme 'warp'"),
        (listen("tpc/0.0.0.0:7447"), "listen/endpoints: tpc/0.0.0.0:7447: no scheme 'tpc'"),
        (listen("tcp/127.0.0.1"), "expected host:port, with a port of 0 to 65535"),
        (listen("tcp/127.0.0.1:99999"), "ports end at 65535, got 99999"),
        (listen("tcp/127.0.0.1:http"), "expected host:port, with a port of 0 to 65535"),
        (connect("tcp/10.0.0.1"), "connect/endpoints: tcp/10.0.0.1: expected host:port, with"),
        (listen("tcp/127.0.0.1:1#foo=1"), "unknown option 'foo'; known are bind, dscp"),
        (connect("tcp/127.0.0.1:1#so_sendbuf=1"), "did you mean so_sndbuf?"),
        (connect("tcp/127.0.0.1:1#bind=foo"), "bind is host:port, saw 'foo'"),
        (listen("serial//dev/null#baudrate=7"), "baudrate is one of"),
        (connect("udp/127.0.0.1:1#bind=foo:1"), "bind needs an IP address, saw 'foo'"),
    ],
)
def test_endpoints_that_cannot_be_are_wrong_usage(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = checked(capsys, *arguments)
    assert (code, out) == (2, "")
    assert complaint in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["-l", TLS], "listen/endpoints: tls/127.0.0.1:7447: a tls listener needs"),
        (
            ["-e", TLS, "--cfg", 'transport/link/tls/root_ca_certificate:"/nonexistent/ca.pem"'],
            "/nonexistent/ca.pem cannot be used: No such file",
        ),
        (["--cfg", 'transport/auth/usrpwd/dictionary_file:"/nonexistent"'], "/nonexistent: No"),
        (["--cfg", 'elea/audit/file:"/nonexistent/audit"'], "elea/audit/file: /nonexistent/audit"),
        (["--cfg", VOLUME], "storage_manager/volumes/rocks: no volume 'rocksdb' is installed"),
        (["--cfg", NO_VOLUME], "storages/a/volume: saw 'unheard'; the volumes"),
        (["--cfg", STORAGE % '"fs",dir:"/srv"'], "a/volume/dir: expected a relative path"),
        (["--cfg", STORAGE % '"sqlite",dir:"../x"'], "a/volume/dir: expected a relative path"),
        (["--cfg", STORAGE % '"memory",qota:1'], "storages/a/volume/qota: unknown key"),
        (["--cfg", STORAGE % '"log",retain:0'], "storages/a/volume/retain: expected a number"),
        (["--cfg", 'plugins/storage_manager:{volumes:{fs:{rot:"x"}}}'], "volumes/fs/rot: unknown"),
        (
            ["--cfg", "scouting/multicast:{enabled:true,address:'10.0.0.1:7446'}"],
            "scouting/multicast/address: saw '10.0.0.1:7446'; a group is legal",
        ),
        (["-P", "mqtt"], "plugins/mqtt: it is required and not installed"),
        (["--cfg", 'plugins/rest:{__config__:"rest.json5"}'], "plugins/rest/__config__: sections"),
        (["--cfg", 'mode:"client"'], "mode client needs an endpoint, as scouting is not enabled"),
    ],
)
def test_what_cannot_run_is_refused(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of these could be used, for all that was said, or were told with a misleading hint."""
    code, out, err = checked(capsys, *arguments)
    assert (code, out) == (1, "")
    assert complaint in err


@pytest.mark.parametrize("side", ["listen", "connect"])
@pytest.mark.parametrize(
    ("endpoint", "complaint"),
    [
        ("tcp/127.0.0.1:1?prio=1-9", "priorities are 0 to 7, lowest number first"),
        ("tcp/127.0.0.1:1?prio=high", "prio is a range such as 1-5, saw 'high'"),
        ("udp/127.0.0.1:1?rel=2", "rel is true or false, saw '2'"),
        ("tcp/127.0.0.1:1#so_sndbuf=abc", "so_sndbuf is a number from 0, saw 'abc'"),
        ("udp/127.0.0.1:1#dscp=900", "dscp is 0 to 63, saw 900"),
        ("udp/224.0.0.225:7#ttl=x", "ttl is a number from 0, saw 'x'"),
        ("tls/127.0.0.1:1#tls_min_version=1.1", "tls_min_version is 1.2 or 1.3"),
    ],
)
def test_options_were_read_when_a_link_was_there(
    side: str, endpoint: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A listener with `prio=1-9` reset every connection, and its log had a traceback for each."""
    file = tmp_path / "router.json5"
    file.write_text(json.dumps({side: {"endpoints": [endpoint]}}))
    code, out, err = checked(capsys, "--config", str(file), "--allow-plain")
    assert (code, out) == (1, "")
    assert complaint in err


def test_a_listener_that_is_there_twice_could_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    """The router that was started ended: the address was in use, by itself."""
    twice = ["-l", "tcp/127.0.0.1:17447", "-l", "tcp/127.0.0.1:17447"]
    code, out, err = checked(capsys, *twice)
    assert (code, out) == (1, "")
    assert "listen/endpoints: tcp/127.0.0.1:17447 is there twice; remove one" in err
    code, _, _ = checked(capsys, "-l", "tcp/127.0.0.1:0", "-l", "tcp/127.0.0.1:0")
    assert code == 0


def test_a_certificate_that_is_never_shown_was_taken_in_silence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = "transport/link/tls/connect_private_key"
    code, out, _ = checked(capsys, "--cfg", f'{key}:"key.pem"')
    assert code == 0
    assert f"without effect: {key} has no effect: transport/link/tls/enable_mtls is false" in out


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("nope:1", "nope: unknown key; the top has"),
        ("foo/bar:1", "foo/bar: unknown key; the top has"),
        ("startup/subscribe:[]", "startup/subscribe: unknown key; the top has"),
        ("listn/endpoints:[]", "the nearest known one is listen/endpoints"),
        ("endpoints:[]", "is connect/endpoints or listen/endpoints"),
    ],
)
def test_an_unknown_key_had_a_misleading_hint(
    setting: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = checked(capsys, "--cfg", setting)
    assert (code, out) == (2, "")
    assert complaint in err


@pytest.mark.parametrize(
    ("section", "package", "extra"),
    [
        ("rest:{http_port:8000}", "uvicorn", "web"),
        ("dds:{domain:0}", "cyclonedds", "dds"),
        ("ros2dds:{}", "cyclonedds", "dds"),
        ('recorder:{directory:"log",recordings:{a:{key_exprs:["a/**"]}}}', "pyarrow", "arrow"),
    ],
)
def test_a_service_whose_extra_is_missing_could_be_used_for_all_that_was_said(
    section: str,
    package: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = importlib.util.find_spec
    monkeypatch.setattr(services, "find_spec", lambda name: None if name == package else here(name))
    code, out, err = checked(capsys, "--cfg", f"plugins/{section}")
    assert (code, out) == (1, "")
    assert f"pip install 'elea[{extra}]'" in err


def test_a_log_level_that_means_nothing_could_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = checked(capsys, "--log", "lod")
    assert (code, out) == (2, "")
    assert "argument --log: no log level: 'lod'; expected a level (trace, debug" in err


def test_what_is_left_out_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = checked(
        capsys,
        *("-e", "tcp/127.0.0.1:1#retry_period_init_ms=5"),
        *("--cfg", "plugins/mqtt:{port:1883}"),
        *("--cfg", "transport/shared_memory/enabled:true"),
        *("--cfg", "plugins/rest:{http_port:8000,work_thread_num:2}"),
    )
    assert code == 0
    *idle, last = out.splitlines()
    assert last == "the configuration can be used"
    assert all(line.startswith("without effect: ") for line in idle)
    text = "\n".join(idle)
    assert "plugins/mqtt: no such service is installed" in text
    assert "plugins/rest/work_thread_num has no effect: a service has one thread" in text
    assert "transport/shared_memory/enabled has no effect" in text
    assert "option retry_period_init_ms has no effect: connect/retry" in text


def test_a_plain_configuration_leaves_nothing_out(capsys: pytest.CaptureFixture[str]) -> None:
    endpoint = "tcp/127.0.0.1:1?prio=1-3;rel=1#so_sndbuf=65536;iface=lo"
    code, out, _ = checked(capsys, "-e", endpoint, "-l", "udp/127.0.0.1:7447")
    assert (code, out) == (0, "the configuration can be used\n")


def test_access_rules_that_are_not_enabled_were_not_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rules without `enabled: true` look like protection, and every neighbour may do everything."""
    rule = '{id:"r",permission:"deny",messages:["put"],key_exprs:["a/**"]}'
    for enabled in ("", "enabled:false,"):
        rules = f"access_control:{{{enabled}rules:[{rule}],subjects:[],policies:[]}}"
        code, out, _ = checked(capsys, "--cfg", rules)
        assert code == 0
        [idle, _] = out.splitlines()
        assert idle == (
            "without effect: access_control has no effect: access_control/enabled is false,"
            " so every action is allowed"
        )
        assert main(["config", "explain", "--cfg", rules]) == 0
        assert "access control: its rules are off, whoever is" in capsys.readouterr().out
    assert "without effect" not in checked(capsys, "--cfg", "access_control/enabled:false")[1]


def test_a_client_that_scouts_may_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    """`--config-check` passed `mode: client`, which does not start where no node answers."""
    cfg = ["--cfg", 'mode:"client"', "--cfg", "scouting/multicast/enabled:true"]
    assert checked(capsys, *cfg)[0] == 1
    assert checked(capsys, "--cfg", 'mode:"client"', "-e", "tcp/127.0.0.1:1")[0] == 0


def test_who_may_read_the_admin_space_is_not_told_wrongly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It said `whoever is connected` with `default_permission: deny`."""
    empty = "rules:[],subjects:[],policies:[]"
    rules = f'access_control:{{enabled:true,default_permission:"deny",{empty}}}'
    assert main(["config", "explain", "--cfg", rules]) == 0
    out = capsys.readouterr().out
    assert "admin space: those whom access rules let query @/** may read it" in out
    assert main(["config", "explain"]) == 0
    assert "admin space: whoever is connected may read it" in capsys.readouterr().out


def test_an_upstream_that_is_not_there_is_told_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at info, not at debug: a router said nothing at all."""
    nobody, failures = free_endpoint(), list[object]()
    notice = Opening.noticed

    def counted(self: Opening, event: NeighbourUp | ConnectFailed) -> None:
        failures.append(event)
        notice(self, event)

    monkeypatch.setattr(Opening, "noticed", counted)
    quick = "connect/retry:{period_init_ms:10,period_max_ms:10}"
    with running(options(quick, connect=(nobody,))):
        assert eventually(lambda: len(failures) > 5)
    [told] = [one for one in caplog.records if one.name == "elea.link"]
    assert told.levelno == logging.WARNING
    assert told.getMessage().startswith(f"cannot connect to {nobody}: ")
    assert "Connection refused (ECONNREFUSED)" in told.getMessage()
    assert told.getMessage().endswith("; retrying")


def test_a_router_that_meets_its_own_id_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "elea.audit")
    endpoint = free_endpoint()
    with (
        running(options(listen=(endpoint,), id="a1")),
        running(options(connect=(endpoint,), id="a1")),
    ):
        assert eventually(lambda: "cannot connect to" in caplog.text)
        assert eventually(lambda: "login_refused" in caplog.text)
    assert "it has the same id as this node" in caplog.text


def test_an_unknown_scheme_ends_a_router_before_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["router", "-l", "tcp/127.0.0.1:0", *connect("warp/127.0.0.1:9999")]
    assert main(arguments) == 2
    assert "no scheme 'warp'; there are memory, serial, tcp" in capsys.readouterr().err


def test_a_router_with_an_expired_certificate_said_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """`--config-check` passed it, it started, and every neighbour refused it."""
    made = certificates().expired
    for name, text in (("router.pem", made.certificate_text), ("key.pem", made.key_text)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    tls = {
        "listen_certificate": str(tmp_path / "router.pem"),
        "listen_private_key": str(tmp_path / "key.pem"),
    }
    setting = f"transport/link/tls:{json.dumps(tls)}"
    arguments = ["router", "-l", "tls/127.0.0.1:0", "--cfg", setting]
    assert main([*arguments, "--config-check"]) == 1
    words = f"transport/link/tls/listen_certificate: the certificate {tmp_path}/router.pem has exp"
    assert words in capsys.readouterr().err
    caplog.set_level(logging.WARNING, "elea.daemon")
    with running(options(setting, listen=("tls/127.0.0.1:0",))):
        assert words in caplog.text  # it starts: a certificate may be renewed while it runs


RECORDING = '{r:{key_exprs:["a/**"]}}'
UNIX = "unixsock-stream/"
SAME = (
    "plugins/storage_manager:{volumes:{fs:{root:'TMP'},other:{backend:'fs',root:'TMP'}},"
    "storages:{a:{key_expr:'a/**',volume:{id:'fs',dir:'x'}},"
    "b:{key_expr:'b/**',volume:{id:'VOLUME',dir:'x'}}}}"
)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--cfg", "plugins/historian:{logs:'TMP/no'}"], "plugins/historian/logs: there is no"),
        (
            ["--cfg", "plugins/historian:{logs:['TMP','TMP/no']}"],
            "plugins/historian/logs/1: there is no directory 'TMP/no'; make it",
        ),
        (
            ["--cfg", "plugins/historian:{logs:'TMP',tables:'TMP/no'}"],
            "plugins/historian/tables: there is no directory",
        ),
        (["--cfg", "plugins/recorder:{}"], "plugins/recorder/directory: expected the path"),
        (["--cfg", "plugins/recorder:{recordings:{}}"], "plugins/recorder/directory: expected"),
        (
            ["--cfg", "plugins/xrce:{interface:'eht9'}"],
            "plugins/xrce/interface: no interface 'eht9",
        ),
        (["--cfg", "plugins/dds:{namespace:'a b'}"], 'dds/namespace: needs names: "ros2"'),
        (
            ["--cfg", "plugins/dds:{namespace:'a*',names:'ros2'}"],
            "dds/namespace: expected a ROS namespace, got the text 'a*': 'a*' has a wildcard",
        ),
        (listen("vsock/x"), "listen/endpoints: vsock/x: expected CID:PORT, as vsock/2:7447"),
        (connect("vsock/-1:1"), "vsock/-1:1: expected one CID and one port"),
        (connect("tcp/127.0.0.1:0"), "connect/endpoints: tcp/127.0.0.1:0: expected a port, got 0"),
    ],
)
def test_what_did_nothing_and_was_silent_is_refused(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The configuration could be used, and the router that was started said nothing either."""
    code, out, err = checked(capsys, *(one.replace("TMP", str(tmp_path)) for one in arguments))
    assert (code, out) == (1, "")
    assert complaint.replace("TMP", str(tmp_path)) in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--cfg", STORAGE.replace("fs:{}", "fs:{root:'TMP/file/fs'}") % '"fs"'],
            "storages/a/volume: TMP/file/fs/a cannot be made: TMP/file is not a directory",
        ),
        (
            ["--cfg", STORAGE.replace("sqlite:{}", "sqlite:{root:'TMP/closed'}") % '"sqlite"'],
            "storages/a/volume: TMP/closed/a cannot be written: no permission for",
        ),
        (
            ["--cfg", STORAGE.replace("log:{}", "log:{root:'TMP'}") % '"log",dir:"file"'],
            "storages/a/volume: TMP/file cannot be made: TMP/file is not a directory",
        ),
        (
            ["--cfg", f"plugins/recorder:{{directory:'TMP/file/x',recordings:{RECORDING}}}"],
            "plugins/recorder/directory: TMP/file/x/r cannot be made",
        ),
        (
            ["--cfg", "plugins/xrce:{persistent:'TMP/file'}"],
            "plugins/xrce/persistent: TMP/file cannot be made",
        ),
        (["--cfg", SAME.replace("VOLUME", "fs")], "storages/b/volume: the storage a has"),
        (["--cfg", SAME.replace("VOLUME", "other")], "storages/b/volume: the storage a has"),
        (
            ["--cfg", SAME.replace("VOLUME',dir:'x'", "fs',dir:'x/y'")],
            "storages/b/volume/dir: it is below that of the storage a",
        ),
        (listen(f"{UNIX}TMP/no/s"), "there is no directory TMP/no; make it"),
        (listen(f"{UNIX}TMP/file"), "TMP/file is there and is not a socket"),
        (listen(f"{UNIX}TMP/closed/s"), "TMP/closed cannot be written"),
        (listen(f"{UNIX}TMP/{'s' * 108}"), "expected a path of 107 bytes at most, got"),
        (connect(f"{UNIX}TMP/{'s' * 108}"), "expected a path of 107 bytes at most, got"),
        (connect("tcp/127.0.0.1:1#iface=eht9"), "tcp/127.0.0.1:1: no interface 'eht9'; there are"),
        (listen("udp/224.0.0.225:7#iface=eht9"), "listen/endpoints: no interface 'eht9' with IPv4"),
        (connect("tcp/[fe80::1%eht9]:1"), "connect/endpoints: tcp/[fe80::1%eht9]:1: no interface"),
        (listen("udp/[ff02::9%eht9]:7"), "listen/endpoints: [ff02::9%eht9]:7: no interface"),
        (
            ["--cfg", "scouting/multicast:{enabled:true,address:'[ff02::9%eht9]:7446'}"],
            "scouting/multicast/interface: [ff02::9%eht9]:7446: no interface",
        ),
        (
            ["--cfg", "plugins/xrce:{group:'[ff02::9%eht9]:7'}"],
            "plugins/xrce/interface: [ff02::9%eht9]:7: no interface",
        ),
        (
            ["--cfg", "scouting/multicast:{enabled:true,interface:'eht9'}"],
            "scouting/multicast/interface: no interface 'eht9'",
        ),
    ],
)
def test_what_was_only_logged_at_the_start_is_refused(
    arguments: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The configuration could be used, and the router ran without a part of it."""
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir(0o500)
    access = os.access
    # As for a user that is not root.
    monkeypatch.setattr(
        os, "access", lambda one, mode: access(one, mode) and "closed" not in str(one)
    )
    code, out, err = checked(
        capsys, *(one.replace("TMP", str(tmp_path)) for one in arguments), "--allow-plain"
    )
    assert (code, out) == (1, "")
    assert complaint.replace("TMP", str(tmp_path)) in err
    assert list((tmp_path / "closed").iterdir()) == []


def test_what_another_service_makes_need_not_be_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A historian of the log that the recorder of the same router makes; and one of a storage."""
    recorder = f"plugins/recorder:{{directory:'{tmp_path}/log',recordings:{RECORDING}}}"
    storages = (
        f"plugins/storage_manager:{{volumes:{{log:{{root:'{tmp_path}/kept'}}}},"
        "storages:{a:{key_expr:'a/**',volume:'log'}}}"
    )
    historian = f"plugins/historian:{{logs:['{tmp_path}/log/r','{tmp_path}/kept/a']}}"
    code, out, err = checked(capsys, "--cfg", recorder, "--cfg", storages, "--cfg", historian)
    assert (code, out, err) == (0, "the configuration can be used\n", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        (
            "transport/unicast/max_sessions:0",
            "transport/unicast/max_sessions is 0: every neighbour that c",
        ),
        ("transport/multicast/max_sessions:0", "transport/multicast/max_sessions is 0: every memb"),
        (
            "qos/network:[{messages:['put'],overwrite:{}}]",
            "qos/network/0 has no effect: its overwrite is empty",
        ),
        (
            "access_control:{enabled:true,rules:[],policies:[],subjects:[{id:'s',usernames:['u']}]}",
            "access_control/subjects/0 has no effect: no neighbour has a user name",
        ),
        ("plugins/recorder:{directory:'log'}", "plugins/recorder records nothing"),
    ],
)
def test_legal_values_that_do_nothing_were_accepted_in_silence(
    setting: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eclipse Zenoh accepts these, too: they are named, by the check and at the start."""
    code, out, _ = checked(capsys, "--cfg", setting)
    assert code == 0
    assert f"without effect: {line}" in out


def test_a_historian_without_its_log_said_nothing_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "elea.daemon")
    logs = f"plugins/historian:{{logs:'{tmp_path}/no'}}"
    with running(options(logs), historian=HistorianService):
        assert "plugins/historian/logs: there is no directory" in caplog.text


_RULE = '{key_expr:"a",freq:1}'


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        (f"downsampling:[{{id:'x',messages:['put'],rules:[{_RULE}]}},TWICE]", "downsampling"),
        (
            "low_pass_filter:[{id:'x',messages:['put'],key_exprs:['a'],size_limit:1},TWICE]",
            "low_pass_filter",
        ),
        ("qos/network:[{id:'x',messages:['put'],overwrite:{express:true}},TWICE]", "qos/network"),
        ("elea/quotas:[{id:'x',declarations:1},TWICE]", "elea/quotas"),
        (
            "access_control:{enabled:true,subjects:[{id:'s'}],"
            "rules:[{id:'r',permission:'allow',messages:['put'],key_exprs:['a']}],"
            "policies:[{id:'x',rules:['r'],subjects:['s']},TWICE]}",
            "access_control/policies",
        ),
    ],
)
def test_two_items_with_one_id_were_accepted(
    setting: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refusals and quotas are told by it; Eclipse Zenoh refuses it, too."""
    first = setting[setting.rindex("[{id:'x'") + 1 : setting.rindex(",TWICE")]
    code, out, err = checked(capsys, "--cfg", setting.replace("TWICE", first))
    assert (code, out) == (1, "")
    assert f"{path}: the id 'x' is used twice; each entry needs its own" in err


@pytest.mark.parametrize("name", ["{usrname}", "{username}", "${usrname}"])
def test_a_misspelt_placeholder_of_a_rule_was_taken_as_text(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = f"{{id:'r',permission:'deny',messages:['put'],key_expr_templates:['t/{name}/**']}}"
    code, out, err = checked(capsys, "--cfg", f"access_control/rules:[{rule}]")
    assert (code, out) == (2, "")
    assert "placeholders only, which are ${cert_common_name}, ${username}, ${zid}" in err


@pytest.mark.parametrize("given", [connect, lambda one: ["--config", one]], ids=["cfg", "file"])
@pytest.mark.parametrize(
    ("endpoint", "complaint"),
    [
        ("tcp/10.0.0.1:99999", "ports end at 65535, got 99999"),
        ("tcp/10.0.0.1:7#foo=1", "unknown option 'foo'; known are bind"),
        ("tcp/10.0.0.1:7?prio=9", "priorities are 0 to 7"),
    ],
)
def test_a_refusal_named_the_endpoint_twice_or_not_the_key(
    given: Callable[[str], list[str]],
    endpoint: str,
    complaint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "router.json5"
    file.write_text(json.dumps({"connect": {"endpoints": [endpoint]}}))
    code, out, err = checked(capsys, *given(endpoint if given is connect else str(file)))
    assert code in (1, 2)
    assert out == ""
    assert (
        err.splitlines()[-1].split("connect/endpoints: ")[1].startswith(f"{endpoint}: {complaint}")
    )


@pytest.mark.parametrize(
    "section", ["recorder:{recordings:[]}", "historian:{logs:5}", "sql:{tables:5}"]
)
def test_a_section_that_is_refused_is_explained_all_the_same(
    section: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a service notes of its section needs one that is legal."""
    assert main(["config", "explain", "--cfg", f"plugins/{section}"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert f"it would not start: plugins/{section.partition(':')[0]}/" in out
