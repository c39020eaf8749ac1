"""SimDriver: drives one node of a world. For a session it is what `elea.link.driver.Driver` is
outside, with one difference: whoever waits lets the world go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final

from elea.errors import LinkError
from elea.limits import Limits
from elea.locator import Endpoint
from elea.node.neighbour import ConnectionState
from elea.node.ports import (
    CallbackThread,
    CloseLink,
    Connect,
    ConnectFailed,
    HoldReading,
    NeighbourDown,
    NeighbourUp,
)
from elea.node.settings import NodeSettings
from elea.routing.refusals import Refused
from elea.sim import current
from elea.sim.network import End, Pipe, link_info

if TYPE_CHECKING:
    from elea.sim.world import World

SECOND_NS: Final = 1_000_000_000
EPOCH_NS: Final = 1_700_000_000 * SECOND_NS  # the wall clock of a world that starts
# Hosts of listeners that every name leads to; nothing is bound here.
_ANYWHERE: Final = ("0.0.0.0", "[::]", "*", "")  # noqa: S104


class SimLock:
    """The lock of a node where one thread runs at a time: it only knows whether it is held."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it, if it is free; nobody would ever release it for us if it is not."""
        if self.held:
            if blocking:
                raise RuntimeError("the node's lock is held by who asks for it")
            return False
        self.held = True
        return True

    def release(self) -> None:
        """Give it back."""
        self.held = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.held = False


class SimDriver:
    """Drives one node of a world: `elea.session.ports.DriverPort`.

    Args:
        world: Where it lives.
        name: Its name there, which is its host name too.
        settings: Of the node.
        limits: The node's bounds.
    """

    callback_thread = CallbackThread.WORLD

    def __init__(self, world: World, name: str, settings: NodeSettings, limits: Limits) -> None:
        self.world = world
        self.name = name
        self.lock = SimLock()
        settings = replace(settings, listen=tuple(map(self._bound, settings.listen)))
        self.node = world.node_type(settings, rng=world.rng.randbytes, limits=limits)
        self.node.tell_time(self.wall_ns)
        self.place: current.Place | None = None  # the program it belongs to
        # Where functions of the user run; None: wherever the world is.
        self.post: Callable[[Callable[[], None]], object] | None = None
        self.is_shared = False  # what one of its sessions does may be for another of them
        self._turn_asked = False
        self.stalled = False  # nothing can be written: the other ends do not read
        self.alive = True
        self._pipes: dict[int, tuple[Pipe, End]] = {}
        self._last_link_id = 0
        self._timer_ns: int | None = None
        self._paused: list[Callable[[], None]] | None = None  # what happened meanwhile
        self._met: set[bytes] = set()
        self._failures: dict[int, str] = {}  # by connector: why its last attempt failed
        self._holding = False  # sessions are behind
        self._attended = False  # a program has a session here
        self._held: set[int] = set()  # links whose messages have nowhere to go

    def now_ns(self) -> int:
        """The virtual monotonic time."""
        return self.world.now_ns

    def wall_ns(self) -> int:
        """The virtual wall clock."""
        return EPOCH_NS + self.world.now_ns

    # Life.

    def locators(self) -> tuple[str, ...]:
        """Where others can reach the node."""
        return tuple(str(one.locator()) for group in self.node.settings.listen for one in group)

    def refusals(self) -> tuple[Refused, ...]:
        """Return what neighbours told that their access rules refused."""
        return self.node.routing.refusals.known()

    def start(self) -> None:
        """Begin to connect."""
        self.node.start(self.world.now_ns)
        self.flush()

    def is_connected(self, deadline_ns: int) -> bool:
        """Whether `open` may return now. behaviour.md 1.11, 1.12.

        Raises:
            LinkError: if connecting is what was asked for and it failed.
        """
        settings = self.node.settings
        state = self.node.connection_state()
        if state is ConnectionState.CONNECTED:
            return True
        if state is ConnectionState.FAILED and settings.exit_on_failure:
            why = "; ".join(self._failures.values()) or "give connect/endpoints"
            raise LinkError(f"cannot connect: {why}")
        waits_for_ever = settings.exit_on_failure and settings.connect
        return not waits_for_ever and self.now_ns() >= deadline_ns

    def wait_connected(self) -> None:
        """Let the world go on until `open` may return; raises as `is_connected`."""
        deadline_ns = self.now_ns() + self.node.settings.scouting_delay_ns
        self.world.at(deadline_ns, lambda: None)
        self.world.wait(lambda: not self.alive or self.is_connected(deadline_ns), None)

    def crash(self, *, silent: bool = False) -> None:
        """Be gone. Those at the other ends of streams learn it, unless it was silent."""
        self._note("crashed")
        self._leave(silent=silent)

    def _leave(self, *, silent: bool = False) -> None:
        self.alive = False
        network = self.world.network
        for pipe, end in list(self._pipes.values()):
            if silent:
                network.kill(pipe)
            network.close(pipe, end)
        self._pipes.clear()

    def close(self, timeout_ns: int = 0) -> None:
        """End the node in order; wait so long for what is pending to be written."""
        if not self.alive:
            return
        self.begin_close()
        if timeout_ns:
            self.world.wait(lambda: not self._pipes, timeout_ns / SECOND_NS)
            self.end_close()

    def begin_close(self) -> None:
        """Say goodbye to every neighbour; links go when that is written."""
        self.node.close(self.world.now_ns)
        self.flush()

    def has_links(self) -> bool:
        """Whether a link is open still."""
        return bool(self._pipes)

    def end_close(self) -> None:
        """Close what is open still, and leave the world."""
        if self.alive:
            self._note("left")
            self._leave()
            self.world.nodes.pop(self.name, None)

    def abort(self) -> None:
        """A world does not survive a fork: the child has nothing to give up."""

    # Sessions.

    def flush(self) -> None:
        """Do what the node asks for, until it asks for nothing."""
        self._settle()
        if self.is_shared and not self._turn_asked:
            self._turn_asked = True
            self.world.at(self.world.now_ns, self._take_turn)

    def _settle(self) -> None:
        if not self.alive:
            return
        with self.lock:
            while True:
                effects = self.node.effects()
                dirty = self.node.dirty_links()
                for link_id in dirty:
                    self._write(link_id)
                for effect in effects:
                    self._apply(effect)
                if not effects and not dirty:
                    break
            self._arm(self.node.next_timer_ns())

    def wait_room(self, has_room: Callable[[], bool], deadline_ns: int) -> bool:
        """Let the world go on until there is room; False at the deadline."""
        left_s = max(deadline_ns - self.now_ns(), 0) / SECOND_NS
        return self.idle(lambda: not self.alive or has_room(), left_s)

    def idle(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Let the world go on until `ready`; False after `timeout` seconds of its time."""
        return self.world.wait(ready, timeout)

    def relieve(self) -> bool:
        """There is one thread only."""
        return False

    def write_at_once(self) -> None:
        """It does so anyway."""

    def hold_reading(self, held: bool) -> None:
        """Stop, or go on, reading from all links."""
        self._holding = held
        for link_id in list(self._pipes):
            self._hold(link_id)
        if not held:
            self._turn()

    # The world.

    def listens_on(self, endpoint: Endpoint) -> bool:
        """Whether this node accepts links at an address."""
        return any(
            one.protocol == endpoint.protocol and _leads_to(endpoint.address, one.address)
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

    def unstall(self) -> None:
        """The other ends read again."""
        if not self._when_running(self.unstall):
            return
        self.stalled = False
        for link_id in list(self._pipes):
            self._write(link_id)
        self._turn()

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

    def _bound(self, group: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """A port for listeners that leave the choice to the system."""
        return tuple(
            Endpoint.parse(f"{one.protocol}/{one.address[:-1]}{self.world.next_port()}")
            if one.address.endswith(":0")
            else one
            for one in group
        )

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

    def _turn(self) -> None:
        """Something happened: write, and let sessions deliver what is due."""
        self._settle()
        self._deliver()

    def _deliver(self) -> None:
        if not self.alive:
            return
        sessions = self.node.sessions()
        if self.place is None:
            for session in sessions:
                session.deliver()
        elif sessions:
            self._attended = True
            for session in sessions:
                if self.post is not None:
                    self.post(session.deliver)
                else:
                    with current.at(self.place):
                        session.deliver()
        elif self._attended:
            self._attended = False
            self.close()  # its session was forgotten, not closed

    def _take_turn(self) -> None:
        if self._when_running(self._take_turn):
            self._turn_asked = False
            self._deliver()

    def _apply(self, effect: object) -> None:
        match effect:
            case Connect():
                self._connect(effect)
            case ConnectFailed():
                self._failures[effect.connector_id] = effect.reason
                self._note(str(effect))
            case CloseLink():
                self._close_link(effect.link_id, effect.reason)
            case HoldReading():
                (self._held.add if effect.held else self._held.discard)(effect.link_id)
                self._hold(effect.link_id)
                if effect.held:
                    self.world.sometimes("a source was not read")
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
        self.world.after(
            self.world.network.delay_ns(), lambda: self._dial(effect.connector_id, effect.endpoints)
        )

    def _dial(self, connector_id: int, endpoints: tuple[Endpoint, ...]) -> None:
        """The first of the endpoints that somebody listens on; the others would do as well."""
        if not self._when_running(lambda: self._dial(connector_id, endpoints)):
            return
        network = self.world.network
        found = self.world.find(endpoints)
        if (
            found is None
            or not found[0].running
            or not network.reachable(self.name, found[0].name)
            or network.refuses()
        ):
            names = " ".join(map(str, endpoints))
            self.node.connect_failed(connector_id, f"{names} refused", self.world.now_ns)
            self._turn()
            return
        target, endpoint = found
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
        self._turn()
        target._turn()

    def _new_end(self) -> End:
        self._last_link_id += 1
        return End(self.name, self._last_link_id, self._on_data, self._on_closed, self._on_writable)

    def _on_data(self, link_id: int, data: bytes) -> None:
        if self._when_running(lambda: self._on_data(link_id, data)):
            self._note(f"link {link_id} data {len(data)} {data[:32].hex()}")
            with self.lock:
                self.node.link_data(link_id, data, self.world.now_ns)
            if self.node.has_work():
                self._settle()
            else:
                # Hearing something only puts timers of links off; routing may have a nearer one.
                self._arm(self.node.routing.next_timer_ns())
            self._deliver()

    def _on_closed(self, link_id: int, reason: str) -> None:
        if not self._when_running(lambda: self._on_closed(link_id, reason)):
            return
        self._pipes.pop(link_id, None)
        self._held.discard(link_id)
        self._note(f"link {link_id} closed: {reason}")
        with self.lock:
            self.node.link_closed(link_id, reason, self.world.now_ns)
        self._turn()

    def _on_writable(self, link_id: int) -> None:
        if self._when_running(lambda: self._on_writable(link_id)):
            self._write(link_id)
            self._turn()

    def _hold(self, link_id: int) -> None:
        held = self._holding or link_id in self._held
        pipe_end = self._pipes.get(link_id)
        if pipe_end is not None:
            self.node.link_held(link_id, held, self.world.now_ns)
            self.world.network.hold(*pipe_end, held=held)

    def _write(self, link_id: int) -> None:
        held = self._pipes.get(link_id)
        while not self.stalled and (held is None or self.world.network.takes(*held)):
            data = self.node.pull(link_id, self.world.now_ns)
            if data is None:
                return
            if held is not None:
                self.world.network.write(held[0], held[1], data)

    def _close_link(self, link_id: int, reason: str) -> None:
        self._write(link_id)
        held = self._pipes.pop(link_id, None)
        self._held.discard(link_id)
        if held is not None:
            self.world.network.close(*held)
        self._note(f"link {link_id} closed here: {reason}")
        self.node.link_closed(link_id, reason, self.world.now_ns)

    def _arm(self, due_ns: int | None) -> None:
        if due_ns is None or (self._timer_ns is not None and self._timer_ns <= due_ns):
            return
        self._timer_ns = due_ns
        self.world.at(due_ns, lambda: self._tick(due_ns))

    def _tick(self, due_ns: int) -> None:
        # A tick that an earlier one replaced means nothing any more.
        if due_ns == self._timer_ns and self._when_running(lambda: self._tick(due_ns)):
            self._timer_ns = None
            with self.lock:
                self.node.handle_timer(self.world.now_ns)
            self._turn()

    def _note(self, line: str) -> None:
        self.world.trace.add(self.world.now_ns, f"{self.name} {line}")


def _leads_to(dialled: str, listened: str) -> bool:
    if dialled == listened:
        return True
    host, _, port = listened.rpartition(":")
    return host in _ANYWHERE and dialled.rpartition(":")[2] == port
