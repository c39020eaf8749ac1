from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace

import pytest

from elea.config import Config
from elea.config.schema import BY_PATH, CHILDREN, KEYS
from elea.errors import ConfigError, LimitError, MissingDependencyError
from elea.ids import WhatAmI, ZenohId
from elea.limits import DEFAULT_LIMITS, Limits
from elea.locator import Endpoint
from elea.secret import Secret

ROLES = ["router", "peer", "client"]


def test_every_default_is_legal_at_its_own_key() -> None:
    for key in KEYS:
        if key.default is not None:
            assert key.kind.read(key.default, key.path) == key.default


def test_no_key_lies_below_another() -> None:
    assert not set(BY_PATH) & set(CHILDREN)
    assert len(BY_PATH) == len(KEYS)


def test_an_empty_configuration_is_the_defaults() -> None:
    config = Config()
    assert config == Config.from_json5("{}") == Config.from_mapping({})
    assert config.mode is WhatAmI.PEER
    assert config.zid is None
    assert config.value("queries_default_timeout", int) == 10_000
    assert config.get_json("queries_default_timeout") == "null"
    assert config.get_json("transport/link/tx/lease") == "10000"


@pytest.mark.parametrize(
    ("path", "router", "peer", "client"),
    [
        ("timestamping/enabled", True, False, False),
        ("connect/timeout_ms", -1, -1, 0),
        ("scouting/multicast/autoconnect", [], ROLES, ROLES),
        ("listen/endpoints", ["tcp/127.0.0.1:7447"], ["tcp/[::]:0"], None),
        ("scouting/timeout", 3000, 3000, 3000),
    ],
)
def test_defaults_by_role(path: str, router: object, peer: object, client: object) -> None:
    for mode, expected in (("router", router), ("peer", peer), ("client", client)):
        assert Config.from_mapping({"mode": mode}).get(path) == expected


def test_values_per_role() -> None:
    text = "{mode: 'client', timestamping: {enabled: {router: false, client: true}}}"
    config = Config.from_json5(text)
    assert config.value("timestamping/enabled", bool) is True
    config.insert_json5("mode", "'peer'")  # not named above: the default holds
    assert config.value("timestamping/enabled", bool) is False
    config.insert_json5("timestamping/enabled", "true")
    assert config.value("timestamping/enabled", bool) is True


def test_records_are_completed_by_their_defaults() -> None:
    config = Config.from_json5("{connect: {retry: {period_init_ms: {peer: 10, router: 20}}}}")
    assert config.get("connect/retry") == {
        "period_init_ms": 10,
        "period_max_ms": 4000,
        "period_increase_factor": 2.0,
    }
    config.insert_json5("connect/retry", "{client: {period_init_ms: 5}}")
    assert config.get("connect/retry") == config.get("listen/retry")


def test_endpoints() -> None:
    config = Config.from_mapping(
        {
            "mode": "client",
            "id": "a1",
            "connect": {
                "endpoints": [
                    "tcp/a:1?rel=1;prio=2",
                    {"strategy": "allOf", "locators": ["tcp/b:1", "udp/b:2"]},
                ]
            },
        }
    )
    assert config.zid == ZenohId(b"\xa1")
    groups = config.endpoints("connect")
    assert [[str(one) for one in group] for group in groups] == [
        ["tcp/a:1?prio=2;rel=1"],
        ["tcp/b:1", "udp/b:2"],
    ]
    assert config.endpoints("listen") == ()


@pytest.mark.parametrize(
    ("path", "value", "below", "reason"),
    [
        ("", "{bogus: 1}", "bogus", "unknown key"),
        ("scouting", "{multicst: {}}", "/multicst", "nearest known one is scouting/multicast"),
        ("scouting/multicast", "{enable: true}", "/enable", "scouting/multicast/enabled"),
        ("", "{multicast: {enabled: true}}", "multicast", "scouting/multicast"),
        ("", "{endpoints: []}", "endpoints", "connect/endpoints"),
        ("transport/link/tls", "{client_auth: true}", "/client_auth", "unknown key"),
        ("connect/retry", "{period_ms: 1}", "/period_ms", "period_max_ms"),
        ("mode", "'x'", "", 'expected one of "router", "peer", "client", got the text \'x\''),
        ("id", "'AB'", "", "lower-case hexadecimal"),
        ("scouting/timeout", "'1'", "", "expected a whole number, 0 or more, got the text '1'"),
        ("scouting/timeout", "1.5", "", "got the number 1.5"),
        ("scouting/timeout", "-1", "", "0 or more"),
        ("scouting/timeout", "true", "", "got true"),
        ("scouting/multicast/ttl", "300", "", "from 0 to 255"),
        ("scouting/multicast/address", "'host:1'", "", "ip:port"),
        ("scouting/multicast/address", "'1.2.3.4'", "", "expected host:port"),
        ("scouting/multicast/enabled", "1", "", "true or false"),
        ("scouting/multicast/autoconnect", "'peer'", "", "a list of roles"),
        ("scouting/multicast/autoconnect", "['x']", "/0", "one of"),
        ("scouting", "5", "", "an object with timeout, delay"),
        ("connect", "null", "", "got null"),
        ("transport/link/tx/lease", "null", "", "got null"),
        ("connect/endpoints", "['tcp']", "/0", "no '/'"),
        ("connect/endpoints", "'tcp/a:1'", "", "got the text 'tcp/a:1'"),
        ("connect/endpoints", "{router: 'x'}", "/router", "a list of"),
        ("connect/endpoints", "{router: [], foo: []}", "", "got an object with 'router', 'foo'"),
        ("connect/endpoints", "[{strategy: 'allOf'}]", "/0", "locators is missing"),
        ("connect/timeout_ms", "{router: 1, foo: 0}", "", "per mode"),
        ("namespace", "'a/*'", "", "wildcards"),
        ("aggregation/subscribers", "['a//b']", "/0", "a key expression"),
        ("region_name", "''", "", "1 to 32"),
        ("plugins", "1", "", "an object"),
        ("metadata", "NaN", "", "what JSON can hold"),
        ("qos/network", "[{messages: ['put']}]", "/0", "overwrite is missing"),
        (
            "qos/network",
            "[{messages: ['put'], overwrite: {}, payload_size: '5'}]",
            "/0/payload_size",
            "least..most",
        ),
        (
            "qos/network",
            "[{messages: ['put'], overwrite: {}, payload_size: '10..5'}]",
            "/0/payload_size",
            "no size is in it; the least comes first",
        ),
        ("downsampling", "[{messages: [], rules: []}]", "/0/messages", "not empty"),
        (
            "downsampling",
            "[{messages: ['put'], rules: [{key_expr: 'a', freq: -1}]}]",
            "/0/rules/0/freq",
            "0 or more",
        ),
        ("gateway/south", "{}", "", 'one of "auto", or a list'),
        (
            "routing/router/linkstate/transport_weights",
            "[{dst_zid: '1', weight: 0}]",
            "/0/weight",
            "1 to 65535",
        ),
        ("", "[]", "", "got a list of 0"),
        ("", "{'\\u001b[31mred': 1}", "\\x1b[31mred", "unknown key"),
    ],
)
def test_refusals_name_the_key_and_what_is_legal(
    path: str, value: str, below: str, reason: str
) -> None:
    config = Config()
    with pytest.raises(ConfigError) as caught:
        config.insert_json5(path, value)
    assert caught.value.path == path + below
    assert reason in caught.value.reason
    assert config == Config()


def test_insert_replaces_a_subtree_or_changes_nothing() -> None:
    config = Config.from_json5("{scouting: {timeout: 5, multicast: {enabled: false}}}")
    before = copy.deepcopy(config)
    with pytest.raises(ConfigError):
        config.insert_json5("scouting", "{delay: 7, bogus: 1}")
    assert config == before
    config.insert_json5("/scouting/", "{delay: 7}")
    assert config == Config.from_mapping({"scouting": {"delay": 7}})
    config.insert_json5("scouting/delay", "null")
    assert config == Config()
    config.insert_json5("", "{mode: 'router'}")
    assert config.mode is WhatAmI.ROUTER
    for path in ("bogus/x", "scouting/multicast/bogus", "mode/x"):
        with pytest.raises(ConfigError, match="unknown key"):
            config.insert_json5(path, "1")
        with pytest.raises(ConfigError, match="unknown key"):
            config.get_json(path)
        with pytest.raises(ConfigError, match="unknown key"):
            config.get(path)


def test_a_path_may_end_inside_of_a_value() -> None:
    config = Config()
    config.insert_json5("connect/retry/period_init_ms", "500")
    config.insert_json5("connect/retry/period_max_ms", "{peer: 900}")
    assert config.get("connect/retry") == {
        "period_init_ms": 500,
        "period_max_ms": 900,
        "period_increase_factor": 2.0,
    }
    assert config.get_json("connect//retry/period_init_ms") == "500"
    config.insert_json5("listen/endpoints/peer", '["tcp/127.0.0.1:0"]')
    assert json.loads(config.get_json("listen/endpoints")) == {
        "router": ["tcp/[::]:7447"],
        "peer": ["tcp/127.0.0.1:0"],
    }
    with pytest.raises(ConfigError, match="unknown key"):
        config.insert_json5("connect/retry/period", "1")
    with pytest.raises(ConfigError, match="is not set"):
        config.get_json("connect/timeout_ms/peer")
    for call in (config.get_json, lambda key: config.insert_json5(key, "1")):
        with pytest.raises(TypeError, match="a key is a text"):
            call(1)  # type: ignore[arg-type]  # what is refused


def test_names_with_slashes_are_paths() -> None:
    flat = {
        "scouting/multicast/enabled": False,
        "connect/retry/period_init_ms": 1,
        "connect/retry/period_max_ms": 2,
        "scouting": {"timeout": 5},
        "listen": {"retry/period_init_ms": 3},
    }
    assert Config.from_mapping(flat) == Config.from_mapping(
        {
            "scouting": {"multicast": {"enabled": False}, "timeout": 5},
            "connect": {"retry": {"period_init_ms": 1, "period_max_ms": 2}},
            "listen": {"retry": {"period_init_ms": 3}},
        }
    )
    with pytest.raises(ConfigError, match="unknown key"):
        Config.from_mapping({"scouting/bogus": 1})


def test_subtrees_without_schema() -> None:
    config = Config.from_mapping({"plugins": {"rest": {"http_port": 8000}}})
    config.insert_json5("plugins/storage/volumes/fs", "{}")
    assert json.loads(config.get_json("plugins")) == {
        "rest": {"http_port": 8000},
        "storage": {"volumes": {"fs": {}}},
    }
    assert config.get_json("plugins/rest/http_port") == "8000"
    with pytest.raises(ConfigError, match="no object"):
        config.insert_json5("plugins/rest/http_port/x", "1")
    with pytest.raises(ConfigError, match="is not set"):
        config.get_json("plugins/nothing/here")
    with pytest.raises(LimitError):
        config.insert_json5("plugins/" + "x/" * 100, "1")
    cycle: dict[str, object] = {}
    cycle["again"] = cycle
    with pytest.raises(LimitError, match="config_depth"):
        Config.from_mapping({"metadata": cycle})


def test_values_are_copies() -> None:
    config = Config.from_json5("{metadata: {a: [1]}}")
    value = config.get("metadata")
    assert isinstance(value, dict)
    value["a"] = "changed"
    assert config.get("metadata") == {"a": [1]}


def test_typed_access_is_checked() -> None:
    config = Config()
    with pytest.raises(ConfigError, match="a bool was asked for"):
        config.value("scouting/timeout", bool)
    with pytest.raises(ConfigError, match="holds no secret"):
        config.secret("mode")


def test_mappings_hold_plain_values_only() -> None:
    for value in ({1: 2}, {"a": {1, 2}}, {"a": b"x"}, {"\ud800": 1}, {"a": "\ud800"}):
        with pytest.raises(ConfigError):
            Config.from_mapping({"metadata": value})
    huge = 10**5000
    with pytest.raises(ConfigError, match="a very large number"):
        Config.from_mapping({"scouting": {"timeout": huge}})
    with pytest.raises(ConfigError, match="a very large number"):
        Config.from_mapping({"connect": {"retry": {"period_increase_factor": huge}}})


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (replace(DEFAULT_LIMITS, config_len=30), "config_len"),
        (replace(DEFAULT_LIMITS, config_depth=1), "config_depth"),
        (replace(DEFAULT_LIMITS, config_nodes_count=2), "config_nodes_count"),
    ],
)
def test_limits_hold_for_every_source(limits: Limits, name: str) -> None:
    mapping = {"metadata": {"a": {"b": "x" * 31}}}
    text = json.dumps(mapping)
    with pytest.raises(LimitError, match=name):
        Config.from_mapping(mapping, limits)
    with pytest.raises(LimitError, match=name):
        Config.from_json5(text, limits)
    with pytest.raises(LimitError, match=name):
        Config.from_yaml(text, limits)


def test_user_and_password_go_together() -> None:
    with pytest.raises(ConfigError, match="go together"):
        Config.from_json5("{transport: {auth: {usrpwd: {user: 'u'}}}}")
    config = Config()
    config.insert_json5("transport/auth/usrpwd/user", "'u'")  # the other may follow
    with pytest.raises(ConfigError, match="go together"):
        config.validate()


CANARY = "canary-9d4e"
WITH_SECRETS = {
    "mode": "client",
    "connect": {"endpoints": [f"tls/a:1#connect_private_key_base64={CANARY}"]},
    "transport": {
        "auth": {
            "usrpwd": {"user": CANARY, "password": Secret(CANARY)},
            "pubkey": {"private_key_pem": CANARY},
        },
        "link": {
            "tls": {"listen_private_key_base64": CANARY, "connect_private_key_base64": CANARY}
        },
    },
    "metadata": {"password": CANARY},
    "plugins": {
        "storage": {"volumes": {"s3": {"private": {"access": [CANARY]}}}},
        "rest": {"auth_token": CANARY, "port": 8000},
    },
}
SECRET_PATHS = (
    "connect/endpoints",
    "metadata",
    "plugins",
    "transport/auth/pubkey/private_key_pem",
    "transport/auth/usrpwd/password",
    "transport/auth/usrpwd/user",
    "transport/link/tls/connect_private_key_base64",
    "transport/link/tls/listen_private_key_base64",
)


def test_secrets_show_nowhere() -> None:
    config = Config.from_mapping(WITH_SECRETS)
    texts = [str(config), repr(config), f"{config.endpoints('connect')}"]
    texts += [config.get_json(path) for path in (*BY_PATH, *CHILDREN)]
    texts += [repr(config.get(path)) for path in BY_PATH]
    assert not any(CANARY in text for text in texts)
    assert "***" in str(config)
    assert config.has_secrets()
    assert not Config().has_secrets()


def test_a_printed_configuration_does_not_pass_for_one_with_secrets() -> None:
    for path in ("plugins", "transport/auth/usrpwd", "connect/endpoints"):
        config = Config.from_mapping(WITH_SECRETS)
        with pytest.raises(ConfigError, match="how a secret prints"):
            config.insert_json5(path, config.get_json(path))
        assert config == Config.from_mapping(WITH_SECRETS)


def test_secrets_are_at_hand_for_who_asks() -> None:
    config = Config.from_mapping(WITH_SECRETS)
    assert config.secret("transport/auth/usrpwd/password") == Secret(CANARY)
    assert config.secret("transport/auth/pubkey/private_key_pem") == Secret(CANARY)
    (endpoint,) = config.endpoints("connect")[0]
    assert isinstance(endpoint, Endpoint)
    assert endpoint.reveal().endswith(CANARY)
    assert copy.deepcopy(config) == config


@pytest.mark.parametrize(
    "text",
    [
        f"{{transport: {{auth: {{usrpwd: {{password: ['{CANARY}']}}}}}}}}",
        f"{{connect: {{endpoints: ['tls#listen_private_key_base64={CANARY}']}}}}",
        f"{{connect: {{endpoints: 'tls/a#listen_private_key_base64={CANARY}'}}}}",
        f"{{password: {CANARY}}}",
    ],
)
def test_secrets_are_not_in_errors(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_json5(text)
    assert CANARY not in str(caught.value)


def test_a_pickle_holds_no_secret_and_says_what_it_lost() -> None:
    config = Config.from_mapping(WITH_SECRETS)
    config.origin = "node.json5"
    data = pickle.dumps(config)
    assert CANARY.encode() not in data
    travelled = pickle.loads(data)
    assert isinstance(travelled, Config)
    assert travelled.mode is WhatAmI.CLIENT
    assert travelled.lost_secrets == SECRET_PATHS
    with pytest.raises(ConfigError, match=r"did not travel.*node\.json5"):
        travelled.secret("transport/auth/usrpwd/password")
    assert pickle.loads(pickle.dumps(travelled)) == travelled
    assert travelled.with_secrets_of(config) == config
    with pytest.raises(ConfigError, match="did not travel"):
        travelled.insert_json5("plugins/rest/port", "1")
    travelled.insert_json5("transport/auth/usrpwd/password", "'new'")
    assert travelled.secret("transport/auth/usrpwd/password") == Secret("new")


def test_a_configuration_without_secrets_pickles_whole() -> None:
    config = Config.from_json5("{mode: 'router', metadata: {a: [1, null]}}")
    assert pickle.loads(pickle.dumps(config)) == config
    assert Config.from_json5(config.get_json("")).mode is WhatAmI.ROUTER


def test_what_it_prints_it_reads() -> None:
    config = Config.from_json5("{mode: 'router', connect: {endpoints: ['tcp/a:1?b;a']}}")
    again = Config.from_json5(str(config))
    assert str(again) == str(config)
    assert config != "config"


def test_yaml_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(MissingDependencyError, match=r"elea\[yaml\]"):
        Config.from_yaml("mode: peer")


def test_a_value_that_is_no_json5_did_not_say_which_key() -> None:
    """`insert_json5("mode", "client")` told of a line and a column alone, a list of `bytes`."""
    with pytest.raises(ConfigError, match=r"^mode: line 1, .*is JSON5, so texts need quotes"):
        Config().insert_json5("mode", "client")
    with pytest.raises(TypeError, match="argument 'value': expected a JSON5 text, found 'list'"):
        Config().insert_json5("connect/endpoints", ["tcp/127.0.0.1:7447"])  # type: ignore[arg-type]
