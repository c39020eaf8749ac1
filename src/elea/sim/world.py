"""World(seed): nodes, their links and the time, in one process and by one seed.

The nodes are the ones that run in production; only their driver differs. Everything that the world
decides, it draws from the seed, and the order of events follows from the time and from the order in
which they were asked for: two runs of one seed give one trace.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import Final

from elea.limits import DEFAULT_LIMITS, Limits
from elea.locator import Endpoint
from elea.node.node import Node
from elea.node.ports import CloseLink, Connect, NeighbourDown, NeighbourUp
from elea.node.settings import NodeSettings
from elea.sim.network import End, Network, Pipe, link_info
from elea.sim.trace import Trace

SECOND_NS: Final = 1_000_000_000
EPOCH_NS: Final = 1_700_000_000 * SECOND_NS  # the wall clock of a world that starts


def seeded(seed: int) -> Random:
    """A source of choices that are the same in every run."""
    return Random(seed)


def seconds(value: float) -> int:
    """Seconds as nanoseconds."""
    return int(value * SECOND_NS)


class World:
    """A simulated network of nodes.

    Args:
        seed: Decides everything.
        node_type: The nodes of this world; a variant with a planted bug shows that a law is kept.
        trace: Where events are written.
    """

    def __init__(
        self, seed: int, *, node_type: type[Node] = Node, trace: Trace | None = None
    ) -> None:
        self.seed = seed
        self.rng = seeded(seed)
        self.trace = trace or Trace()
        self.node_type = node_type
        self.reached: Counter[str] = Counter()
        self.network = Network(self, seeded(self.rng.getrandbits(64)))
        self.nodes: dict[str, SimDriver] = {}
        self._now_ns = SECOND_NS
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0

    @property
    def now_ns(self) -> int:
        """The virtual monotonic time."""
        return self._now_ns

    def at(self, time_ns: int, call: Callable[[], None]) -> None:
        """Run something at a time."""
        self._order += 1
        heapq.heappush(self._heap, (max(time_ns, self._now_ns), self._order, call))

    def after(self, delay_ns: int, call: Callable[[], None]) -> None:
        """Run something later."""
        self.at(self._now_ns + delay_ns, call)

    def add(
        self, name: str, settings: NodeSettings, *, limits: Limits = DEFAULT_LIMITS
    ) -> SimDriver:
        """A node joins the world and starts."""
        driver = SimDriver(self, name, settings, limits)
        self.nodes[name] = driver
        driver.start()
        return driver

    def sometimes(self, name: str) -> None:
        """Count that a rare thing happened, so that a campaign can tell that it was tried."""
        self.reached[name] += 1

    def crash(self, name: str, *, silent: bool = False) -> None:
        """A node is gone from one event to the next, and its sessions with it.

        Its streams break after a while; not if it is `silent`, as when the power fails.
        """
        self.nodes.pop(name).crash(silent=silent)

    def step(self) -> bool:
        """Run the next event; False if there is none."""
        if not self._heap:
            return False
        self._now_ns, _, call = heapq.heappop(self._heap)
        call()
        return True

    def run_for(self, duration_ns: int) -> None:
        """Run all events of a stretch of time."""
        end_ns = self._now_ns + duration_ns
        while self._heap and self._heap[0][0] <= end_ns:
            self.step()
        self._now_ns = end_ns

    def run_until(self, condition: Callable[[], object], *, limit_ns: int) -> bool:
        """Run until something holds; False if it does not within the limit."""
        end_ns = self._now_ns + limit_ns
        while not condition():
            if not self._heap or self._heap[0][0] > end_ns:
                self._now_ns = end_ns
                return bool(condition())
            self.step()
        return True


class SimDriver:
    """Drives one node of a world. For a session it is what `elea.link.driver.Driver` is outside."""

    def __init__(self, world: World, name: str, settings: NodeSettings, limits: Limits) -> None:
        self.world = world
        self.name = name
        self.lock: AbstractContextManager[object] = nullcontext()
        self.node = world.node_type(settings, rng=world.rng.randbytes, limits=limits)
        self.on_turn: list[Callable[[], None]] = []  # sessions deliver what is due
        self.stalled = False  # nothing can be written: the other ends do not read
        self.alive = True
        self._pipes: dict[int, tuple[Pipe, End]] = {}
        self._last_link_id = 0
        self._timer_ns: int | None = None
        self._paused: list[Callable[[], None]] | None = None  # what happened meanwhile
        self._met: set[bytes] = set()

    def now_ns(self) -> int:
        """The virtual monotonic time."""
        return self.world.now_ns

    def wall_ns(self) -> int:
        """The virtual wall clock."""
        return EPOCH_NS + self.world.now_ns

    def start(self) -> None:
        """Begin to connect."""
        self.node.start(self.world.now_ns)
        self.flush()

    def flush(self) -> None:
        """Do what the node asks for, until it asks for nothing."""
        if not self.alive:
            return
        while True:
            effects = self.node.effects()
            dirty = self.node.dirty_links()
            for link_id in dirty:
                self._write(link_id)
            for effect in effects:
                self._apply(effect)
            if not effects and not dirty:
                break
        self._arm()
        for call in list(self.on_turn):
            call()

    def listens_on(self, endpoint: Endpoint) -> bool:
        """Whether this node accepts links at an address."""
        return any(
            one.protocol == endpoint.protocol and one.address == endpoint.address
            for group in self.node.settings.listen
            for one in group
        )

    def accept(self, scheme: str, remote: str, local: str) -> End:
        """A link comes in."""
        end = self._new_end()
        self.node.link_opened(end.link_id, link_info(scheme, local, remote), self.world.now_ns)
        return end

    def adopt(self, pipe: Pipe, end: End) -> None:
        """The link of an end is there."""
        self._pipes[end.link_id] = (pipe, end)

    def crash(self, *, silent: bool = False) -> None:
        """Be gone. Those at the other ends of streams learn it, unless it was silent."""
        self.alive = False
        self._note("crashed")
        network = self.world.network
        for pipe, end in list(self._pipes.values()):
            if silent:
                network.kill(pipe)
            network.close(pipe, end)
        self._pipes.clear()

    def close(self) -> None:
        """End the node in order."""
        self.node.close(self.world.now_ns)
        self.flush()

    def unstall(self) -> None:
        """The other ends read again."""
        if not self._when_running(self.unstall):
            return
        self.stalled = False
        for link_id in list(self._pipes):
            self._write(link_id)
        self.flush()

    def pause(self, duration_ns: int) -> None:
        """The process stands still: nothing is read, no timer fires, what arrives waits."""
        if self._paused is None:
            self._paused = []
            self._note("paused")
            self.world.after(duration_ns, self._resume)

    @property
    def running(self) -> bool:
        """Whether the process is there and not paused."""
        return self.alive and self._paused is None

    @property
    def links_count(self) -> int:
        """How many links there are, as the network sees it."""
        return len(self._pipes)

    def _resume(self) -> None:
        waiting, self._paused = self._paused or [], None
        for call in waiting:
            call()

    def _when_running(self, call: Callable[[], None]) -> bool:
        """True if the node can act now; otherwise `call` is made when it can again."""
        if self._paused is not None:
            self._paused.append(call)
            return False
        return self.alive

    def _apply(self, effect: object) -> None:
        match effect:
            case Connect():
                self._connect(effect)
            case CloseLink():
                self._close_link(effect.link_id, effect.reason)
            case NeighbourUp():
                self._note(f"neighbour {effect.zid.hex()} up")
                if effect.zid in self._met:
                    self.world.sometimes("reconnected")
                self._met.add(effect.zid)
            case NeighbourDown():
                self._note(f"neighbour {effect.zid.hex()} down: {effect.reason}")
                self.world.sometimes("neighbour lost")
                if "lease" in effect.reason:
                    self.world.sometimes("lease expired")
                elif "unresponsive" in effect.reason:
                    self.world.sometimes("closed as unresponsive")
            case _:
                self._note(str(effect))

    def _connect(self, effect: Connect) -> None:
        endpoint = effect.endpoints[0]
        self.world.after(
            self.world.network.delay_ns(), lambda: self._dial(effect.connector_id, endpoint)
        )

    def _dial(self, connector_id: int, endpoint: Endpoint) -> None:
        if not self._when_running(lambda: self._dial(connector_id, endpoint)):
            return
        target = next((one for one in self.world.nodes.values() if one.listens_on(endpoint)), None)
        network = self.world.network
        if (
            target is None
            or not target.running
            or not network.reachable(self.name, target.name)
            or network.refuses()
        ):
            self.node.connect_failed(connector_id, f"{endpoint} refused", self.world.now_ns)
            self.flush()
            return
        scheme = endpoint.protocol
        near = self._new_end()
        local = f"{self.name}:{near.link_id}"
        far = target.accept(scheme, local, endpoint.address)
        pipe = network.join(near, far, stream=scheme != "udp")
        self.adopt(pipe, near)
        target.adopt(pipe, far)
        self.node.link_opened(
            near.link_id,
            link_info(scheme, local, endpoint.address),
            self.world.now_ns,
            connector_id=connector_id,
            opened=True,
        )
        self._note(f"link {near.link_id} to {target.name} {far.link_id}")
        self.flush()
        target.flush()

    def _new_end(self) -> End:
        self._last_link_id += 1
        return End(self.name, self._last_link_id, self._on_data, self._on_closed)

    def _on_data(self, link_id: int, data: bytes) -> None:
        if self._when_running(lambda: self._on_data(link_id, data)):
            self._note(f"link {link_id} data {len(data)} {data[:32].hex()}")
            self.node.link_data(link_id, data, self.world.now_ns)
            self.flush()

    def _on_closed(self, link_id: int, reason: str) -> None:
        if not self._when_running(lambda: self._on_closed(link_id, reason)):
            return
        self._pipes.pop(link_id, None)
        self._note(f"link {link_id} closed: {reason}")
        self.node.link_closed(link_id, reason, self.world.now_ns)
        self.flush()

    def _write(self, link_id: int) -> None:
        held = self._pipes.get(link_id)
        while not self.stalled:
            data = self.node.pull(link_id, self.world.now_ns)
            if data is None:
                return
            if held is not None:
                self.world.network.write(held[0], held[1], data)

    def _close_link(self, link_id: int, reason: str) -> None:
        self._write(link_id)
        held = self._pipes.pop(link_id, None)
        if held is not None:
            self.world.network.close(*held)
        self._note(f"link {link_id} closed here: {reason}")
        self.node.link_closed(link_id, reason, self.world.now_ns)

    def _arm(self) -> None:
        due_ns = self.node.next_timer_ns()
        if due_ns is None or (self._timer_ns is not None and self._timer_ns <= due_ns):
            return
        self._timer_ns = due_ns
        self.world.at(due_ns, lambda: self._tick(due_ns))

    def _tick(self, due_ns: int) -> None:
        # A tick that an earlier one replaced means nothing any more.
        if due_ns == self._timer_ns and self._when_running(lambda: self._tick(due_ns)):
            self._timer_ns = None
            self.node.handle_timer(self.world.now_ns)
            self.flush()

    def _note(self, line: str) -> None:
        self.world.trace.add(self.world.now_ns, f"{self.name} {line}")
