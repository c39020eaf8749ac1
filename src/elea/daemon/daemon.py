"""Daemon: one node as a process, with its admin space and its services.

The thread that calls `run` does everything that changes the daemon, one request after the other:
signals and writes to the admin space come in from elsewhere and wait their turn.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable
from typing import Final

from elea import version
from elea.config.config import Config
from elea.config.schema import KEYS
from elea.daemon import exposure, metrics, preflight
from elea.daemon.admin import AdminSpace
from elea.daemon.audit import FILE, LINES_PER_SECOND, Audit
from elea.daemon.effective import Effective, Options
from elea.daemon.events import Events
from elea.daemon.memory import Memory
from elea.daemon.notify import notify
from elea.daemon.services import Find, Paged, Services, installed
from elea.errors import ConfigError, EleaError, LimitError, LinkError
from elea.link.accounts import read_accounts
from elea.link.authorizers import read_authorizer
from elea.link.driver import Driver
from elea.link.settings import LinkSettings
from elea.link.start import open_driver
from elea.locator import is_group
from elea.node.settings import EndpointGroups, limits_of, unicast
from elea.policy.policy import KEYS as POLICY_KEYS
from elea.policy.policy import Policy
from elea.provenance import SampleKind
from elea.session.handlers import Callback
from elea.session.neighbours import LinkEvent
from elea.session.session import Session

_LOG: Final = logging.getLogger("elea.daemon")
REQUESTS_COUNT_MAX: Final = 1_000  # writes to the admin space that may wait for their turn

# What can change while it runs; everything else waits for the next start.
_LIVE: Final = (
    "listen/endpoints",
    "connect/endpoints",
    "adminspace/permissions/read",
    "adminspace/permissions/write",
    "metadata",
    "plugins",
    *POLICY_KEYS,
    "transport/link/tls",
    "transport/auth/usrpwd/dictionary_file",
    "elea/tls",
    "elea/learned",
)


class Daemon:
    """A node as a process.

    Args:
        options: What it was started with; a reload reads them, and their file, again.
        find: Gives the service of a name.

    Raises:
        ConfigError: the configuration cannot be used, or opens more than was allowed.
    """

    def __init__(self, options: Options, *, find: Find = installed) -> None:
        self._options = options
        self.services = Services(find, self._collect)
        self._effective = self._checked(Effective.of(options))
        self._requests: queue.SimpleQueue[Callable[[], bool]] = queue.SimpleQueue()
        self._memory = Memory()
        self.events = Events()
        self._driver: Driver | None = None
        self._session: Session | None = None
        self._audit: Audit | None = None
        self._admin: AdminSpace | None = None
        self._started_ns = 0

    @property
    def config(self) -> Config:
        """The configuration in effect."""
        return self._effective.config

    @property
    def effective(self) -> Effective:
        """The configuration in effect, with where its values come from."""
        return self._effective

    @property
    def session(self) -> Session:
        """The daemon's own session, once it is started."""
        assert self._session is not None
        return self._session

    @property
    def audit(self) -> Audit:
        """Where it is noted who came and what was changed, once it is started."""
        assert self._audit is not None
        return self._audit

    def locators(self) -> tuple[str, ...]:
        """Where it listens, with the ports that were given."""
        assert self._driver is not None
        return tuple(str(one) for one in self._driver.bound())

    @property
    def page(self) -> Paged | None:
        """The service with the page for browsers, if one was asked for."""
        for running in self.services if self._options.ui else ():
            if isinstance(running.service, Paged):
                return running.service
        return None

    # By any thread.

    def stop(self) -> None:
        """End, soon."""
        self._requests.put(lambda: False)

    def reload(self) -> None:
        """Read the configuration again, soon; neighbours stay."""
        self._requests.put(self._reload)

    def change_config(self, path: str, value: str | None) -> None:
        """Set a key to a JSON5 text, or back to its default, soon.

        Raises:
            LimitError: too many wait already.
        """
        waiting = self._requests.qsize()
        if waiting >= REQUESTS_COUNT_MAX:
            raise LimitError("REQUESTS_COUNT_MAX", waiting, REQUESTS_COUNT_MAX)
        self._requests.put(lambda: self._change(path, value))

    def _collect(self, *, per_transport: bool) -> list[metrics.Family]:
        assert self._driver is not None
        spool = self.session.info.spool_stats()
        with self._driver.lock:
            uptime_s = (self._driver.now_ns() - self._started_ns) / 1e9
            found = metrics.collect(
                self._driver.node, uptime_s=uptime_s, per_transport=per_transport, spool=spool
            )
        return found + self.services.counted()

    def _link_changed(self, event: LinkEvent) -> None:
        verb = "opened" if event.kind is SampleKind.PUT else "closed"
        # For people the audit's lines of logins and logouts are enough.
        _LOG.debug("link %s: %s to %s", verb, event.link.zid, event.link.dst)
        if event.kind is SampleKind.DELETE and self._memory.link_closed():
            self._requests.put(lambda: True)  # it waits for that to be over now

    # By the one that runs it.

    def start(self) -> None:
        """Listen, connect, and start what is configured.

        Raises:
            LinkError: it cannot listen.
            ConfigError: the configuration asks for something that cannot be.
        """
        for endpoint in exposure.check(self.config, allow_plain=self._options.allow_plain):
            _LOG.warning("%s is not encrypted and open to other hosts, as allowed", endpoint)
        for line in self.notes():
            _LOG.warning("%s", line)
        for path, reason in preflight.started_without(self.config, self.services):
            _LOG.warning("%s: %s", path, reason)
        own = self.config.__copy__()
        own.remove("namespace")  # which is for applications; a node describes itself under @/
        file = own.get(FILE)
        lines = own.value(LINES_PER_SECOND, int)
        name = file if isinstance(file, str) else None
        self._audit = Audit(name, lines, on_line=self.events.of_audit)
        try:
            self._driver = open_driver(own, self._audit.policy)
        except BaseException:
            self._audit.close()
            raise
        self._started_ns = self._driver.now_ns()
        self.services.guests = self._driver.guests
        self._session = Session(own, self._driver)
        try:
            self._session.info.declare_link_events_listener(
                Callback(self._link_changed, indirect=False), history=True
            )
            if self.config.value("adminspace/enabled", bool):
                self._admin = AdminSpace(self._session, self._driver, self)
            self.services.apply(self._session, self.config, strict=True)
        except BaseException:
            self.close()
            raise
        self._memory.begin()
        if not version.COMPILED:
            _LOG.info("interpreted, several times slower: %s", version.why_interpreted())
        _LOG.info("%s %s listens at %s", self.config.mode, self._session.zid(), self._where())
        self._audit.note("started", zid=str(self._session.zid()))
        notify("READY=1")

    def run(self) -> None:
        """Do what is asked for, until `stop`."""
        while self._next()():
            self._memory.tidy()

    def _next(self) -> Callable[[], bool]:
        try:
            return self._requests.get(timeout=self._memory.wait_s())
        except queue.Empty:
            return lambda: True  # nothing, but go on

    def close(self) -> None:
        """End the services, say goodbye to every neighbour, give up the port."""
        notify("STOPPING=1")
        self.services.stop()
        if self._session is not None and not self._session.is_closed():
            self._session.close()
            _LOG.info("stopped")
        if self._audit is not None:
            self._audit.close()

    # One request after the other.

    def _reload(self) -> bool:
        notify("RELOADING=1")
        self.audit.reopen()
        try:
            self._apply(Effective.of(self._options))
        except (ConfigError, LimitError, LinkError, OSError) as error:
            _LOG.error("reload failed, all stays as it was: %s", error)
            self.audit.note("reload_refused", why=str(error))
        else:
            _LOG.info("reloaded; listens at %s", self._where())
        notify("READY=1")
        return True

    def _change(self, path: str, value: str | None) -> bool:
        changed = self._effective.copy()
        try:
            if value is None:
                changed.remove(path)
            else:
                changed.insert_json5(path, value, "admin space")
            changed.config.validate()
            self._apply(changed)
        except EleaError as error:
            _LOG.error("a change of the configuration was refused: %s", error)
            self.audit.note("config_refused", key=path, why=str(error))
        else:
            _LOG.info("configuration changed through the admin space: %s", path)
        return True

    def _apply(self, new: Effective) -> None:
        """Put a configuration into effect; if that raises, nothing has changed."""
        assert self._driver is not None
        assert self._session is not None
        self._checked(new)
        policy = Policy.from_config(new.config, read_authorizer(new.config))
        listen, connect = new.config.endpoints("listen"), new.config.endpoints("connect")
        accounts = read_accounts(new.config)
        settings = LinkSettings.from_config(new.config, limits_of(new.config))
        self._driver.change_endpoints(unicast(listen), unicast(connect), settings)
        with self._driver.lock:
            self._driver.node.admission.change_accounts(accounts)
        old, self._effective = self._effective, new
        self._note_changes(old, new, policy)
        self.services.apply(self._session, new.config)
        late = [key.path for key in KEYS if not _is_live(key.path) and _differs(key.path, old, new)]
        if _groups(new.config) != _groups(old.config):
            late.append("multicast groups")
        if late:
            _LOG.warning("takes effect at the next start only: %s", ", ".join(late))

    def _note_changes(self, old: Effective, new: Effective, policy: Policy) -> None:
        """Let other rules apply, if they are others; and note which keys changed, not to what."""
        assert self._driver is not None
        changed = [key.path for key in KEYS if _differs(key.path, old, new)]
        if any(path in POLICY_KEYS for path in changed):
            self._driver.change_policy(policy)
        if changed:
            policies = [path for path in changed if path in POLICY_KEYS]
            self.audit.note("config", keys=[*changed], policy=bool(policies))

    def _checked(self, effective: Effective) -> Effective:
        preflight.check(effective.config, self.services, allow_plain=self._options.allow_plain)
        return effective

    def check_all(self) -> None:
        """Check that every part of the configuration would run.

        Raises:
            ConfigError: one would be left out.
        """
        allow_plain = self._options.allow_plain
        preflight.check_all(self.config, self.services, allow_plain=allow_plain)

    def notes(self) -> list[str]:
        """What the configuration asks for and does not get, one line each."""
        return list(preflight.notes(self.config, self.services))

    def _where(self) -> str:
        return ", ".join(self.locators()) or "no endpoint"


def _is_live(path: str) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in _LIVE)


def _differs(path: str, old: Effective, new: Effective) -> bool:
    return old.config.get(path) != new.config.get(path)


def _groups(config: Config) -> list[str]:
    sides: tuple[EndpointGroups, ...] = (config.endpoints("listen"), config.endpoints("connect"))
    return [str(one) for side in sides for group in side for one in group if is_group(one)]
