"""The one place that chooses what drives a session. Everything else takes a `DriverPort`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Protocol

from elea.config.config import Config
from elea.config_file import in_environment
from elea.ids import WhatAmIMatcher
from elea.sample import Hello
from elea.session.ports import DriverPort, OpenDriver, ScoutPort, StartScouting
from elea.sim import current


def open_driver(config: Config) -> DriverPort:
    """A node for this configuration, with its listeners bound and its connections made."""
    place = current.place()
    if place is not None:
        return place.open(config)
    # Late: a program that drives sessions itself, as simulations do, needs no sockets.
    factory: OpenDriver = import_module("elea.link.start").open_driver
    return factory(in_environment(config))


class Described(Protocol):
    """A session whose node may describe itself."""

    @property
    def config(self) -> Config: ...


def describe(session: Described, driver: DriverPort) -> None:
    """Let the node of a session answer for itself under `@/`, if its configuration says so."""
    if session.config.value("adminspace/enabled", bool):
        # Late, and by its name: what answers is an application, which stands above sessions.
        import_module("elea.daemon.admin").describe(session, driver)


def start_scouting(
    what: WhatAmIMatcher, config: Config, found: Callable[[Hello], None]
) -> ScoutPort:
    """Search for nodes; each answer is told to `found`, by any thread."""
    start: StartScouting = import_module("elea.link.scouting").start_scouting  # late, as above
    return start(what, config, found)
