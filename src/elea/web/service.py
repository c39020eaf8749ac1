"""The service `rest`: starts the server for a router's session, by the section `plugins/rest`."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from elea import version
from elea.config.kinds import Value
from elea.errors import ConfigError, MissingDependencyError
from elea.json5 import Json
from elea.secret import Secret
from elea.session.session import Session
from elea.web.settings import PATH, RestSettings

if TYPE_CHECKING:
    from elea.web.metrics import Collect

_LOG: Final = logging.getLogger("elea.web")
_TOKEN_LEN: Final = 24  # random bytes
_PACKAGES: Final = ("starlette", "uvicorn", "prometheus_client", "h11", "anyio", "websockets")


def start(session: Session, settings: Mapping[str, Value]) -> Rest:
    """Serve HTTP, as the group `elea.services` has it.

    Raises:
        ConfigError: the section is not legal, or opens more than it may.
        LinkError: it cannot listen there.
        MissingDependencyError: the packages of `elea[web]` are not installed.
    """
    return Rest(session, RestSettings.read(settings))


class Rest:
    """REST, server-sent events, metrics and health over HTTP."""

    def __init__(self, session: Session, settings: RestSettings) -> None:
        try:
            from elea.web.app import application
            from elea.web.server import Server
            from elea.web.state import State
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] not in _PACKAGES:
                raise
            raise MissingDependencyError("REST", "web") from error
        if settings.dashboard and settings.operate_link and settings.operate is None:
            settings = replace(settings, operate=Secret(secrets.token_urlsafe(_TOKEN_LEN)))
        self._settings = settings
        self._state = State(session, settings)
        try:
            self._server = Server(application(self._state), self._state)
        except OSError as error:
            self._state.close()
            if isinstance(error, ConnectionError):
                raise
            raise ConfigError(f"{PATH}/tls_certificate", f"it cannot be used: {error}") from error
        log = _LOG.info if settings.is_loopback else _LOG.warning
        log("REST at %s, open to %s", self.url, "this host" if settings.is_loopback else "others")

    @property
    def url(self) -> str:
        """Where it is."""
        return self._settings.url(self._server.port)

    @property
    def page_url(self) -> str:
        """Where a browser finds the page."""
        return f"{self.url}/"

    @property
    def operate_url(self) -> str | None:
        """The same with the right to change something; None: nobody has it. It is a secret."""
        token = self._settings.operate if self._settings.operate_link else None
        return None if token is None else f"{self.url}/#token={token.reveal()}"

    def watch(self, collect: Collect) -> None:
        """Show the metrics of the node, too."""
        self._state.collect = collect

    def status(self) -> Mapping[str, Json]:
        """How it is; `version` and `port` are shaped as Eclipse Zenoh's."""
        return {
            "version": f"v{version.VERSION}",
            "port": {"http_port": self.url.rpartition("/")[2]},
            "url": self.url,
            "streams": len(self._state.streams),
        }

    def stop(self) -> None:
        """End it."""
        self._server.stop()
