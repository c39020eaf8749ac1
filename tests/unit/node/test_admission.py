"""Who becomes a neighbour: duplicate identifiers, wrong passwords, certificates that end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.node.worlds import Session, settings

from elea.limits import Limits
from elea.node.expiry import SECOND_NS, Expiries
from elea.node.logins import Logins, source_of
from elea.node.ports import LinkInfo, NeighbourDown, NeighbourUp
from elea.node.stats import Refusal
from elea.secret import Secret
from elea.sim import driver as sim_driver
from elea.sim.driver import EPOCH_NS, SimDriver
from elea.sim.network import link_info
from elea.sim.world import World, seconds

ROUTER_KNOWS = {b"ann": Secret("right"), b"bob": Secret("right too")}


def listening(world: World, **more: object) -> Session:
    here = settings(1, listen="tcp/hub:1", **more)  # type: ignore[arg-type]  # its names
    return Session(world.add("hub", here))


def dialling(world: World, name: str, zid: int = 2, **more: object) -> Session:
    there = settings(zid, connect=("tcp/hub:1",), **more)  # type: ignore[arg-type]  # as above
    return Session(world.add(name, there))


def certified(monkeypatch: pytest.MonkeyPatch, names: dict[str, str], **more: int) -> None:
    """Links of this world tell what a verified certificate would: a common name by host."""

    def info(scheme: str, local: str, remote: str) -> LinkInfo:
        name = names.get(remote.partition(":")[0])
        found = link_info(scheme, local, remote)
        return replace(found, peer_common_name=name, expires_s=more.get("expires_s"))

    monkeypatch.setattr(sim_driver, "link_info", info)


def refused(node: SimDriver | Session) -> dict[str, int]:
    return (node.driver if isinstance(node, Session) else node).node.stats.refused()


class TestOneIdentifierTwice:
    """T13: an identifier proves nothing."""

    def test_the_owner_is_back_before_its_lease_is_over(self) -> None:
        world = World(1)
        hub = listening(world)
        dialling(world, "robot")
        world.run_for(seconds(3))
        world.crash("robot", silent=True)  # the hub sees a link that is open
        back_ns = world.now_ns
        again = dialling(world, "robot")
        world.run_until(lambda: bool(again.neighbours), limit_ns=seconds(20))
        assert isinstance(again.neighbours[0], NeighbourUp)
        assert world.now_ns - back_ns < seconds(10)  # the lease
        assert refused(hub)["replaced"] == 1
        again.subscribe("a")
        world.run_for(seconds(1))
        hub.put("a", b"1")
        world.run_for(seconds(1))
        assert again.samples == [("a", b"1")]

    def test_a_neighbour_that_is_alive_keeps_its_place(self) -> None:
        world = World(1)
        hub = listening(world)
        owner = dialling(world, "robot")
        world.run_for(seconds(3))
        world.nodes["elsewhere"] = world.nodes.pop("robot")
        twin = dialling(world, "robot")
        world.run_for(seconds(30))
        assert twin.neighbours == []
        assert [type(one) for one in owner.neighbours] == [NeighbourUp]
        assert refused(hub).keys() == {"duplicate"}

    def test_a_stranger_does_not_get_it_even_when_it_is_silent(self) -> None:
        world = World(1)
        hub = listening(world)
        dialling(world, "robot")
        world.run_for(seconds(3))
        world.crash("robot", silent=True)
        world.run_for(seconds(3))
        stranger = dialling(world, "thief", retry=replace(settings(3).retry, factor=1.0))
        world.run_for(seconds(6))  # the owner's lease is not over
        assert stranger.neighbours == []
        assert refused(hub).keys() == {"stranger"}

    def test_another_user_is_a_stranger_and_the_same_one_is_not(self) -> None:
        world = World(1)
        hub = listening(world, accounts=ROUTER_KNOWS)
        dialling(world, "robot", user="ann", password=Secret("right"))
        world.run_for(seconds(3))
        world.crash("robot", silent=True)
        world.run_for(seconds(3))
        thief = dialling(world, "robot", user="bob", password=Secret("right too"))
        world.run_for(seconds(2))
        assert thief.neighbours == []
        owner = dialling(world, "another-host", user="ann", password=Secret("right"))
        world.run_for(seconds(2))
        assert [type(one) for one in owner.neighbours] == [NeighbourUp]
        assert refused(hub)["stranger"] >= 1
        assert refused(hub)["replaced"] == 1

    def test_another_certificate_is_a_stranger(self, monkeypatch: pytest.MonkeyPatch) -> None:
        certified(monkeypatch, {"robot": "robot-7", "thief": "robot-8"})
        world = World(1)
        hub = listening(world)
        dialling(world, "robot")
        world.run_for(seconds(3))
        world.crash("robot", silent=True)
        world.run_for(seconds(3))
        thief = dialling(world, "thief")
        world.run_for(seconds(3))
        assert thief.neighbours == []
        assert refused(hub).keys() == {"stranger"}


class TestWrongPasswords:
    def test_an_address_that_guesses_has_to_wait_and_others_do_not(self) -> None:
        world = World(1)
        hub = Session(
            world.add(
                "hub",
                settings(1, listen="tcp/hub:1", accounts=ROUTER_KNOWS),
                limits=Limits(login_failures_count=3, login_failure_ns=seconds(1_000)),
            )
        )
        quick = replace(settings(3).retry, factor=1.0, max_ns=seconds(1))
        guess = dialling(world, "thief", user="ann", password=Secret("wrong"), retry=quick)
        world.run_for(seconds(30))
        assert guess.neighbours == []
        assert refused(hub)["login"] == 3
        assert refused(hub)["login_rate"] > 3
        # Even with the right one: whether it is, is not looked at.
        late = dialling(world, "thief", 3, user="ann", password=Secret("right"), retry=quick)
        world.run_for(seconds(5))
        assert late.neighbours == []
        fine = dialling(world, "robot", 4, user="ann", password=Secret("right"))
        world.run_for(seconds(5))
        assert [type(one) for one in fine.neighbours] == [NeighbourUp]

    def test_who_had_to_wait_was_told_of_another_scheme_and_no_audit_told(self) -> None:
        """The link was closed without a word: that is what a peer without TLS does, too."""
        world = World(1)
        limits = Limits(login_failures_count=2, login_failure_ns=seconds(1_000))
        hub = world.add(
            "hub", settings(1, listen="tcp/hub:1", accounts=ROUTER_KNOWS), limits=limits
        )
        audit: list[object] = []
        hub.node.guards.report = audit.append
        quick = replace(settings(3).retry, factor=1.0, max_ns=seconds(1))
        dialling(world, "robot", user="ann", password=Secret("wrong"), retry=quick)
        world.run_for(seconds(10))
        assert refused(hub)["login_rate"] > 1
        (why,) = world.nodes["robot"]._failures.values()
        assert "user and password missing or wrong" in why
        assert "too many wrong passwords came from that address" in str(audit[-1])

    def test_an_unknown_user_and_a_wrong_password_are_told_the_same(self) -> None:
        reasons = []
        for user in ("ann", "nobody"):
            world = World(1)
            hub = listening(world, accounts=ROUTER_KNOWS)
            dialling(world, "robot", user=user, password=Secret("wrong"))
            world.run_for(seconds(1.5))
            reasons.append((refused(hub), list(world.nodes["robot"]._failures.values())))
        assert reasons[0] == reasons[1]
        told, [why] = reasons[0]
        assert told == {"login": 2}
        assert "user and password missing or wrong" in why
        assert why.endswith("the router's audit tells")

    def test_failures_are_forgiven_one_by_one(self) -> None:
        logins = Logins(Limits(login_failures_count=2, login_failure_ns=10))
        for _ in range(5):
            logins.failed("a", 0)
        assert [logins.may_try("a", now_ns) for now_ns in (0, 39, 40)] == [False, False, True]

    def test_the_addresses_that_are_remembered_are_bounded(self) -> None:
        logins = Logins(Limits(login_failures_count=1, login_sources_count=2))
        for source in "abc":
            logins.failed(source, 0)
        assert [logins.may_try(source, 0) for source in "abc"] == [True, False, False]

    def test_a_path_counts_as_one_address(self) -> None:
        info = link_info("unixsock-stream", "/run/a", "/run/b")
        assert source_of(info.remote) == "unixsock-stream"


class TestCertificatesThatEnd:
    def test_the_link_ends_when_its_certificate_does(self, monkeypatch: pytest.MonkeyPatch) -> None:
        end_s = (EPOCH_NS + seconds(100)) // SECOND_NS
        certified(monkeypatch, {"robot": "robot-7"}, expires_s=end_s)
        world = World(1)
        hub = listening(world)
        robot = dialling(world, "robot")
        world.run_for(seconds(90))
        assert [type(one) for one in hub.neighbours] == [NeighbourUp]
        world.run_for(seconds(9.5))
        [_, down, *_] = hub.neighbours
        assert isinstance(down, NeighbourDown)
        assert "certificate" in down.reason
        assert refused(hub)["expired"] + refused(robot).get("expired", 0) >= 1

    def test_a_clock_that_was_set_is_noticed(self) -> None:
        links = Expiries()
        wall_s = 1_000
        links.tell_time(lambda: wall_s * SECOND_NS)
        links.watch(1, 1_000_000, 0)
        assert links.next_timer_ns() == 600 * SECOND_NS
        wall_s = 999_999
        assert links.take(600 * SECOND_NS) == []
        assert links.next_timer_ns() == 601 * SECOND_NS
        wall_s = 1_000_000
        assert links.take(601 * SECOND_NS) == [1]
        assert not links

    def test_a_link_that_is_gone_is_forgotten(self) -> None:
        links = Expiries()
        links.tell_time(lambda: 0)
        links.watch(1, 5, 0)
        links.watch(2, None, 0)
        links.forget(1)
        assert links.next_timer_ns() is None


def test_every_refusal_has_its_counter() -> None:
    assert {reason.value for reason in Refusal} >= {"login", "stranger", "expired", "handshake"}
