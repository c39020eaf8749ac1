"""One seed, from its plan to its verdict; and many of them.

safety phase     sessions work, and whatever the plan allows is done to the world
liveness phase   nothing more is done to it; within `CONVERGENCE_NS` all must be well
probes           every session publishes and asks once more; exactly the right ones hear it
end              all leave, all close, nothing is left
"""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from elea.choices import SIM_ROUTERS
from elea.node.node import Node
from elea.routing.stats import Drop
from elea.routing.tables import Kind
from elea.sim.campaign.checkers import (
    ALWAYS,
    AT_REST,
    SETTLING_NS,
    at_most_once,
    no_false_ends,
    no_missed_ends,
    nothing_is_lost,
    order_is_kept,
)
from elea.sim.campaign.convergence import (
    Graph,
    all_are_connected,
    all_is_forgotten,
    expected_at,
    neighbours_agree,
    no_number_is_missing,
    nothing_is_under_way,
    routers_agree,
    sessions_know_the_truth,
    tables_equal_fresh_ones,
)
from elea.sim.campaign.faults import Storm
from elea.sim.campaign.history import Delivered, History, Requested
from elea.sim.campaign.plan import Options, Plan, draw
from elea.sim.campaign.workload import KEYS, Workload
from elea.sim.trace import Trace
from elea.sim.world import World, seconds, seeded

# The longest lease, and a handshake that ran into it, and the pauses of those who try again.
CONVERGENCE_NS: Final = seconds(40)
_LOOK_NS: Final = seconds(0.5)
_PROBE_NS: Final = seconds(2)
_END_NS: Final = seconds(4)
_TARGET_ALL: Final = 1
_VIOLATIONS_MAX: Final = 5  # of one law; the first is enough to begin with

# What a campaign with faults must have come across.
SOMETIMES: Final = (
    "a blocking message found no room",
    "a datagram was old or came twice",
    "a droppable message was dropped",
    "a query timed out",
    "a reader that does not read",
    "a sequence number was missing",
    "a source was not read",
    "a stranger knocked",
    "closed as unresponsive",
    "garbage in a stream",
    "half-open",
    "lease expired",
    "neighbour lost",
    "node crashed",
    "partition healed",
    "reconnected",
    "two links in one transport",
    "unfinished fragments were dropped",
)


@dataclass(slots=True)
class Result:
    """What became of a seed."""

    plan: Plan
    violations: list[str]
    digest: str
    events_count: int
    virtual_ns: int
    reached: Counter[str] = field(default_factory=Counter)


def run(
    seed: int,
    options: Options | None = None,
    *,
    node_type: type[Node] = Node,
    trace: Trace | None = None,
) -> Result:
    """Run one seed."""
    campaign = Campaign(seed, options or Options(), node_type, trace)
    try:
        campaign.run()
    except Exception:  # whatever a node raises is a violation, and must name its seed
        campaign.violations.append(traceback.format_exc())
    world = campaign.world
    return Result(
        campaign.plan,
        campaign.violations,
        world.trace.digest,
        world.trace.count,
        world.now_ns,
        world.reached,
    )


class Campaign:
    """The world of a seed, and all that happens in it."""

    def __init__(
        self, seed: int, options: Options, node_type: type[Node], trace: Trace | None
    ) -> None:
        self.violations: list[str] = []
        self.world = World(seed, node_type=node_type, trace=trace)
        rng = seeded(seed ^ 0x5EED)
        self.plan = draw(seed, options, rng)
        self.history = History(lambda: self.world.now_ns, self.world.trace)
        self.workload = Workload(self.world, self.plan, seeded(rng.getrandbits(64)), self.history)
        self.storm = Storm(
            self.world, self.plan, seeded(rng.getrandbits(64)), self.history, self.workload
        )

    def run(self) -> None:
        """All phases."""
        world = self.world
        for one in self.plan.nodes:
            world.add(one.name, one.settings, limits=one.limits)
            self.workload.populate(one.name)
        until_ns = world.now_ns + seconds(self.plan.seconds)
        self.workload.start(until_ns)
        self.storm.start()
        while world.now_ns < until_ns:
            world.run_for(min(_LOOK_NS, until_ns - world.now_ns))
            self._look()
        self.storm.end()
        self.workload.calm = True
        if self._converge():
            self._probe()
        reaches = Graph(world).reaches
        events = self.history.events
        for law in AT_REST:  # before all leave, which ends everything
            self._judge(law.__name__, law(events))
        self._leave()
        # While trees change, a sample may go the old way and the new one, or come late: as in
        # Eclipse Zenoh, routers take what comes rather than lose it.
        regrowing = self.plan.shape == SIM_ROUTERS and self.plan.faults == "rough"
        for law in ALWAYS:
            if regrowing and law in (order_is_kept, at_most_once):
                continue
            self._judge(law.__name__, law(events))
        # Stalls and slow links without loss delay declarations, at most by the lease.
        settling_ns = SETTLING_NS if self.plan.faults == "none" else SETTLING_NS * 4
        if self.plan.faults != "rough" and self.plan.scheme != "udp":
            self._judge("nothing_is_lost", nothing_is_lost(events, reaches, settling_ns))
        self._judge("no_false_ends", no_false_ends(events, reaches))
        self._judge("no_missed_ends", no_missed_ends(events, reaches))

    def _judge(self, law: str, broken: list[str]) -> bool:
        self.violations += [f"{law}: {one}" for one in broken[:_VIOLATIONS_MAX]]
        return not broken

    def _converge(self) -> bool:
        """Wait until all links are there and all is quiet, then compare everything."""
        world = self.world
        end_ns = world.now_ns + CONVERGENCE_NS
        while world.now_ns < end_ns:
            world.run_for(_LOOK_NS)
            if not all_are_connected(world) and not nothing_is_under_way(world):
                break
        world.run_for(_LOOK_NS)
        self._look()
        fine = self._judge("all_are_connected", all_are_connected(world))
        fine = self._judge("nothing_is_under_way", nothing_is_under_way(world)) and fine
        fine = self._judge("neighbours_agree", neighbours_agree(world)) and fine
        fine = self._judge("tables_equal_fresh_ones", tables_equal_fresh_ones(world)) and fine
        fine = self._judge("routers_agree", routers_agree(world)) and fine
        truth = sessions_know_the_truth(world, self.workload.present())
        return self._judge("sessions_know_the_truth", truth) and fine

    def _probe(self) -> None:
        """Every session publishes on every key, and asks everybody once."""
        world = self.world
        graph = Graph(world)
        actors = self.workload.present()
        start = len(self.history.events)
        for actor in actors:
            for key in KEYS:
                actor.put(key, blocking=True, reliable=True)
            actor.ask(KEYS[actor.number % len(KEYS)], target=_TARGET_ALL, timeout_ms=1_500)
        world.run_for(_PROBE_NS)
        heard: dict[tuple[int, str], set[int]] = {}
        for _, event in self.history.events[start:]:
            if isinstance(event, Delivered):
                heard.setdefault((event.source, event.key), set()).add(event.session)
            elif isinstance(event, Requested):
                heard.setdefault((event.source, "?"), set()).add(event.session)
        broken = []
        for actor in actors:
            for key in KEYS:
                due = expected_at(actors, graph, actor, Kind.SUBSCRIBER, key)
                if heard.get((actor.number, key), set()) != due:
                    got = heard.get((actor.number, key))
                    broken.append(f"{key} of session {actor.number} came to {got}, not {due}")
            key = KEYS[actor.number % len(KEYS)]
            due = expected_at(actors, graph, actor, Kind.QUERYABLE, key)
            if heard.get((actor.number, "?"), set()) != due:
                got = heard.get((actor.number, "?"))
                broken.append(f"query {key} of session {actor.number} came to {got}, not {due}")
        self._judge("probes_arrive", broken)

    def _leave(self) -> None:
        """Everything ends."""
        world = self.world
        for actor in self.workload.present():
            actor.detach()
        for driver in list(world.nodes.values()):
            driver.close()
        world.run_for(_END_NS)
        self._judge("all_is_forgotten", all_is_forgotten(world))

    def _look(self) -> None:
        """Notice what nobody reports."""
        reached = self.world.reached
        if not reached["garbage in a stream"]:  # which may look like a FRAME with any number
            self._judge("no_number_is_missing", no_number_is_missing(self.world))
        for driver in self.world.nodes.values():
            node = driver.node
            if node.routing.stats.drops[Drop.QUERY_TIMEOUT]:
                reached["a query timed out"] += 1
            if any(len(view.links) > 1 for view in node.views()):
                reached["two links in one transport"] += 1
            for stats in node.transport_stats().values():
                if stats.stale_frames:
                    reached["a datagram was old or came twice"] += 1
                if stats.missed_numbers:
                    reached["a sequence number was missing"] += 1
                if stats.lost_fragments:
                    reached["unfinished fragments were dropped"] += 1
                if any(stats.dropped_congestion):
                    reached["a droppable message was dropped"] += 1
