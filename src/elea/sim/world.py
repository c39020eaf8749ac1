"""World(seed): nodes, their links and the time, in one process and by one seed.

The nodes are the ones that run in production; only their driver differs. Everything that the world
decides, it draws from the seed, and the order of events follows from the time and from the order in
which they were asked for: two runs of one seed give one trace.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from random import Random
from types import TracebackType
from typing import Final, Self

from elea.errors import DeadlockError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.locator import Endpoint
from elea.node.node import Node
from elea.node.settings import NodeSettings
from elea.sim import current
from elea.sim.driver import SECOND_NS as SECOND_NS
from elea.sim.driver import SimDriver as SimDriver
from elea.sim.network import End, Network
from elea.sim.program import Main, Place, Program, sleep
from elea.sim.trace import Trace

PATIENCE_NS: Final = 3_600 * SECOND_NS  # who waits longer, without a time limit, waits for ever
_PORT_FIRST: Final = 49_152  # of those given to listeners that do not care


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
        self._last_port = _PORT_FIRST
        self._programs: list[Program] = []
        self._turn_of: Program | None = None  # None: it is the world's own

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
        self,
        name: str,
        settings: NodeSettings,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> SimDriver:
        """A node joins the world and starts."""
        driver = self.nodes[name] = SimDriver(self, name, settings, limits)
        driver.start()
        return driver

    def find(self, endpoints: tuple[Endpoint, ...]) -> tuple[SimDriver, Endpoint] | None:
        """The first node that listens at one of these addresses, and that address."""
        for endpoint in endpoints:
            for driver in self.nodes.values():
                if driver.listens_on(endpoint):
                    return driver, endpoint
        return None

    def next_port(self) -> int:
        """A port that nobody listens on."""
        self._last_port += 1
        return self._last_port

    def sometimes(self, name: str) -> None:
        """Count that a rare thing happened, so that a campaign can tell that it was tried."""
        self.reached[name] += 1

    def knock(self, driver: SimDriver, octets: bytes, duration_ns: int) -> None:
        """A stranger connects to a node, writes some octets and goes after a while."""
        stranger = End("stranger", 0, lambda *_: None, lambda *_: None)
        far = driver.accept("tcp", f"stranger:{self.next_port()}", f"{driver.name}:0")
        pipe = self.network.join(stranger, far, stream=True)
        driver.adopt(pipe, far)
        driver.flush()
        if octets:
            self.network.write(pipe, stranger, octets)
        self.after(duration_ns, lambda: self.network.close(pipe, stranger))

    def crash(self, name: str, *, silent: bool = False) -> None:
        """A process is gone from one event to the next, with all its nodes and sessions.

        Its streams break after a while; not if it is `silent`, as when the power fails.
        """
        for program in self._programs:
            if program.name == name:
                for driver in program.place.drivers:
                    self.nodes.pop(driver.name, None)
                    if driver.alive:
                        driver.crash(silent=silent)
        self._kill([one for one in self._programs if one.name == name])
        if name in self.nodes:
            self.nodes.pop(name).crash(silent=silent)

    # Programs.

    def start(self, name: str, main: Main) -> Program:
        """Run a function, or a coroutine function, as a process with this name.

        It begins with the next step of the world. What it opens are nodes of this world, and
        whatever it waits for, `time.sleep` too, takes virtual time.
        """
        program = Program(self, name, main)
        self._programs.append(program)
        self.trace.add(self._now_ns, f"{name} started")
        return program

    def process(self, name: str) -> AbstractContextManager[None]:
        """Be a process with this name: sessions that the caller opens meanwhile are nodes here."""
        return current.at(Place(self, name))

    def run(self, *, limit_s: float = PATIENCE_NS / SECOND_NS) -> None:
        """Run until all programs have ended. What one of them raises is raised here.

        Raises:
            DeadlockError: some have not ended when the virtual time is over.
        """
        programs = list(self._programs)
        if not self.run_until(lambda: not self._programs, limit_ns=seconds(limit_s)):
            names = ", ".join(one.name for one in self._programs)
            raise DeadlockError(f"{names}: no end within {limit_s:g} s of virtual time")
        for program in programs:
            if program.failure is not None:
                raise program.failure

    def wait(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Let the world go on until something holds; False after `timeout` seconds of its time.

        Raises:
            DeadlockError: it does not hold after an hour, and there is no time limit.
        """
        if ready():
            return True
        limit_ns = PATIENCE_NS if timeout is None else seconds(timeout)
        if self._turn_of is not None:
            until_ns = None if timeout is None else self._now_ns + limit_ns
            return self._turn_of.wait(ready, until_ns)
        if self.run_until(ready, limit_ns=limit_ns):
            return True
        if timeout is None:
            raise DeadlockError(f"nothing came within {limit_ns // SECOND_NS} s of virtual time")
        return False

    def sleep(self, duration_s: float) -> None:
        """Let the world go on for a while, and others with it."""
        sleep(self, duration_s)

    def close(self) -> None:
        """Kill all programs that have not ended."""
        self._kill(list(self._programs))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Time.

    def step(self) -> bool:
        """Run the next event; False if there is none."""
        return self._step(None)

    def run_for(self, duration_ns: int) -> None:
        """Run all events of a stretch of time."""
        end_ns = self._now_ns + duration_ns
        while self._step(end_ns):
            pass
        self._now_ns = max(end_ns, self._now_ns)  # who waits in an event may have gone further

    def run_until(self, condition: Callable[[], object], *, limit_ns: int) -> bool:
        """Run until something holds; False if it does not within the limit."""
        end_ns = self._now_ns + limit_ns
        while not condition():
            if not self._step(end_ns):
                self._now_ns = max(end_ns, self._now_ns)
                return bool(condition())
        return True

    def _step(self, end_ns: int | None) -> bool:
        """Let a program have its turn, or run the next event up to a time."""
        if self._turn_of is not None:
            raise RuntimeError("a program does not drive its world; let it sleep or wait instead")
        if self._programs and self._resume_one():
            return True
        heap = self._heap
        if not heap or (end_ns is not None and heap[0][0] > end_ns):
            return False
        self._now_ns, _, call = heapq.heappop(heap)
        call()
        return True

    def _resume_one(self) -> bool:
        for program in self._programs:
            if program.is_due():
                self._give_turn(program)
                return True
        return False

    def _give_turn(self, program: Program) -> None:
        self._turn_of = program
        try:
            program.resume()
        finally:
            self._turn_of = None
        if program.done:
            self._programs.remove(program)
            self.trace.add(self._now_ns, f"{program.name} ended")

    def _kill(self, programs: list[Program]) -> None:
        if self._turn_of is not None:
            raise RuntimeError("a program does not kill programs of its world")
        for program in programs:
            program.kill()
            self._give_turn(program)
