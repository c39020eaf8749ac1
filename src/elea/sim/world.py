"""World(seed): nodes, their links and the time, in one process and by one seed.

The nodes are the ones that run in production; only their driver differs. Everything that the world
decides, it draws from the seed, and the order of events follows from the time and from the order in
which they were asked for: two runs of one seed give one trace.
"""

from __future__ import annotations

import heapq
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


def seconds(value: float) -> int:
    """Seconds as nanoseconds."""
    return int(value * SECOND_NS)


class World:
    """A simulated network of nodes."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(seed)  # noqa: S311 - a simulation must be repeatable
        self.trace = Trace()
        self.network = Network(self, Random(self.rng.getrandbits(64)))  # noqa: S311 - as above
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

    def crash(self, name: str) -> None:
        """A node is gone from one event to the next; its links break after a while."""
        driver = self.nodes.pop(name)
        driver.crash()

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
        self.node = Node(settings, rng=world.rng.randbytes, limits=limits)
        self.on_turn: list[Callable[[], None]] = []  # sessions deliver what is due
        self.stalled = False  # nothing can be written: the other ends do not read
        self._pipes: dict[int, tuple[Pipe, End]] = {}
        self._last_link_id = 0
        self._timer_ns: int | None = None
        self._alive = True

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
        if not self._alive:
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

    def crash(self) -> None:
        """Be gone. The other ends learn it when their links break."""
        self._alive = False
        for pipe, end in list(self._pipes.values()):
            end.open = False
            self.world.network.reset(pipe, "the peer crashed")

    def close(self) -> None:
        """End the node in order."""
        self.node.close(self.world.now_ns)
        self.flush()

    def _apply(self, effect: object) -> None:
        match effect:
            case Connect():
                self._connect(effect)
            case CloseLink():
                self._close_link(effect.link_id, effect.reason)
            case NeighbourUp() | NeighbourDown():
                kind = "up" if isinstance(effect, NeighbourUp) else "down"
                self._note(f"neighbour {effect.zid.hex()} {kind}")
            case _:
                self._note(str(effect))

    def _connect(self, effect: Connect) -> None:
        endpoint = effect.endpoints[0]
        self.world.after(
            self.world.network.delay_ns(), lambda: self._dial(effect.connector_id, endpoint)
        )

    def _dial(self, connector_id: int, endpoint: Endpoint) -> None:
        if not self._alive:
            return
        target = next((one for one in self.world.nodes.values() if one.listens_on(endpoint)), None)
        network = self.world.network
        if target is None or not network.reachable(self.name, target.name) or network.refuses():
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
        if self._alive:
            self._note(f"link {link_id} data {len(data)} {data[:32].hex()}")
            self.node.link_data(link_id, data, self.world.now_ns)
            self.flush()

    def _on_closed(self, link_id: int, reason: str) -> None:
        self._pipes.pop(link_id, None)
        if self._alive:
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
        self.world.at(due_ns, self._tick)

    def _tick(self) -> None:
        self._timer_ns = None
        if self._alive:
            self.node.handle_timer(self.world.now_ns)
            self.flush()

    def _note(self, line: str) -> None:
        self.world.trace.add(self.world.now_ns, f"{self.name} {line}")
