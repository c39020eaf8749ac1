"""No service of a router does for a client, or a user of REST, what access rules deny to it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyarrow import flight
from tests.unit.cli.ends import WAIT_S, eventually
from tests.unit.daemon.rig import client_of, options, running

import elea
from elea.daemon.daemon import Daemon
from elea.session.rights import Rights
from elea.store.historian.service import HistorianService
from elea.store.log.reader import LogReader
from elea.store.log.settings import LogSettings
from elea.store.recorder.recorder import Recorder
from elea.store.recorder.service import RecorderService
from elea.store.recorder.settings import RecordingSettings
from elea.web.service import Rest, start

ALL = [
    *("put", "delete", "declare_subscriber", "query", "declare_queryable", "reply"),
    *("liveliness_token", "declare_liveliness_subscriber", "liveliness_query"),
]
TOKENS = {"mallory": "token-of-mallory-1", "anna": "token-of-anna-1234"}
SUBJECTS = [{"id": name, "usernames": [name]} for name in TOKENS]
DENY = {"id": "deny", "permission": "deny", "messages": ALL, "key_exprs": ["secret/**"]}
OPEN = {
    "id": "open",
    "permission": "allow",
    "messages": ["query"],
    "key_exprs": ["@elea/log/*/read/**", "@elea/log/*/commit/**"],
}
SERVE = {
    "id": "serve",
    "permission": "allow",
    "messages": ["declare_queryable"],
    "key_exprs": ["@elea/**"],
}
RULES = {
    "enabled": True,
    "default_permission": "allow",
    "rules": [DENY, OPEN],
    "subjects": SUBJECTS,
    "policies": [
        {"rules": ["deny"], "subjects": ["mallory"]},
        {"rules": ["open"], "subjects": ["anna"]},
    ],
}


@dataclass
class Doors:
    """A router with every service, and how to get in."""

    daemon: Daemon
    rest: Rest

    def client(self, user: str) -> elea.Session:
        auth = {"usrpwd": {"user": user, "password": f"{user}-password"}}
        config = {
            "mode": "client",
            "connect": {"endpoints": [self.daemon.locators()[0]]},
            "scouting": {"multicast": {"enabled": False}},
            "transport": {"auth": auth},
        }
        return elea.open(config)

    def http(self, user: str | None) -> httpx.Client:
        headers = {} if user is None else {"authorization": f"Bearer {TOKENS[user]}"}
        return httpx.Client(
            base_url=self.rest.url, headers=headers, timeout=WAIT_S, trust_env=False
        )


@contextmanager
def doors(path: Path, access: dict[str, Any], *more: str) -> Iterator[Doors]:
    users = path / "users"
    users.touch(0o600)
    users.write_text("".join(f"{name}:{name}-password\n" for name in TOKENS))
    files = {}
    for name, token in TOKENS.items():
        file = path / f"token-{name}"
        file.touch(0o600)
        file.write_text(token)
        files[name] = str(file)
    one = {"key_exprs": "**", "low_water_percent": 0}
    recorder = {
        "directory": str(path / "logs"),
        "recordings": {"all": one},
        "flight": {"location": "grpc://127.0.0.1:0"},
    }
    started: list[Rest] = []

    def serve(session: Any, settings: Any) -> Rest:
        started.append(start(session, settings))
        return started[-1]

    chosen = options(
        f"access_control:{json.dumps(access)}",
        f'transport/auth/usrpwd/dictionary_file:"{users}"',
        f"plugins/recorder:{json.dumps(recorder)}",
        f"plugins/historian:{json.dumps({'logs': str(path / 'logs' / 'all')})}",
        f"plugins/rest:{json.dumps({'http_port': 0, 'users': files})}",
        "timestamping/enabled:true",
        *more,
        adminspace_permissions="rw",
    )
    services: dict[str, Any] = {
        "recorder": RecorderService,
        "historian": HistorianService,
        "rest": serve,
    }
    with running(chosen, **services) as daemon:
        yield Doors(daemon, started[0])


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Doors]:
    with doors(tmp_path, RULES) as made:
        with made.client("anna") as anna:
            for key in ("secret/pin", "fleet/1"):
                anna.put(key, "canary", ack="stored")
        yield made


def answers(session: elea.Session, selector: str, **more: Any) -> list[Any]:
    """Payloads of the replies; None for an error."""
    replies = session.get(selector, timeout=WAIT_S, **more)
    return [None if one.ok is None else one.ok.payload.to_bytes() for one in replies]


def rows_of(router: Doors) -> list[tuple[str, bytes]]:
    """What the log has, as who may read it sees it."""
    with router.client("anna") as anna:
        info = json.loads(answers(anna, "@elea/log/all/info")[0])
        end = info["shards"][0]["end"]
        found = answers(anna, f"@elea/log/all/read/0?lo=0;hi={end}", consolidation=NONE)
    table = pa.concat_tables(
        pa.ipc.open_stream(one).read_all().select(["key", "payload"]) for one in found
    )
    return [(str(row["key"]), row["payload"]) for row in table.to_pylist()]


NONE = elea.ConsolidationMode.NONE


def batch(*kinds: int) -> bytes:
    """Samples as a spool forwards them: 0 is a put, 1 a deletion."""
    stamp = 1 << 60
    rows = [[kind, "ab", 1, sn, stamp + sn, "ab", "", 1, None] for sn, kind in enumerate(kinds)]
    return json.dumps(rows).encode() + b"\0" + b"x" * len(kinds)


def changed(router: Doors, path: str, value: str) -> None:
    """The rules of a router change while it runs."""
    rights = Rights(router.daemon.session)
    before = rights.revision()
    router.daemon.session.put(f"@/{router.daemon.session.zid()}/router/config/{path}", value)
    assert eventually(lambda: rights.revision() is not before)


def test_a_client_writes_no_denied_key_through_the_recorder(router: Doors) -> None:
    with router.client("mallory") as mallory, router.client("anna") as anna:
        seen: list[str] = []
        with anna.declare_subscriber("**", lambda sample: seen.append(str(sample.key_expr))):
            for name in ("all", "*"):
                for key in ("secret/pin", "secret/*"):
                    selector = f"@elea/log/{name}/put/{key}"
                    assert answers(mallory, selector, payload="evil") == []
                    assert answers(mallory, f"{selector}?kind=delete") == []
            assert answers(mallory, "@elea/*/*/put/secret/pin", payload="evil") == []
            assert answers(mallory, "@elea/**/put/secret/pin", payload="evil") == []
            for name in ("all", "*"):
                selector = f"@elea/log/{name}/puts/secret/pin"
                for more in ("", "?kind=put", "?kind=delete"):
                    assert answers(mallory, selector + more, payload=batch(0, 1)) == []
            many = answers(mallory, "@elea/log/all/puts/fleet/9?kind=delete", payload=batch(0))
            assert many == [None]  # it says that it deletes, and puts
            assert answers(mallory, "@elea/log/all/put/fleet/2", payload="fine") != []
            assert eventually(lambda: "fleet/2" in seen)
        assert not [key for key in seen if key.startswith("secret")]
    assert rows_of(router) == [
        ("secret/pin", b"canary"),
        ("fleet/1", b"canary"),
        ("fleet/2", b"fine"),
    ]


def test_a_client_reads_no_denied_key_from_log_or_history(router: Doors) -> None:
    with router.client("mallory") as mallory:
        for selector in (
            *("@elea/log/all/read/0?lo=0;hi=2", "@elea/log/*/read/0?lo=0;hi=2"),
            *("@elea/log/all/*/0?lo=0;hi=2", "@elea/**/0?lo=0;hi=2"),
            "@elea/log/all/read/0?lo=0;hi=2;keyexpr=secret/**",
            *("**", "secret/pin", "secret/**", "*/pin", "**?_time=[..]"),
        ):
            assert answers(mallory, selector, consolidation=NONE) == [], selector
        assert answers(mallory, "fleet/**") == [b"canary"]
        read = answers(mallory, "@elea/log/all/read/0?lo=0;hi=2;keyexpr=fleet/**")
        assert b"".join(read).count(b"canary") <= 1
        assert b"secret" not in b"".join(read)


def test_a_client_moves_no_offsets_unless_a_rule_names_it(router: Doors) -> None:
    commit = {"payload": json.dumps({"offsets": {"0": 1}})}
    with router.client("mallory") as mallory, router.client("anna") as anna:
        assert answers(mallory, "@elea/log/all/commit/spark", **commit) == []
        assert answers(anna, "@elea/log/all/commit/spark", **commit) != []


def test_a_consumer_is_moved_by_its_owner_alone(tmp_path: Path) -> None:
    both = [{"rules": ["open"], "subjects": list(TOKENS)}]
    commit = {"payload": json.dumps({"offsets": {"0": 0}})}
    with (
        doors(tmp_path, {**RULES, "policies": both}) as router,
        router.client("mallory") as mallory,
        router.client("anna") as anna,
    ):
        assert answers(anna, "@elea/log/all/commit/spark", **commit) != []
        assert answers(mallory, "@elea/log/all/commit/spark", **commit) == []
        assert answers(mallory, "@elea/log/all/commit/own", **commit) != []
        assert answers(anna, "@elea/log/all/commit/own", **commit) == []
        assert answers(anna, "@elea/log/all/commit/spark", **commit) != []


def test_a_consumer_of_another_is_not_moved_over_rest(tmp_path: Path) -> None:
    both = [{"rules": ["open"], "subjects": list(TOKENS)}]
    commit = json.dumps({"offsets": {"0": 0}})
    with (
        doors(tmp_path, {**RULES, "policies": both}) as router,
        router.client("anna") as anna,
        router.http("anna") as hers,
        router.http("mallory") as http,
    ):
        assert answers(anna, "@elea/log/all/commit/spark", payload=commit) != []
        refused = http.post("/@elea/log/all/commit/spark", content=commit)
        assert (refused.status_code, "belongs to user:anna" in refused.text) == (403, True)
        assert hers.post("/@elea/log/all/commit/spark", content=commit).status_code == 200
        assert http.post("/@elea/log/all/commit/own", content=commit).status_code == 200
        assert answers(anna, "@elea/log/all/commit/own", payload=commit) == []


def test_a_client_with_a_denied_key_does_not_lift_the_rule(router: Doors) -> None:
    key = f"@/{router.daemon.session.zid()}/router/config/access_control/rules"
    with router.client("mallory") as mallory, router.client("anna") as anna:
        mallory.put(key, json.dumps([OPEN]))
        assert answers(mallory, "@elea/log/all/put/@/x/router/config/y", payload="1") == []
        assert answers(mallory, "secret/pin") == []
        assert answers(anna, "secret/pin") == [b"canary"]


@pytest.mark.parametrize("hops", [1, 2])
def test_rules_hold_for_a_recorder_that_is_elsewhere(tmp_path: Path, hops: int) -> None:
    policies = [
        {"rules": ["deny"], "subjects": ["mallory"]},
        {"rules": ["serve"], "subjects": ["anna"]},
    ]
    first = {**RULES, "rules": [DENY, OPEN, SERVE], "policies": policies}
    log: dict[str, Any] = {
        "name": "far",
        "directory": tmp_path / "far",
        "key_exprs": ("**",),
        "log": LogSettings(low_water_percent=0),
    }
    with ExitStack() as stack:
        router = stack.enter_context(doors(tmp_path, first, "plugins/recorder:null"))
        daemon = router.daemon
        for _ in range(hops - 1):
            auth = 'transport/auth/usrpwd:{user:"anna",password:"anna-password"}'
            endpoint = f'connect/endpoints:["{daemon.locators()[0]}"]'
            daemon = stack.enter_context(running(options(auth, endpoint)))
        far = stack.enter_context(router.client("anna") if hops == 1 else client_of(daemon))
        recorder = stack.enter_context(Recorder(far, [RecordingSettings(**log)]))
        mallory = stack.enter_context(router.client("mallory"))
        fine = "@elea/log/far/put/fleet/1"
        assert eventually(lambda: answers(mallory, fine, payload="fine"))
        for selector in ("@elea/log/*/put/secret/pin", "@elea/*/*/put/secret/pin?kind=put"):
            assert answers(mallory, selector, payload="evil") == []
        assert answers(mallory, "@elea/log/far/read/0?lo=0;hi=1") == []
        assert recorder.counts().rows >= 1
    rows = LogReader(tmp_path / "far").read(0, 0)
    assert {str(key) for batch in rows for key in batch.column("key").to_pylist()} == {"fleet/1"}


def test_users_of_rest_write_and_read_no_denied_key(router: Doors) -> None:
    with router.http("mallory") as mallory:
        for method, path in (
            *(("PUT", "/secret/pin"), ("DELETE", "/secret/pin"), ("DELETE", "/secret/**")),
            *(("GET", "/secret/pin"), ("GET", "/**"), ("GET", "/*/pin"), ("HEAD", "/secret/**")),
            *(("POST", "/@elea/log/*/put/secret/pin"), ("POST", "/%40elea/log/*/put/secret/pin")),
            *(("GET", "/@elea/log/*/put/secret/pin?kind=delete"), ("POST", "/@elea/**")),
            *(("GET", "/@elea/log/all/read/0?lo=0;hi=2"), ("POST", "/@elea/log/all/commit/spark")),
            ("PUT", "/@/local/router/config/access_control/rules"),
        ):
            content = b"evil" if method in ("PUT", "POST") else None
            answer = mallory.request(method, path, content=content)
            assert answer.status_code == 403, (method, path)
        for path in ("/secret/**", "/secret/*/x"):
            events = {"accept": "text/event-stream"}
            assert mallory.get(path, headers=events).status_code == 403
        assert mallory.get("/fleet/**").json()[0]["key"] == "fleet/1"
        assert mallory.put("/fleet/2", content=b"fine").status_code == 200
    with router.http("anna") as anna:
        assert anna.get("/secret/pin").json()[0]["key"] == "secret/pin"
        assert {one["key"] for one in anna.get("/**").json()} >= {"secret/pin", "fleet/1"}
    with router.http(None) as nobody:  # no rule is about it, and the default is allow
        assert nobody.get("/secret/pin").json() != []
    assert eventually(lambda: ("fleet/2", b"fine") in rows_of(router))
    assert not [row for row in rows_of(router) if row[1] == b"evil"]


def test_a_stream_of_rest_leaves_out_what_may_not_be_subscribed_to(router: Doors) -> None:
    with router.http("mallory") as mallory, router.client("anna") as anna:
        with mallory.stream("GET", "/**", headers={"accept": "text/event-stream"}) as events:
            lines = events.iter_lines()
            anna.put("secret/pin", "canary")
            anna.delete("secret/pin")
            anna.put("fleet/3", "fine")
            keys = [line for line in iter(lines.__next__, "") if line.startswith("data")]
        assert len(keys) == 1
        assert "fleet/3" in keys[0]


def test_replies_and_samples_that_are_denied_are_left_out_of_rest(tmp_path: Path) -> None:
    way_out = {**DENY, "messages": ["put", "delete", "reply"], "flows": ["egress"]}
    with doors(tmp_path, {**RULES, "rules": [way_out, OPEN]}) as router:
        with router.client("anna") as anna:
            for key in ("secret/pin", "fleet/1"):
                anna.put(key, "canary", ack="stored")
        with router.http("mallory") as mallory, router.client("anna") as anna:
            assert [one["key"] for one in mallory.get("/**").json()] == ["fleet/1"]
            with mallory.stream("GET", "/**", headers={"accept": "text/event-stream"}) as events:
                lines = events.iter_lines()
                anna.put("secret/pin", "canary")
                anna.delete("secret/pin")
                anna.put("fleet/3", "fine")
                keys = [line for line in iter(lines.__next__, "") if line.startswith("data")]
            assert len(keys) == 1
            assert "fleet/3" in keys[0]


def test_rules_for_rest_change_while_it_runs(router: Doors) -> None:
    key = f"@/{router.daemon.session.zid()}/router/config/access_control/enabled"
    with router.http("mallory") as mallory, router.client("anna") as anna:
        assert mallory.get("/secret/pin").status_code == 403
        anna.put(key, "false")
        assert eventually(lambda: mallory.get("/secret/pin").status_code == 200)


def test_rules_that_change_end_a_stream_of_events(tmp_path: Path) -> None:
    """A browser that had subscribed before went on reading what it may not subscribe to."""
    subscribing = {**DENY, "messages": ["declare_subscriber"]}
    off = {**RULES, "enabled": False, "rules": [subscribing, OPEN]}
    with (
        doors(tmp_path, off) as router,
        router.http("mallory") as mallory,
        router.client("anna") as anna,
    ):
        events = {"accept": "text/event-stream"}
        with mallory.stream("GET", "/secret/**", headers=events) as stream:
            lines = stream.iter_lines()
            anna.put("secret/pin", "before")
            first = next(line for line in lines if line.startswith("data"))
            changed(router, "access_control/enabled", "true")
            anna.put("secret/pin", "after")
            rest = list(lines)
        assert "secret/pin" in first
        assert not [line for line in rest if line.startswith("data")]
        assert mallory.get("/secret/**", headers=events).status_code == 403


def test_rules_that_change_apply_to_every_service_that_is_asked(tmp_path: Path) -> None:
    """Recorder, log server, historian, REST and the admin space, before and after a change."""
    with (
        doors(tmp_path, {**RULES, "enabled": False}) as router,
        router.client("mallory") as mallory,
        router.client("anna") as anna,
        router.http("mallory") as http,
    ):
        anna.put("secret/pin", "canary", ack="stored")
        config = f"@/{router.daemon.session.zid()}/router/config/access_control/enabled"
        commit = {"payload": json.dumps({"offsets": {"0": 0}})}
        selectors: dict[str, dict[str, Any]] = {
            "@elea/log/all/put/secret/pin": {"payload": "evil"},
            "@elea/log/all/puts/secret/pin": {"payload": batch(0)},
            "@elea/log/all/read/0?lo=0;hi=1": {},
            "@elea/log/all/commit/spark": commit,
            "secret/pin": {},
            "secret/pin?_time=[..]": {},
        }
        for selector, more in selectors.items():
            assert answers(mallory, selector, **more) not in ([], [None]), selector
        assert http.get("/secret/pin").status_code == 200
        changed(router, "access_control/enabled", "true")
        for selector, more in selectors.items():
            assert answers(mallory, selector, **more) == [], selector
        assert http.get("/secret/pin").status_code == 403
        mallory.put(config, "false")
        assert answers(mallory, "secret/pin") == []
        changed(router, "access_control/enabled", "false")
        for selector, more in selectors.items():
            assert answers(mallory, selector, **more) not in ([], [None]), selector


def test_rules_that_change_end_a_range_that_is_read_over_flight(tmp_path: Path) -> None:
    """A reader of a long range had all of it, whatever was denied meanwhile."""
    subjects = [{"id": "flight", "link_protocols": ["flight"]}]
    policies = [{"rules": ["deny"], "subjects": ["flight"]}]
    off = {**RULES, "enabled": False, "subjects": subjects, "policies": policies}
    with doors(tmp_path, off) as router:
        with router.client("anna") as anna:
            for number in range(40):  # a block each
                anna.put(f"fleet/{number}", bytes(2 * 2**20), ack="stored")
            location = json.loads(answers(anna, "@elea/log/all/info")[0])["flight"]
        with flight.FlightClient(location) as reader:
            ticket = {"v": 1, "log": "all", "shard": 0, "lo": 0, "hi": 40, "columns": ["payload"]}
            rows = reader.do_get(flight.Ticket(json.dumps(ticket).encode()))
            rows.read_chunk()
            changed(router, "access_control/enabled", "true")
            with pytest.raises(flight.FlightUnauthorizedError, match="deny"):
                rows.read_all()


def test_a_client_poses_as_no_recorder(tmp_path: Path) -> None:
    """Whoever declared queryables on `@elea/log/**` was asked, and believed what it stored."""
    policies = [{"rules": ["open"], "subjects": ["anna"]}]
    rules = {**RULES, "rules": [OPEN], "policies": policies}
    said = {"log": str(uuid.UUID(int=1)), "name": "all", "shard": 0, "seq": 7, "duplicate": False}
    asked: list[str] = []

    def pose(query: elea.Query) -> None:
        key = str(query.key_expr)
        asked.append(key)
        query.reply(key.replace("*", "all"), json.dumps(said))

    with (
        doors(tmp_path, rules, 'plugins/recorder/recordings/all/key_exprs:"fleet/**"') as router,
        router.client("mallory") as mallory,
        router.client("anna") as anna,
    ):
        for key in ("@elea/log/all/put/**", "@elea/log/*/put/**", "@elea/**", "@sql/lake/**"):
            mallory.declare_queryable(key, pose)
        mallory.declare_queryable("mallory/**", pose)
        assert eventually(lambda: answers(anna, "mallory/x"))  # declared after the others
        with pytest.raises(elea.NotRecordedError):
            anna.put("other/1", "x", ack="stored", timeout=2)
        assert anna.put("fleet/1", "x", ack="stored").name == "all"
        assert answers(anna, "@sql/lake") == []
        assert asked == ["mallory/x"] * len(asked)


def test_a_recorder_of_a_client_needs_a_rule_that_names_it(tmp_path: Path) -> None:
    """So does one behind a router, unless `elea/roles` names the router."""
    policies = [{"rules": ["serve"], "subjects": ["anna"]}]
    rules = {**RULES, "rules": [SERVE], "policies": policies}
    with (
        doors(tmp_path, rules) as router,
        router.client("anna") as anna,
        router.client("mallory") as mallory,
        anna.declare_queryable("@elea/log/far/put/**", lambda query: query.reply("a", "yes")),
    ):
        assert eventually(lambda: answers(mallory, "@elea/log/far/put/a?_anyke", payload="1"))


def test_readers_over_flight_are_subject_to_rules(tmp_path: Path) -> None:
    subjects = [{"id": "flight", "link_protocols": ["flight"]}]
    policies = [{"rules": ["deny"], "subjects": ["flight"]}]
    access = {**RULES, "subjects": subjects, "policies": policies}
    with doors(tmp_path, access) as router:
        with router.client("anna") as anna:
            anna.put("secret/pin", "canary", ack="stored")
            location = json.loads(answers(anna, "@elea/log/all/info")[0])["flight"]
        with flight.FlightClient(location) as reader:
            assert list(reader.list_flights()) == []
            with pytest.raises(flight.FlightUnauthorizedError, match="deny"):
                reader.get_flight_info(flight.FlightDescriptor.for_path("all"))
            ticket = {"v": 1, "log": "all", "shard": 0, "lo": 0, "hi": 1, "columns": ["key"]}
            with pytest.raises(flight.FlightUnauthorizedError, match="deny"):
                reader.do_get(flight.Ticket(json.dumps(ticket).encode())).read_all()
            some = {"v": 1, "log": "all", "keyexpr": ["fleet/**"], "columns": ["key"]}
            descriptor = flight.FlightDescriptor.for_command(json.dumps(some).encode())
            [endpoint] = reader.get_flight_info(descriptor).endpoints
            assert reader.do_get(endpoint.ticket).read_all().num_rows == 0


SMALL = {
    "id": "small",
    "flows": ["ingress"],
    "messages": ["put"],
    "key_exprs": ["fleet/**"],
    "size_limit": 10,
}
SLOW = {
    "id": "slow",
    "flows": ["ingress"],
    "messages": ["put"],
    "rules": [{"key_expr": "slow/**", "freq": 0.001}],
}
FLIGHT = {"id": "of-flight", "link_protocols": ["flight"]}
ASKED = {**FLIGHT, "flows": ["ingress"], "messages": ["query"]}
RARE = {"key_expr": "@elea/**", "freq": 0.001}
QUOTA = {"id": "few", "usernames": ["mallory"], "bytes_per_second": 10}


@pytest.mark.parametrize("is_guarded", [False, True], ids=["no rules", "rules"])
def test_sizes_and_rates_hold_for_what_services_write(tmp_path: Path, is_guarded: bool) -> None:
    more = (f"low_pass_filter:{json.dumps([SMALL])}", f"downsampling:{json.dumps([SLOW])}")
    with doors(tmp_path, {**RULES, "enabled": is_guarded}, *more) as router:
        with router.client("anna") as anna:
            for verb in ("@elea/log/all/put", "@elea/log/*/put", "@elea/*/*/put"):
                assert answers(anna, f"{verb}/fleet/1", payload=b"x" * 11) == []
            assert len(answers(anna, "@elea/log/all/put/fleet/1", payload=b"x" * 10)) == 1
            found = [answers(anna, "@elea/log/all/put/slow/1", payload=b"1") for _ in range(3)]
            assert [len(one) for one in found] == [1, 0, 0]
        with router.http("anna") as anna:
            for path in ("/fleet/1", "/@elea/log/*/put/fleet/1"):
                method = "POST" if "@" in path else "PUT"
                for count, status in ((11, 413), (10, 200)):
                    assert anna.request(method, path, content=b"x" * count).status_code == status
            codes = [anna.put("/slow/1", content=b"1").status_code for _ in range(3)]
            assert codes == [200, 429, 429]
        assert {len(payload) for _, payload in rows_of(router)} == {1, 10}


def test_a_quota_holds_for_a_user_of_rest(tmp_path: Path) -> None:
    with (
        doors(tmp_path, RULES, f"elea/quotas:{json.dumps([QUOTA])}") as router,
        router.http("mallory") as mallory,
        router.http("anna") as anna,
    ):
        assert mallory.put("/fleet/1", content=b"x" * 10_000).status_code == 200
        refused = mallory.put("/fleet/1", content=b"x")
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 1
        assert mallory.get("/fleet/1").status_code == 429
        assert anna.put("/fleet/1", content=b"x" * 10_000).status_code == 200
        assert anna.put("/fleet/1", content=b"x").status_code == 200


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"elea/quotas": [{**FLIGHT, "bytes_per_second": 1}]}, "quota of-flight"),
        ({"downsampling": [{**ASKED, "rules": [RARE]}]}, "too soon"),
        ({"low_pass_filter": [{**ASKED, "key_exprs": ["@elea/**"], "size_limit": 9}]}, "at most 9"),
    ],
    ids=["quota", "rate", "size"],
)
def test_sizes_rates_and_quotas_hold_for_readers_over_flight(
    tmp_path: Path, more: dict[str, Any], error: str
) -> None:
    [(path, value)] = more.items()
    with doors(tmp_path, {**RULES, "enabled": False}, f"{path}:{json.dumps(value)}") as router:
        with router.client("anna") as anna:
            location = json.loads(answers(anna, "@elea/log/all/info")[0])["flight"]
        ticket = {"v": 1, "log": "all", "shard": 0, "lo": 0, "hi": 0, "columns": ["key"]}
        some = flight.FlightDescriptor.for_command(json.dumps({"v": 1, "log": "all"}))
        with flight.FlightClient(location) as reader:
            read = partial(reader.do_get, flight.Ticket(json.dumps(ticket).encode()))
            if path != "low_pass_filter":  # the first one passes
                assert read().read_all().num_rows == 0
            for call in (read, partial(reader.get_flight_info, some)):
                with pytest.raises(flight.FlightError, match=error):
                    call()
            if path != "low_pass_filter":  # criteria are empty
                with pytest.raises(flight.FlightError, match=error):
                    list(reader.list_flights())
