"""Programs: ordinary code with sessions runs in a world, in its time, the same way each time."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable

import pytest

import elea
import elea.aio
import elea.ext
from elea.errors import DeadlockError, LinkError
from elea.sim.network import CALM, ROUGH, Faults
from elea.sim.world import World

PEER = {"mode": "peer", "listen": {"endpoints": ["tcp/0.0.0.0:7447"]}}
CLIENT = {
    "mode": "client",
    "connect": {"endpoints": ["tcp/server:7447"], "timeout_ms": -1, "exit_on_failure": False},
}


def serve() -> None:
    with elea.open(PEER) as session, session.declare_queryable("sum", complete=True) as sums:
        for query in sums:
            numbers = (query.parameters.get("of") or "").split(",")
            query.reply("sum", str(sum(map(int, numbers))))
            query.drop()


def texts(samples: list[elea.Sample]) -> list[str]:
    return [one.payload.to_string() for one in samples]


def test_blocking_calls_take_virtual_time_only() -> None:
    times: list[float] = []

    def client() -> None:
        with elea.open(CLIENT) as session:
            start = time.monotonic()
            time.sleep(1_000)
            times.append(time.monotonic() - start)
            subscriber = session.declare_subscriber("a")
            with pytest.raises(TimeoutError):
                subscriber.recv(timeout=2_000)
            times.append(time.monotonic() - start)

    real = time.sleep, time.monotonic
    with World(1) as world:
        world.start("server", serve)
        program = world.start("client", client)
        assert world.run_until(lambda: program.done, limit_ns=4_000 * 10**9)
    assert program.failure is None
    assert times == [pytest.approx(1_000), pytest.approx(3_000)]
    assert (time.sleep, time.monotonic) == real  # the clock is the system's again


def test_queries_are_answered_between_programs() -> None:
    got: list[str] = []

    def client() -> None:
        with elea.open(CLIENT) as session:
            for reply in session.get("sum?of=1,2,3"):
                assert reply.ok is not None
                got.append(reply.ok.payload.to_string())

    with World(1) as world:
        world.start("server", serve)
        program = world.start("client", client)
        world.run_until(lambda: program.done, limit_ns=60 * 10**9)
    assert program.failure is None
    assert got == ["6"]


def chat(seen: list[str], seed: int, *, rough: bool = False) -> str:
    """Two programs that talk to each other; the digest of everything that happened."""

    def hub() -> None:
        with elea.open(PEER) as session:
            subscriber = session.declare_subscriber("to/hub/**")
            while True:
                sample = subscriber.recv()
                seen.append(sample.payload.to_string())
                session.put("from/hub", sample.payload)
                if sample.payload == "end":
                    return

    def spoke() -> None:
        with elea.open(CLIENT) as session:
            answers = session.declare_subscriber("from/hub")
            for word in ("one", "two", "end"):
                while True:
                    session.put("to/hub/x", word)
                    try:
                        assert answers.recv(timeout=3).payload == word
                        break
                    except TimeoutError:
                        continue

    with World(seed) as world:
        if rough:
            world.network.faults = ROUGH
        world.start("server", hub)
        world.start("client", spoke)
        world.run(limit_s=600)
        return world.trace.digest


def test_one_seed_is_one_run() -> None:
    runs = []
    for _ in range(2):
        seen: list[str] = []
        runs.append((chat(seen, 7), seen))
    assert runs[0] == runs[1]
    assert runs[0][1] == ["one", "two", "end"]
    assert chat([], 8) != runs[0][0]


def test_coroutines_are_programs_too() -> None:
    got: list[str] = []

    async def client() -> None:
        async with elea.aio.open(CLIENT) as session:
            replies = await session.get("sum?of=4,5")
            got.extend(reply.ok.payload.to_string() for reply in replies if reply.ok is not None)
            await asyncio.sleep(500)
            loop = asyncio.get_running_loop()

            def called(sample: elea.Sample) -> None:
                assert asyncio.get_running_loop() is loop
                got.append(sample.payload.to_string())

            session.declare_subscriber("b", called)
            await session.put("b", "mine")
            await asyncio.sleep(1)

    with World(1) as world:
        world.start("server", serve)
        program = world.start("client", client)
        world.run_until(lambda: program.done, limit_ns=600 * 10**9)
    assert program.failure is None
    assert got == ["9", "mine"]


def test_a_callback_may_wait_for_another_of_its_session() -> None:
    got: list[str] = []

    def client() -> None:
        with elea.open(PEER) as session:
            session.declare_queryable("inner", lambda query: query.reply("inner", "42"))

            def called(sample: elea.Sample) -> None:
                for reply in session.get("inner"):
                    assert reply.ok is not None
                    got.append(reply.ok.payload.to_string())

            session.declare_subscriber("outer", called)
            session.put("outer", "go")
            time.sleep(1)

    with World(1) as world:
        world.start("one", client)
        world.run(limit_s=60)
    assert got == ["42"]


def test_a_killed_program_ends_where_it_waits_and_others_learn_it() -> None:
    events: list[elea.SampleKind] = []
    ended: list[str] = []

    def mortal() -> None:
        with elea.open(CLIENT) as session:
            token = session.liveliness().declare_token("alive/mortal")
            try:
                session.declare_subscriber("never").recv()
            finally:
                ended.append("unwound")
            token.undeclare()

    def watcher() -> None:
        with elea.open(PEER) as session:
            watched = session.liveliness().declare_subscriber("alive/**", history=True)
            for _ in range(3):
                events.append(watched.recv().kind)

    with World(1) as world:
        server = world.start("server", watcher)
        world.start("client", mortal)
        assert world.run_until(lambda: events, limit_ns=20 * 10**9)
        world.crash("client")
        assert ended == ["unwound"]
        assert world.run_until(lambda: len(events) == 2, limit_ns=20 * 10**9)
        world.start("client", mortal)
        assert world.run_until(lambda: server.done, limit_ns=20 * 10**9)
    assert server.failure is None
    assert events == [elea.SampleKind.PUT, elea.SampleKind.DELETE, elea.SampleKind.PUT]
    assert ended == ["unwound"] * 2  # the world is closed
    assert not [one for one in threading.enumerate() if one.name.startswith("elea-sim")]


def test_a_reader_that_is_behind_stops_the_network_and_loses_nothing() -> None:
    got: list[str] = []

    def slow() -> None:
        with elea.open({**PEER, "transport": {"link": {"tx": {"lease": 1_000}}}}) as session:
            subscriber = session.declare_subscriber("a", elea.handlers.FifoChannel(2))
            time.sleep(4)  # less than the patience with who does not read
            for sample in subscriber:
                got.append(sample.payload.to_string()[:4])
                if len(got) == 40:
                    return

    def quick() -> None:
        config = {**CLIENT, "transport": {"link": {"tx": {"lease": 1_000}}}}
        with elea.open(config) as session:
            publisher = session.declare_publisher(
                "a", congestion_control=elea.CongestionControl.BLOCK
            )
            time.sleep(0.5)
            for number in range(40):
                publisher.put(f"{number:04}" + "x" * 100_000)
            time.sleep(20)

    with World(1) as world:
        world.start("server", slow)
        world.start("client", quick)
        world.run(limit_s=120)
    assert got == [f"{number:04}" for number in range(40)]
    assert not world.reached["lease expired"]  # though nothing was read for four leases
    assert not world.reached["reconnected"]


def test_advanced_publishers_and_subscribers_recover_what_a_cut_cost() -> None:
    got: list[str] = []

    def publisher() -> None:
        with elea.open(PEER) as session:
            advanced = elea.ext.declare_advanced_publisher(
                session,
                "a",
                cache=elea.ext.CacheConfig(100),
                sample_miss_detection=elea.ext.MissDetectionConfig(heartbeat=0.5),
                publisher_detection=True,
            )
            for number in range(10):
                advanced.put(str(number))
                time.sleep(0.2)
            time.sleep(20)

    def subscriber() -> None:
        with elea.open(CLIENT) as session:
            samples = elea.ext.declare_advanced_subscriber(
                session,
                "a",
                history=elea.ext.HistoryConfig(detect_late_publishers=True),
                recovery=elea.ext.RecoveryConfig(heartbeat=True),
            )
            while len(got) < 10:
                got.append(samples.recv(timeout=15).payload.to_string())

    with World(1) as world:
        world.start("server", publisher)
        world.start("client", subscriber)
        world.run_for(1_200_000_000)
        for pipe in list(world.network.pipes):
            world.network.tear(pipe, "cut")
        world.run(limit_s=60)
    assert got == [str(number) for number in range(10)]


def test_who_waits_for_ever_is_told() -> None:
    def lonely() -> None:
        with elea.open({"mode": "peer"}) as session:
            session.declare_subscriber("a").recv()

    with World(1) as world:
        world.start("lonely", lonely)
        with pytest.raises(DeadlockError, match=r"lonely: no end within 50 s"):
            world.run(limit_s=50)


def test_what_a_program_raises_is_raised_by_run() -> None:
    def fails() -> None:
        elea.open({"mode": "client", "connect": {"endpoints": ["tcp/nobody:1"]}})

    with World(1) as world:
        world.start("fails", fails)
        with pytest.raises(LinkError, match="cannot connect"):
            world.run(limit_s=50)


def test_one_thread_may_be_several_processes() -> None:
    world = World(1)
    with world.process("server"):
        server = elea.open(PEER)
    with world.process("client"):
        client = elea.open(CLIENT)
    subscriber = server.declare_subscriber("a")
    client.put("a", "hello")
    assert subscriber.recv(timeout=1).payload == "hello"
    client.close()
    server.close()
    assert world.nodes == {}
    with pytest.raises(TypeError):
        elea.open(3)  # type: ignore[arg-type]  # that is what is tested


def test_what_a_link_lost_is_counted() -> None:
    udp = "udp/server:7447"
    world = World(1)
    with world.process("server"):
        server = elea.open({"mode": "peer", "listen": {"endpoints": [udp]}})
    with world.process("client"):
        client = elea.open({"mode": "client", "connect": {"endpoints": [udp]}})
    samples = server.declare_subscriber("a")
    world.sleep(1)
    world.network.faults = Faults(loss=0.3)
    for _ in range(100):
        client.put("a", "x")
    world.network.faults = CALM
    world.sleep(1)
    client.put("a", "last")
    world.sleep(1)
    received = len(samples.drain())
    assert 1 < received < 101
    [stats] = server.info.stats().values()
    assert stats["missed_numbers"] == 101 - received
    client.close()
    server.close()
    assert server.info.stats() == {}


def test_a_forgotten_session_leaves_the_world() -> None:
    world = World(1)

    def forget(cycle: bool) -> None:
        with world.process("one"):
            session = elea.open({"mode": "peer"})
        if cycle:
            holder: list[object] = [session]
            holder.append(holder)

    for cycle in (False, True):
        forget(cycle)
        gc.collect()
        world.run_for(10**9)
        world.run_for(10 * 10**9)
        assert not world.nodes or not world.nodes["one"].node.neighbours()
    assert not [one for one in threading.enumerate() if one.name.startswith("elea-sim")]


def test_a_program_does_not_drive_its_world() -> None:
    with World(1) as world:

        def driver() -> None:
            world.run_for(1)

        world.start("driver", driver)
        with pytest.raises(RuntimeError, match="does not drive its world"):
            world.run()


@pytest.mark.parametrize("main", [lambda: None, serve])
def test_a_world_that_is_closed_leaves_no_thread(main: Callable[[], None]) -> None:
    with World(1) as world:
        world.start("one", main)
        world.run_for(5 * 10**9)
    assert not [one for one in threading.enumerate() if one.name.startswith("elea-sim")]


@pytest.mark.parametrize("seed", range(5))
def test_programs_live_with_faults(seed: int) -> None:
    seen: list[str] = []
    chat(seen, seed, rough=True)
    assert [seen[0], seen[-1]] == ["one", "end"]
