"""What may pass besides rules: how often, how large, with which QoS, and how much altogether."""

from __future__ import annotations

from typing import Any

import pytest

from elea.config.config import Config
from elea.limits import Limits
from elea.policy.actions import Action, Flow, classify, sizes
from elea.policy.chain import Chain, Refusal
from elea.policy.filters import INTERCEPTORS, with_qos
from elea.policy.identity import Identity, LinkIdentity
from elea.policy.interceptor import Denial, Interceptor, Reason, Stage, Step
from elea.policy.policy import KEYS, Policy
from elea.policy.quota import Account, Bucket, Quota
from elea.policy.rules import Rules
from elea.wire.codec import NetworkMessage
from elea.wire.data.delete import Del
from elea.wire.data.error import Err
from elea.wire.data.put import Put
from elea.wire.data.query import Query, QueryBody
from elea.wire.data.reply import Reply
from elea.wire.fields import WireEncoding, WireExpr
from elea.wire.network.interest import OPTION_SUBSCRIBERS, OPTION_TOKENS, Interest, InterestMode
from elea.wire.network.push import Push
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.shm import ShmDescriptor

SECOND = 1_000_000_000
WHO = Identity(zid="1", links=(LinkIdentity(protocol="tcp", interfaces=("lo",)),))
DATA = ["put", "delete", "query", "reply"]


def chain_of(**config: Any) -> Chain:
    return Policy.from_config(Config.from_mapping(config)).chain(WHO, Flow.INGRESS)


def put(key: str, payload: bytes = b"", qos: int = 0x05, **more: Any) -> Push:
    return Push(WireExpr(0, key), Put(payload, **more), qos)


def check(
    chain: Chain, message: NetworkMessage, now_ns: int = 0, *, reliable: bool = True
) -> NetworkMessage | str:
    found = classify(message)
    assert found is not None
    outcome = chain.check(found[0], found[1].suffix, message, reliable, now_ns)
    return outcome.reason if isinstance(outcome, Refusal) else outcome


def test_nothing_configured_is_nothing_to_check() -> None:
    assert not chain_of()


@pytest.mark.parametrize("name", ["downsampling", "low_pass_filter", "qos/network"])
def test_items_are_for_some_neighbours_and_one_way(name: str) -> None:
    items: dict[str, dict[str, Any]] = {
        "downsampling": {"rules": [{"key_expr": "**", "freq": 1}]},
        "low_pass_filter": {"key_exprs": ["**"], "size_limit": 1},
        "qos/network": {"overwrite": {"express": True}},
    }
    for scope, expected in (
        ({}, True),
        ({"flows": ["egress"]}, False),
        ({"interfaces": ["lo"]}, True),
        ({"interfaces": ["eth0"]}, False),
        ({"link_protocols": ["udp"]}, False),
    ):
        assert bool(chain_of(**{name: [{"messages": ["put"], **items[name], **scope}]})) is expected


def test_downsampling_goes_by_rule_and_time() -> None:
    rules = [{"key_expr": "a/**", "freq": 5.0}, {"key_expr": "**", "freq": 0}]
    chain = chain_of(downsampling=[{"messages": ["put"], "rules": rules}])
    passed = [
        check(chain, put(f"a/{index}"), index * SECOND // 20) is not Reason.DOWNSAMPLING
        for index in range(20)  # every 50 ms
    ]
    assert passed == [index % 4 == 0 for index in range(20)]
    assert check(chain, put("b"), 9 * SECOND) is Reason.DOWNSAMPLING
    delete = Push(WireExpr(0, "b"), Del())
    assert check(chain, delete) is delete


def test_the_first_rule_that_intersects_counts() -> None:
    rules = [{"key_expr": "a/b", "freq": 1}, {"key_expr": "a/*", "freq": 0}]
    chain = chain_of(downsampling=[{"messages": ["query"], "rules": rules}])
    request = Request(1, WireExpr(0, "a/*"), Query())
    assert check(chain, request) is request
    assert check(chain, request, SECOND - 1) is Reason.DOWNSAMPLING
    assert check(chain, request, SECOND) is request


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (put("k", bytes(3), attachment=bytes(2)), (3, 2)),
        (put("k", slices=(bytes(3), ShmDescriptor(4, 0, 0, 0))), (7, 0)),
        (Push(WireExpr(0, "k"), Del(attachment=bytes(2))), (0, 2)),
        (Request(1, WireExpr(0, "k"), Query(attachment=bytes(2))), (0, 2)),
        (Request(1, WireExpr(0, "k"), Query(body=QueryBody(WireEncoding(0), bytes(3)))), (3, 0)),
        (Response(1, WireExpr(0, "k"), Reply(Put(bytes(3), attachment=bytes(2)))), (3, 2)),
        (Response(1, WireExpr(0, "k"), Reply(Del(attachment=bytes(2)))), (0, 2)),
        (Response(1, WireExpr(0, "k"), Err(bytes(3))), (3, 0)),
        (Interest(1, InterestMode.FINAL), (0, 0)),
    ],
)
def test_sizes(message: NetworkMessage, expected: tuple[int, int]) -> None:
    assert sizes(message) == expected


def test_low_pass_takes_the_smallest_limit() -> None:
    item = {"messages": DATA, "key_exprs": ["a/**"]}
    chain = chain_of(low_pass_filter=[{**item, "size_limit": 9}, {**item, "size_limit": 4}])
    small = put("a/b", bytes(2), attachment=bytes(2))
    assert check(chain, small) is small
    assert check(chain, put("a/b", bytes(3), attachment=bytes(2))) is Reason.LOW_PASS
    large = put("b", bytes(100))
    assert check(chain, large) is large


@pytest.mark.parametrize(
    ("item", "qos", "expected"),
    [
        ({"overwrite": {"priority": "real_time"}}, 0x05, 0x01),
        ({"overwrite": {"priority": 1}}, 0x05, 0x06),
        ({"overwrite": {"priority": 7}}, 0x05, 0x07),
        ({"overwrite": {"priority": -2}}, 0x05, 0x03),
        ({"overwrite": {"priority": -7}}, 0x05, 0x01),
        ({"overwrite": {"congestion_control": "block"}}, 0x05, 0x0D),
        ({"overwrite": {"congestion_control": "block_first"}}, 0x0D, 0x25),
        ({"overwrite": {"congestion_control": "drop", "express": False}}, 0x1D, 0x05),
        ({"overwrite": {"express": True}, "qos": {"priority": "data"}}, 0x05, 0x15),
        ({"overwrite": {"express": True}, "qos": {"priority": "data_low"}}, 0x05, 0x05),
        ({"overwrite": {"express": True}, "qos": {"reliability": "best_effort"}}, 0x05, 0x05),
        ({"overwrite": {"express": True}, "qos": {"reliability": "reliable"}}, 0x05, 0x15),
        ({"overwrite": {"express": True}, "payload_size": "3.."}, 0x05, 0x15),
        ({"overwrite": {"express": True}, "payload_size": "..3"}, 0x05, 0x15),
        ({"overwrite": {"express": True}, "payload_size": "4..9"}, 0x05, 0x05),
        ({"overwrite": {"express": True}, "payload_size": "0..2"}, 0x05, 0x05),
        ({"overwrite": {"express": True}, "key_exprs": ["a"]}, 0x05, 0x15),
        ({"overwrite": {"express": True}, "key_exprs": ["b"]}, 0x05, 0x05),
    ],
)
def test_overwritten_qos(item: dict[str, Any], qos: int, expected: int) -> None:
    chain = chain_of(**{"qos/network": [{"messages": ["put", "query"], **item}]})
    message = put("a", bytes(3), qos)
    outcome = check(chain, message)
    assert isinstance(outcome, Push)
    assert outcome.qos == expected
    assert message.qos == qos  # others have it too
    assert outcome.body is message.body


def test_the_qos_of_queries_changes_too_and_that_of_replies_does_not() -> None:
    request = Request(1, WireExpr(0, "a"), Query(), 0x0D)
    assert with_qos(request, 0x01) == Request(1, WireExpr(0, "a"), Query(), 0x01)
    response = Response(1, WireExpr(0, "a"), Err(b""), 0x0D)
    assert with_qos(response, 0x01) is response


def test_what_is_remembered_is_bounded() -> None:
    policy = Policy.from_config(Config.from_mapping({"downsampling": []}))
    chain = policy.chain(WHO, Flow.INGRESS, Limits(plans_count=3))
    for index in range(10):
        check(chain, put(f"a/{index}"))
    assert len(chain._plans) <= 3


def test_a_text_that_is_no_key_passes_filters_but_no_rules() -> None:
    rules = {"enabled": True, "default_permission": "allow"}
    empty: dict[str, Any] = {"rules": [], "subjects": [], "policies": []}
    response = Response(1, WireExpr(0, ""), Err(b"Timeout"))
    assert check(chain_of(access_control={**rules, **empty}), response) is Reason.KEY
    filters = chain_of(low_pass_filter=[{"messages": DATA, "key_exprs": ["**"], "size_limit": 0}])
    assert check(filters, response) is response


def test_interests_in_other_things_than_tokens_are_nobodys_business() -> None:
    for mode in InterestMode:
        assert classify(Interest(1, mode, OPTION_SUBSCRIBERS)) is None
    found = classify(Interest(1, InterestMode.CURRENT, OPTION_TOKENS))
    assert found == (Action.LIVELINESS_QUERY, WireExpr(0, "**"))


# Interceptors


class NoNight(Interceptor, Stage):
    """Refuses what comes at night; forwards by day."""

    PATHS = ("night",)

    @classmethod
    def from_config(cls, config: Config) -> NoNight:
        return cls()

    def at(self, identity: Identity, flow: Flow) -> NoNight | None:
        return self if flow is Flow.INGRESS else None

    def steps(self, action: Action, key: str, now_ns: int) -> list[Step]:
        return [] if key == "moon" else [Daylight()]


class Daylight(Step):
    def limit(self, length: int, now_ns: int) -> Denial | None:
        return Denial("night", "sleep", "it is night") if now_ns % 2 else None


def test_an_interceptor_is_one_entry_of_a_list_and_has_its_own_reason() -> None:
    policy = Policy(interceptors=(Rules(), NoNight()))
    assert not policy.chain(WHO, Flow.EGRESS)
    chain = policy.chain(WHO, Flow.INGRESS)
    assert chain
    message = put("sun")
    assert check(chain, message, 2) is message
    assert chain.check(Action.PUT, "sun", message, True, 1) == Refusal(
        "night", Flow.INGRESS, Action.PUT, "sun", "sleep", "it is night"
    )
    assert check(chain, put("moon"), 1) == put("moon")
    refusal = chain.excess(Action.PUT, "sun", "", 0, 1)
    assert refusal is not None
    assert refusal.reason == "night"


def test_all_that_is_configured_is_asked_in_the_order_of_the_table() -> None:
    items = {"messages": DATA, "key_exprs": ["**"]}
    policy = Policy.from_config(
        Config.from_mapping(
            {
                "low_pass_filter": [{**items, "size_limit": 1}],
                "downsampling": [{"messages": DATA, "rules": [{"key_expr": "**", "freq": 1}]}],
                "qos/network": [{"messages": ["put"], "overwrite": {"express": True}}],
            }
        )
    )
    assert tuple(map(type, policy.interceptors)) == INTERCEPTORS
    assert {path for one in INTERCEPTORS for path in one.PATHS} <= set(KEYS)


# Quotas


def quota(**more: Any) -> Quota:
    [made] = Quota.from_config(Config.from_mapping({"elea": {"quotas": [more]}}))
    return made


def test_a_bucket_fills_and_does_not_overflow() -> None:
    bucket = Bucket(10, 0)
    assert bucket.take(10, 0)
    assert not bucket.take(1, 0)
    assert bucket.wait_ns(0) == SECOND // 10
    assert bucket.take(1, 2 * SECOND // 10)
    assert not bucket.take(11, 100 * SECOND)  # it holds one second's worth
    assert bucket.full_ns(100 * SECOND) > 0
    assert bucket.full_ns(102 * SECOND) == 0


def test_time_that_goes_backwards_gives_nothing() -> None:
    bucket = Bucket(10, SECOND)
    bucket.take(15, SECOND)
    assert bucket.wait_ns(0) == bucket.wait_ns(SECOND) == SECOND // 2


def test_messages_and_octets_count_each_for_themselves() -> None:
    account = Account(quota(messages_per_second=2, bytes_per_second=100), 0)
    assert account.spend(60, 0)
    assert not account.spend(60, 0)
    assert account.wait_ns(0) == SECOND // 5
    assert account.spend(1, SECOND)
    assert Account(quota(declarations=1), 0).spend(10**9, 0)


def test_who_is_over_for_long_enough_is_overdue() -> None:
    account = Account(quota(messages_per_second=1, close_after_ms=2_000), 0)
    assert not account.is_overdue(0)
    account.spend(1, 0)
    account.spend(1, 0)
    assert not account.is_overdue(2 * SECOND - 1)
    assert account.is_overdue(2 * SECOND)
    account.wait_ns(3 * SECOND)  # full again
    assert not account.is_overdue(9 * SECOND)


def test_the_first_quota_that_selects_a_neighbour_is_its_own() -> None:
    quotas = [{"id": "anna", "usernames": ["anna"]}, {"declarations": 1}]
    policy = Policy.from_config(Config.from_mapping({"elea": {"quotas": quotas}}))
    named = policy.quota(Identity(zid="1", user="anna"))
    rest = policy.quota(WHO)
    assert named is not None
    assert rest is not None
    assert (named.id, rest.id) == ("anna", "elea/quotas[1]")
    assert Policy().quota(WHO) is None
