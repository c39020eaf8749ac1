"""The compiled path: what it shares, what it copies, what it counts."""

from __future__ import annotations

from elea.routing.push import Destination, PushRouter, PushSource, RouteCache
from elea.wire.codec import NetworkMessage
from elea.wire.data.put import Put
from elea.wire.fields import WireExpr
from elea.wire.network.push import Push


class Recorder:
    def __init__(self) -> None:
        self.sent: list[tuple[int, NetworkMessage, bool]] = []

    def send(self, face_id: int, message: NetworkMessage, reliable: bool) -> int:
        self.sent.append((face_id, message, reliable))
        return face_id % 3


def router(output: Recorder, route: list[Destination] | None) -> PushRouter:
    asked: list[str] = []

    def compute(cache: RouteCache, key: str) -> list[Destination] | None:
        asked.append(key)
        if route is not None:
            cache.samples[key] = route
        return route

    pushes = PushRouter(output, compute)
    cache = RouteCache("local")
    pushes.sources[1] = PushSource(1, cache, {7: "a"}, {8: "b"})
    return pushes


def test_a_plain_sample_is_shared_and_an_aliased_one_is_written_anew() -> None:
    output = Recorder()
    route = [Destination(2, WireExpr(0, "a/b")), Destination(3, WireExpr(5, "/b", False))]
    pushes = router(output, route)
    push = Push(WireExpr(0, "a/b"), Put(b"x"), 0x12)
    pushes.push(1, "a/b", push, False)
    (_, plain, reliable), (_, aliased, _) = output.sent
    assert plain is push
    assert not reliable
    assert aliased == Push(WireExpr(5, "/b", False), push.body, 0x12)


def test_all_who_want_plain_text_share_one_message() -> None:
    output = Recorder()
    route = [Destination(number, WireExpr(0, "a/b")) for number in (2, 3, 4)]
    pushes = router(output, route)
    push = Push(WireExpr(7, "/b"), Put(b"x"))
    pushes.receive(1, push, True)
    messages = [message for _, message, _ in output.sent]
    assert messages == [Push(WireExpr(0, "a/b"), push.body)] * 3
    assert messages[0] is messages[1] is messages[2]


def test_the_worst_answer_counts_and_the_source_is_left_out() -> None:
    output = Recorder()
    pushes = router(output, [Destination(number, WireExpr(0, "a")) for number in (1, 3, 5, 6)])
    assert pushes.push(1, "a", Push(WireExpr(0, "a"), Put(b"")), True) == 2
    assert [face_id for face_id, _, _ in output.sent] == [3, 5, 6]


def test_keys_are_resolved_in_both_tables() -> None:
    output = Recorder()
    pushes = router(output, [Destination(2, WireExpr(1))])
    for wire in (WireExpr(7), WireExpr(7, "/x"), WireExpr(8, "", False), WireExpr(0, "c")):
        pushes.receive(1, Push(wire, Put(b"")), True)
    assert list(pushes.sources[1].cache.samples) == ["a", "a/x", "b", "c"]
    pushes.receive(1, Push(WireExpr(8), Put(b"")), True)
    pushes.receive(1, Push(WireExpr(7, "", False), Put(b"")), True)
    assert pushes.unknown_scope == 2


def test_what_goes_nowhere_is_counted() -> None:
    output = Recorder()
    pushes = router(output, [])
    push = Push(WireExpr(0, "a"), Put(b""))
    assert pushes.push(1, "a", push, True) == 0
    assert pushes.push(2, "a", push, True) == 0
    assert pushes.receive(2, push, True) == 0
    assert (pushes.unwanted, pushes.unknown_face) == (1, 2)
    refused = router(output, None)
    assert refused.push(1, "a//", push, True) == 0
    assert refused.unwanted == 0
    assert output.sent == []


def test_a_cache_can_be_cleared() -> None:
    cache = RouteCache("local")
    cache.samples["a"] = []
    cache.queries["a", 0] = []
    cache.clear()
    cache.clear()
    assert (cache.samples, cache.queries) == ({}, {})
