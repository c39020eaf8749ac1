"""Services: what a daemon runs beside routing, by the section `plugins` of its configuration.

A service is a Python entry point of the group `elea.services`; its name is the name in `plugins`.
The entry point is called with the daemon's session and with its part of the configuration, and
returns what can be stopped and asked how it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

from elea.config.config import Config
from elea.config.kinds import Value
from elea.daemon.metrics import Family
from elea.errors import ConfigError, EleaError, MissingDependencyError
from elea.json5 import Json
from elea.link.guests import Guests
from elea.session.session import Session

GROUP: Final = "elea.services"
_LOG: Final = logging.getLogger("elea.daemon")
_REQUIRED: Final = "__required__"
_OTHER_FILE: Final = "__config__"
_INERT: Final = {  # keys of zenohd's sections that are accepted everywhere, and do nothing here
    "__path__": "services are Python packages, not shared libraries",
    "backend_search_dirs": "volumes are Python packages, not shared libraries",
    "work_thread_num": "a service has one thread",
    "max_block_thread_num": "a service has one thread",
}
BUILT_IN: Final = {
    "dds": "elea.dds.service:DdsService",
    "historian": "elea.store.historian.service:HistorianService",
    "recorder": "elea.store.recorder.service:RecorderService",
    "rest": "elea.web.service:start",
    "ros2dds": "elea.dds.service:RosDdsService",
    "sql": "elea.store.sql.service:SqlService",
    "storage_manager": "elea.store.manager:StorageManager",
    "xrce": "elea.devices.service:XrceService",
}

# What services of Elea need besides Elea: a package, and the extra that brings it.
_NEEDED: Final = {
    "dds": ("cyclonedds", "dds"),
    "historian": ("pyarrow", "arrow"),
    "recorder": ("pyarrow", "arrow"),
    "rest": ("uvicorn", "web"),
    "ros2dds": ("cyclonedds", "dds"),
    "sql": ("duckdb", "sql"),
}

Settings: TypeAlias = dict[str, Value]


class Service(Protocol):
    """A service that runs."""

    def status(self) -> Mapping[str, Json]:
        """How it is: values by key, shown below `status/plugins/<name>` in the admin space."""

    def stop(self) -> None:
        """End it."""


@runtime_checkable
class Changing(Protocol):
    """A service that takes other settings while it runs; others are started anew."""

    def change(self, settings: Settings) -> None:
        """Do as they say.

        Raises:
            ConfigError: they are not legal; nothing has changed.
        """


@runtime_checkable
class Checking(Protocol):
    """A start that can tell whether settings are legal, without starting anything."""

    def check(self, settings: Settings) -> None:
        """Raise a ConfigError if they are not."""


@runtime_checkable
class CheckingParts(Protocol):
    """A start that knows parts of settings without which the service runs all the same."""

    def check_parts(self, settings: Settings) -> None:
        """Raise a ConfigError if one of them would be left out."""


@runtime_checkable
class Reading(Protocol):
    """A start whose service runs without the directories it reads, and has nothing until then."""

    def reads(self, settings: Settings) -> Mapping[str, Path]:
        """Return the directories by the keys that name them, below the section."""


@runtime_checkable
class Making(Protocol):
    """A start whose service makes directories that others may read."""

    def makes(self, settings: Settings) -> Iterable[Path]:
        """Return the directories; those below them are made as well."""


@runtime_checkable
class Noting(Protocol):
    """A start that knows which legal settings have no effect."""

    def notes(self, settings: Settings) -> Iterable[str]:
        """Return one line for each."""


class Collect(Protocol):
    """Gives what the node counted; any thread may call it."""

    def __call__(self, *, per_transport: bool) -> list[Family]: ...


@runtime_checkable
class Watching(Protocol):
    """A service that also shows what the node counted."""

    def watch(self, collect: Collect) -> None:
        """Told once, after its start."""


@runtime_checkable
class Guest(Protocol):
    """A service that may take connections at the node's TCP listeners that do not speak Zenoh."""

    def visit(self, guests: Guests) -> None:
        """Told once, after its start; `stop` sets back what it set."""


@runtime_checkable
class Paged(Protocol):
    """A service with a page for browsers."""

    @property
    def page_url(self) -> str:
        """Where it is."""

    @property
    def operate_url(self) -> str | None:
        """The same with the right to change something, which is a secret; None: nobody has it."""


@runtime_checkable
class Counting(Protocol):
    """A service whose counters are metrics of the node."""

    def counted(self) -> Iterable[tuple[str, str, str, int]]:
        """Its metrics: name, kind, meaning and value; any thread may ask."""


Start: TypeAlias = Callable[[Session, Settings], Service]


class Found(Protocol):
    """A service that is installed."""

    @property
    def value(self) -> str:
        """Where its code is, as `module:name`."""

    def load(self) -> Start: ...


Find: TypeAlias = Callable[[str], "Found | EntryPoint | None"]


def installed(name: str) -> EntryPoint | None:
    """The service of this name that Elea itself or some package brings."""
    if name in BUILT_IN:  # found where Elea runs without being installed, and never replaced
        return EntryPoint(name, BUILT_IN[name], GROUP)
    return next(iter(entry_points(group=GROUP, name=name)), None)


@dataclass(slots=True)
class Running:
    """One service that was started."""

    name: str
    path: str
    settings: Settings
    service: Service


class Services:
    """The services of a daemon.

    Args:
        find: Gives the service of a name.
        collect: What services that show metrics are given.
    """

    def __init__(self, find: Find = installed, collect: Collect | None = None) -> None:
        self.guests: Guests | None = None  # of the node, once it listens
        self._find = find
        self._collect = collect
        self._running: dict[str, Running] = {}

    def __iter__(self) -> Iterator[Running]:
        return iter(list(self._running.values()))

    def check(self, config: Config) -> None:
        """Whether what is required is there, and what is configured is legal.

        Raises:
            ConfigError: if a service is required and not installed, or refuses its settings.
        """
        for name, settings in _wanted(config).items():
            found = self._find(name)
            if settings.get(_OTHER_FILE) is not None:
                raise ConfigError(
                    f"plugins/{name}/{_OTHER_FILE}",
                    f"sections in files of their own are not read; write it into plugins/{name}",
                )
            if found is not None:
                start = _loaded(found)
                if isinstance(start, Checking):
                    start.check(settings)
            elif settings.get(_REQUIRED) is True:
                raise ConfigError(
                    f"plugins/{name}",
                    "it is required and not installed; services are Python packages with an entry"
                    f" point in the group {GROUP}",
                )

    def check_parts(self, config: Config) -> None:
        """Whether every part of every service would run.

        Raises:
            ConfigError: one would be left out.
        """
        for name, settings in _wanted(config).items():
            package, extra = _NEEDED.get(name, (None, ""))
            if package is not None and find_spec(package) is None:
                missing = MissingDependencyError(f"the service {name}", extra)
                raise ConfigError(f"plugins/{name}", str(missing))
            start = _loaded(self._find(name))
            if isinstance(start, CheckingParts):
                start.check_parts(settings)

    def absent(self, config: Config) -> Iterator[tuple[str, str]]:
        """Directories that services read, which are not there and are not made by other services.

        Keys of the configuration, and what is wrong: a service starts without them.
        """
        starts = list(self._legal(config))
        made = [
            one.absolute()
            for _, settings, start in starts
            if isinstance(start, Making)
            for one in start.makes(settings)
        ]
        for name, settings, start in starts:
            if not isinstance(start, Reading):
                continue
            for key, path in start.reads(settings).items():
                if path.is_dir() or any(path.absolute().is_relative_to(one) for one in made):
                    continue
                reason = (
                    f"there is no directory {str(path)!a}; make it (a recorder or a pipeline does),"
                    " or name one"
                )
                yield f"plugins/{name}/{key}", reason

    def notes(self, config: Config) -> Iterator[str]:
        """Which services are configured and not there, one line each."""
        for name, settings in _wanted(config).items():
            for key in _INERT.keys() & settings.keys():
                yield f"plugins/{name}/{key} has no effect: {_INERT[key]}"
            if self._find(name) is None:
                yield (
                    f"plugins/{name}: no such service is installed; it is left out. Those of Elea"
                    f" are {', '.join(BUILT_IN)}"
                )

        for _, settings, start in self._legal(config):
            if isinstance(start, Noting):
                yield from start.notes(settings)

    def _legal(self, config: Config) -> Iterator[tuple[str, Settings, object]]:
        """What starts services, for each whose settings `check` does not refuse."""
        for name, settings in _wanted(config).items():
            start = _loaded(self._find(name))
            try:
                if isinstance(start, Checking):
                    start.check(settings)
            except ConfigError:
                continue
            yield name, settings, start

    def apply(self, session: Session, config: Config, *, strict: bool = False) -> None:
        """Start what is configured, end what is not, change what is configured otherwise.

        Args:
            session: Given to those that start.
            config: The configuration.
            strict: Whether one that is required and does not start is an error.

        Raises:
            ConfigError: such a one did not start.
        """
        wanted = _wanted(config)
        for running in self:
            settings = wanted.get(running.name)
            if settings != running.settings and not _changed(running, settings):
                self._stop(running)
        for name, settings in wanted.items():
            if name not in self._running:
                self._start(name, settings, session, strict and settings.get(_REQUIRED) is True)

    def counted(self) -> list[Family]:
        """The metrics of those that have some."""
        return [
            Family(name, kind, f"{meaning}.", [({}, value)])
            for running in self
            if isinstance(running.service, Counting)
            for name, kind, meaning, value in running.service.counted()
        ]

    def stop(self) -> None:
        """End all, the last one first."""
        for running in reversed(list(self)):
            self._stop(running)

    def _start(self, name: str, settings: Settings, session: Session, required: bool) -> None:
        found = self._find(name)
        if found is None:
            return  # `notes` says so
        try:
            service: Service = found.load()(session, settings)
            if self._collect is not None and isinstance(service, Watching):
                service.watch(self._collect)
            if self.guests is not None and isinstance(service, Guest):
                service.visit(self.guests)
        except Exception as error:  # somebody else's code: it may raise anything
            if required:
                raise ConfigError(f"plugins/{name}", f"it did not start: {error}") from error
            if isinstance(error, EleaError):  # which says all there is to say
                _LOG.error("service %s did not start, it is left out: %s", name, error)
            else:
                _LOG.exception("service %s did not start; it is left out", name)
            return
        self._running[name] = Running(name, found.value, settings, service)
        _LOG.info("service %s started: %s", name, found.value)

    def _stop(self, running: Running) -> None:
        del self._running[running.name]
        try:
            running.service.stop()
        except Exception:  # somebody else's code: the others are ended all the same
            _LOG.exception("service %s did not end as it should", running.name)
        else:
            _LOG.info("service %s stopped", running.name)


def _loaded(found: Found | EntryPoint | None) -> object:
    """What starts a service; None if it cannot be imported."""
    try:
        return None if found is None else found.load()
    except Exception:  # somebody else's code; its start says what is wrong
        return None


def _changed(running: Running, settings: Settings | None) -> bool:
    """Whether a service has taken other settings."""
    if settings is None or not isinstance(running.service, Changing):
        return False
    try:
        running.service.change(settings)
    except Exception:  # somebody else's code: it is started anew
        _LOG.exception("service %s did not take its new settings", running.name)
        return False
    running.settings = settings
    _LOG.info("service %s changed", running.name)
    return True


def _wanted(config: Config) -> dict[str, Settings]:
    """The sections of services; none if they are not to be started."""
    sections = config.get("plugins")
    if not config.value("plugins_loading/enabled", bool) or not isinstance(sections, dict):
        return {}
    return {name: one if isinstance(one, dict) else {} for name, one in sections.items()}
