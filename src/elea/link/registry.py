"""From a scheme's name to the scheme. Modules are imported when they are first asked for.

Other packages add schemes by the entry point group `elea.links`: the name of the entry is the name
of the scheme, its object is a callable that gives the `Scheme`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Final

from elea.errors import LinkError, MissingDependencyError
from elea.link.base import Scheme
from elea.link.schemes import SCHEMES, facts
from elea.locator import Endpoint

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "elea.links"

_BUILT_IN: Final = frozenset(name for name, row in SCHEMES.items() if row.module is not None)


def check_scheme(endpoint: Endpoint, allowed: frozenset[str] | None = None) -> None:
    """Check that there is a scheme for an endpoint, and that its address is one of that scheme.

    Raises:
        LinkError, MissingDependencyError: as `Registry.scheme`.
        LocatorError: the address is not `host:port`, where the scheme needs that.
    """
    Registry().scheme(endpoint.protocol, allowed)
    if facts(endpoint.protocol).has_port:
        endpoint.host_port()


class Registry:
    """The schemes there are.

    Args:
        entries: the entry points of other packages; those that are installed if not given.

    Example:
        >>> Registry().scheme("tcp")
        <elea.link.tcp.Tcp object at ...>
        >>> Registry(entries=()).scheme("carrier-pigeon")
        Traceback (most recent call last):
        elea.errors.LinkError: no scheme 'carrier-pigeon'; there are memory, serial, tcp, tls, ...
    """

    def __init__(self, entries: Iterable[EntryPoint] | None = None) -> None:
        self._entries: dict[str, EntryPoint] | None = None
        if entries is not None:
            self._entries = {entry.name: entry for entry in entries}
        self._made: dict[str, Scheme] = {}

    def add(self, name: str, scheme: Scheme) -> None:
        """Use a scheme that is no entry point of a package; it takes the place of another."""
        self._made[name] = scheme

    def names(self) -> list[str]:
        """Every scheme that can be asked for."""
        return sorted({*_BUILT_IN, *self._others(), *self._made})

    def scheme(self, name: str, allowed: frozenset[str] | None = None) -> Scheme:
        """The scheme of a name.

        Args:
            name: what stands before the slash of a locator.
            allowed: those that may be used, `transport/link/protocols`; None for all.

        Raises:
            LinkError: if there is none, or it may not be used.
            MissingDependencyError: if it needs a package that is not installed.
        """
        if allowed is not None and name not in allowed:
            listed = ", ".join(sorted(allowed))
            raise LinkError(f"{name} is not among transport/link/protocols, which are {listed}")
        if name not in self._made:
            self._made[name] = self._load(name)
        return self._made[name]

    def _load(self, name: str) -> Scheme:
        row = facts(name)
        if row.module is not None:  # first: a package cannot slip itself under tls
            try:
                made: Callable[[], Scheme] = getattr(import_module(row.module), row.name)
            except ImportError as error:  # the extra has the scheme's name
                raise MissingDependencyError(f"the scheme {name}", name) from error
            return made()
        entry = self._others().get(name)
        if entry is None:
            raise LinkError(f"no scheme {name!r}; {self._advice(name)}")
        try:
            return self._checked(entry)
        except Exception as error:  # whatever a foreign package does while it is imported
            raise LinkError(
                f"the scheme {name!r} of {entry.value} cannot be used: {error}"
            ) from error

    def _advice(self, name: str) -> str:
        meant = name.rstrip(":").lower()
        if meant not in self.names():
            return f"there are {', '.join(self.names())}"
        if name.endswith(":"):
            return f"an endpoint is no URL: write {meant}/ADDRESS, without ://"
        return f"did you mean {meant!r}?"

    def _checked(self, entry: EntryPoint) -> Scheme:
        scheme: Scheme = entry.load()()
        missing = [name for name in ("resolve", "connect", "listen") if not hasattr(scheme, name)]
        if missing:
            raise TypeError(f"it has no {', '.join(missing)}")
        return scheme

    def _others(self) -> dict[str, EntryPoint]:
        if self._entries is None:
            from importlib.metadata import entry_points  # late: few use schemes of other packages

            self._entries = {entry.name: entry for entry in entry_points(group=GROUP)}
        return self._entries
