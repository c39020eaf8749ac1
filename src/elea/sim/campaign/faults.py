"""Storm: what is done to a world while it works, by a seed, and the calm after it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from elea.sim.campaign.history import Fault, History
from elea.sim.campaign.plan import NodePlan, Plan, zid
from elea.sim.campaign.workload import Workload
from elea.sim.network import CALM, ROUGH, SLOW, Pipe
from elea.sim.world import World, seconds

_STEP_S: Final = (0.05, 1.2)


class Storm:
    """The faults of a world, until `end`."""

    def __init__(
        self, world: World, plan: Plan, rng: Random, history: History, workload: Workload
    ) -> None:
        self._world = world
        self._plan = plan
        self._rng = rng
        self._history = history
        self._workload = workload
        self._over = False
        self._generations = {one.name: 0 for one in plan.nodes}
        self._lease_s = plan.nodes[0].settings.offered.lease_ms / 1_000
        calm = [(3, self._weather), (2, self._stall), (2, self._deafen), (2, self._pause)]
        rough = [
            *calm,
            *[(4, self._cut), (2, self._half_open), (3, self._part), (2, self._crash)],
            *[(2, self._garble), (1, self._knock)],
        ]
        self._steps: list[tuple[int, Callable[[], None]]]
        self._steps = {"none": [], "calm": calm, "rough": rough}[plan.faults]

    def start(self) -> None:
        """Begin."""
        if self._steps:
            self._next()

    def end(self) -> None:
        """No more faults: everybody runs and reaches everybody.

        Datagram links that lost something are closed: a lost declaration is not repaired while its
        link lives (behaviour.md 2.8), so nothing would have to converge.
        """
        self._over = True
        world = self._world
        world.network.faults = CALM
        world.network.heal()
        for one in self._plan.nodes:
            if one.name not in world.nodes:
                self._restart(one)
        for driver in list(world.nodes.values()):
            if driver.stalled:
                driver.unstall()
        for pipe in list(world.network.pipes):
            if pipe.damaged:
                world.network.tear(pipe, "it lost datagrams")

    def _next(self) -> None:
        self._world.after(seconds(self._rng.uniform(*_STEP_S)), self._step)

    def _step(self) -> None:
        if self._over:
            return
        [(_, step)] = self._rng.choices(self._steps, [weight for weight, _ in self._steps])
        step()
        self._next()

    def _note(self, text: str) -> None:
        self._history.add(Fault(text))

    def _later(self, duration_s: float, call: Callable[[], None]) -> None:
        """Undo a fault, unless the storm is over and has undone all."""
        self._world.after(seconds(duration_s), lambda: None if self._over else call())

    def _brief(self) -> float:
        """A time that no lease runs out in, in calm worlds; any time in rough ones."""
        lease_s = self._lease_s
        if self._plan.faults == "calm":
            return self._rng.uniform(0.01, min(0.3 * lease_s, 1.0))
        return self._rng.choice((0.1, 0.5, 1.2)) * self._rng.random() * min(lease_s, 6.0)

    def _weather(self) -> None:
        weather = SLOW if self._plan.faults == "calm" else self._rng.choice((SLOW, ROUGH))
        self._note("weather")
        self._world.network.faults = weather
        self._later(self._rng.uniform(0.1, 3), self._clear)

    def _clear(self) -> None:
        self._world.network.faults = CALM

    def _pipe(self) -> Pipe | None:
        pipes = list(self._world.network.pipes)
        return self._rng.choice(pipes) if pipes else None

    def _cut(self) -> None:
        pipe = self._pipe()
        if pipe is not None:
            self._note(f"cut {_name(pipe)}")
            cut = self._rng.choice((self._world.network.reset, self._world.network.tear))
            cut(pipe, "cut")

    def _half_open(self) -> None:
        pipe = self._pipe()
        if pipe is not None:
            self._note(f"half-open {_name(pipe)}")
            self._world.sometimes("half-open")
            self._world.network.kill(pipe)

    def _part(self) -> None:
        names = [one.name for one in self._plan.nodes]
        victim = self._rng.choice(names)
        others = [name for name in names if name != victim]
        if self._rng.random() < 0.5:
            others = [self._rng.choice(others)]
        one_way = self._rng.random() < 0.3
        self._note(f"part {victim} from {' '.join(others)}{' one way' if one_way else ''}")
        for other in others:
            self._world.network.part(victim, other, one_way=one_way)
        self._later(self._brief(), self._heal)

    def _heal(self) -> None:
        self._note("heal")
        self._world.sometimes("partition healed")
        self._world.network.heal()

    def _stall(self) -> None:
        drivers = [one for one in self._world.nodes.values() if not one.stalled]
        if drivers:
            driver = self._rng.choice(drivers)
            self._note(f"stall {driver.name}")
            driver.stalled = True
            self._later(self._brief(), driver.unstall)

    def _deafen(self) -> None:
        """One end of a link does not read, and does not know it."""
        pipe = self._pipe()
        if pipe is not None:
            network, end = self._world.network, self._rng.choice(pipe.ends)
            self._note(f"deafen {end.node} {_name(pipe)}")
            self._world.sometimes("a reader that does not read")
            network.hold(pipe, end, held=True)
            duration_s = self._brief()
            # Also after the storm: nobody else would undo it.
            self._world.after(seconds(duration_s), lambda: network.hold(pipe, end, held=False))

    def _garble(self) -> None:
        """Octets that nobody sent arrive in the middle of a stream, which breaks soon after."""
        pipe = self._pipe()
        if pipe is not None and pipe.stream:
            end = self._rng.choice(pipe.ends)
            self._note(f"garble {_name(pipe)}")
            self._world.sometimes("garbage in a stream")
            self._world.network.write(pipe, end, self._garbage())
            self._world.after(
                seconds(self._rng.uniform(0, 0.5)), lambda: self._world.network.tear(pipe, "cut")
            )

    def _knock(self) -> None:
        """Somebody who knows no protocol connects."""
        listening = [one for one in self._world.nodes.values() if one.node.settings.listen]
        if self._plan.scheme != "udp" and listening:
            driver = self._rng.choice(listening)
            self._note(f"knock at {driver.name}")
            self._world.sometimes("a stranger knocked")
            self._world.knock(driver, self._garbage(), seconds(self._rng.uniform(0, 3)))

    def _garbage(self) -> bytes:
        """Nothing, or anything; sometimes a batch by its length."""
        octets = self._rng.randbytes(self._rng.choice((0, 1, 3, 20, 300)))
        if self._rng.random() < 0.5:
            octets = len(octets).to_bytes(2, "little") + octets
        return octets

    def _pause(self) -> None:
        drivers = [one for one in self._world.nodes.values() if one.running]
        if drivers:
            driver = self._rng.choice(drivers)
            self._note(f"pause {driver.name}")
            driver.pause(seconds(self._brief()))

    def _crash(self) -> None:
        names = list(self._world.nodes)
        if len(names) < len(self._plan.nodes):
            return  # one at a time is enough, and keeps the worlds busy
        name = self._rng.choice(names)
        silent = self._rng.random() < 0.5
        self._note(f"crash {name}{' silently' if silent else ''}")
        self._world.sometimes("node crashed")
        self._workload.lost(name)
        self._world.crash(name, silent=silent)
        one = next(one for one in self._plan.nodes if one.name == name)
        self._later(self._rng.uniform(0.1, 3), lambda: self._restart(one))

    def _restart(self, one: NodePlan) -> None:
        if one.name in self._world.nodes:
            return
        if self._rng.random() < 0.5:
            self._generations[one.name] += 1
        index = int(one.name[1:])
        settings = one.settings.offering(zid=zid(index, self._generations[one.name]))
        self._note(f"restart {one.name} as {settings.zid.hex()}")
        self._world.add(one.name, settings, limits=one.limits)
        self._workload.populate(one.name)


def _name(pipe: Pipe) -> str:
    return f"{pipe.ends[0].node} {pipe.ends[1].node}"
