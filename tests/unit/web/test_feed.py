"""The queue between the session's threads and a coroutine."""

from __future__ import annotations

import asyncio
import threading

from elea.encoding import Encoding
from elea.web.feed import Budget, Feed
from elea.web.payloads import Entry

BIG = 1 << 30


def entry(text: str, length: int = 0) -> Entry:
    return Entry("PUT", text, bytes(length), Encoding("zenoh/bytes"), None)


async def rest_of(feed: Feed) -> list[str]:
    found = []
    while (one := await feed.take()) is not None:
        found.append(one.key)
    return found


def test_in_order_from_another_thread() -> None:
    async def run() -> list[str]:
        feed = Feed(1_000, BIG)

        def offer() -> None:
            for number in range(500):
                assert feed.offer(entry(str(number)))
            feed.end()

        thread = threading.Thread(target=offer)
        thread.start()
        found = await rest_of(feed)
        thread.join()
        assert not feed.offer(entry("late"))
        assert feed.dropped_count == 0
        return found

    assert asyncio.run(run()) == [str(number) for number in range(500)]


def test_a_ring_keeps_the_newest_and_counts_the_others() -> None:
    async def run() -> None:
        feed = Feed(3, BIG, ring=True)
        for number in range(10):
            assert feed.offer(entry(str(number)))
        feed.end()
        assert await rest_of(feed) == ["7", "8", "9"]
        assert feed.dropped_count == 7

    asyncio.run(run())


def test_octets_are_bounded_too() -> None:
    async def run() -> None:
        feed = Feed(1_000, 10_000, ring=True)
        for number in range(5):
            assert feed.offer(entry(str(number), 4_000))
        assert not feed.offer(entry("too long", 20_000))
        feed.end()
        assert await rest_of(feed) == ["3", "4"]
        assert feed.dropped_count == 4
        other = Feed(1_000, 10_000)
        assert [other.offer(entry("a", 4_000)) for _ in range(4)] == [True, True, False, False]
        assert other.dropped_count == 2

    asyncio.run(run())


def test_feeds_share_a_budget_and_give_it_back() -> None:
    async def run() -> None:
        budget = Budget(10_000)
        one, other = (Feed(1_000, BIG, budget=budget) for _ in range(2))
        assert one.offer(entry("a", 4_000))
        assert other.offer(entry("b", 4_000))
        assert not one.offer(entry("c", 4_000))
        one.close()
        assert other.offer(entry("d", 4_000))
        other.end()
        assert await rest_of(other) == ["b", "d"]
        assert budget.free_len == 10_000

    asyncio.run(run())


def test_rings_share_a_budget_too() -> None:
    async def run() -> None:
        budget = Budget(10_000)
        one, other = (Feed(1_000, BIG, ring=True, budget=budget) for _ in range(2))
        assert all(one.offer(entry(str(number), 4_000)) for number in range(5))
        assert not other.offer(entry("no room", 4_000))
        assert (one.dropped_count, other.dropped_count) == (3, 1)

    asyncio.run(run())


def test_nobody_hears_it_after_the_loop() -> None:
    async def make() -> Feed:
        return Feed(10, BIG)

    feed = asyncio.run(make())
    feed.offer(entry("a"))
    assert feed.is_ended
