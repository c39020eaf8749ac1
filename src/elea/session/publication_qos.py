"""`qos/publication`: qualities of what a session publishes, in place of those it asks for.

A publisher or a put whose key is included in an expression of an entry takes what the entry says.
If several entries include it, the one that names exactly this key wins, else the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, Self, TypeVar

from elea.config.config import Config
from elea.keyexpr import KeyExpr
from elea.limits import DEFAULT_LIMITS
from elea.qos import CongestionControl, Locality, Priority, QoS
from elea.records import dataclass

_E = TypeVar("_E", bound=Enum)
_PATH: Final = "qos/publication"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """What an entry says; None leaves what the program asked for."""

    congestion_control: CongestionControl | None = None
    priority: Priority | None = None
    express: bool | None = None
    reliable: bool | None = None
    destination: Locality | None = None

    @classmethod
    def read(cls, values: Mapping[str, object]) -> Self:
        """The overwrite in the `config` of an entry."""
        congestion, priority = values.get("congestion_control"), values.get("priority")
        express, reliability = values.get("express"), values.get("reliability")
        destination = values.get("allowed_destination")
        return cls(
            congestion_control=_member(CongestionControl, congestion),
            priority=_member(Priority, priority),
            express=express if isinstance(express, bool) else None,
            reliable=None if reliability is None else reliability == "reliable",
            destination=_member(Locality, destination),
        )

    def octet(self, qos: int) -> int:
        """The QoS octet that travels in place of another.

        Example:
            >>> Overwrite(priority=Priority.REAL_TIME).octet(0x15)
            17
        """
        asked = QoS.from_octet(qos)
        control, express = self.congestion_control, self.express
        return QoS(
            asked.priority if self.priority is None else self.priority,
            congestion_control=asked.congestion_control if control is None else control,
            express=asked.express if express is None else express,
        ).to_octet()


class PublicationQos:
    """The entries of one session.

    Example:
        >>> entry = {"key_exprs": ["a/**"], "config": {"express": True}}
        >>> qos = PublicationQos.from_config(Config.from_mapping({"qos": {"publication": [entry]}}))
        >>> found = qos.find("a/b")
        >>> found is not None and found.express, qos.find("b")
        (True, None)
    """

    def __init__(self, entries: tuple[tuple[KeyExpr, Overwrite], ...] = ()) -> None:
        self._exact = {str(key): overwrite for key, overwrite in entries}
        self._entries = tuple(reversed(entries))
        self._found: dict[str, Overwrite | None] = {}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The entries in a configuration."""
        entries = []
        section = config.get(_PATH)
        for entry in section if isinstance(section, list) else ():
            assert isinstance(entry, dict)  # the schema says so
            keys, values = entry["key_exprs"], entry["config"]
            assert isinstance(keys, list)
            assert isinstance(values, dict)
            overwrite = Overwrite.read(values)
            entries += [(KeyExpr(str(key)), overwrite) for key in keys]
        return cls(tuple(entries))

    def __bool__(self) -> bool:
        return bool(self._entries)

    def find(self, key: str) -> Overwrite | None:
        """The entry for a key without the session's namespace; None if there is none."""
        if not self._entries:
            return None
        try:
            return self._found[key]
        except KeyError:
            pass
        if len(self._found) >= DEFAULT_LIMITS.routes_count:
            self._found.clear()
        found = self._exact.get(key)
        if found is None:
            wanted = KeyExpr(key)
            found = next((one for kept, one in self._entries if kept.includes(wanted)), None)
        self._found[key] = found
        return found


def _member(kind: type[_E], name: object) -> _E | None:
    return kind[name.upper()] if isinstance(name, str) else None
