"""Types of topics: fetched from peers once per hash, or opaque for peers that send none (dds.md 6).

Used by the DDS thread alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from elea.dds.port import Dds, Tier, TopicType
from elea.dds.routes import Plan
from elea.dds.settings import DdsSettings
from elea.dds.state import LOG
from elea.decode.layout import Structure, parse_layout
from elea.errors import ConfigError, EleaError
from elea.limits import Limits

LOOKUP_NS: Final = 15_000_000  # one lookup holds the DDS thread so long at most (D-210)
RETRY_NS: Final = 100_000_000
RETRY_NS_MAX: Final = 60_000_000_000


@dataclass(slots=True)
class _Lookup:
    """A type that did not come yet."""

    begun_ns: int
    next_ns: int
    delay_ns: int = RETRY_NS
    failed: bool = False
    attempts: int = 0


class TypeStore:
    """All types of a bridge, by hash; endpoints without a hash have opaque or declared types."""

    def __init__(self, dds: Dds, settings: DdsSettings, limits: Limits) -> None:
        self._dds = dds
        self._timeout_ns = round(settings.type_timeout_s * 1e9)
        self._limits = limits
        self._types: dict[bytes, TopicType] = {}
        self._lookups: dict[bytes, _Lookup] = {}
        self._declared = {
            name: declared_type(dds, name, one.layout, one.keys)
            for name, one in settings.types.items()
        }
        self.lookups_count = 0
        self.failures_count = 0
        self.fresh: list[TopicType] = []  # types whose schemas are not published yet

    def known(self) -> list[TopicType]:
        """Return all types that were fetched or declared."""
        return [*self._types.values(), *self._declared.values()]

    def by_hash(self, type_hash: bytes) -> TopicType | None:
        """Return a type that was fetched; None if it was not."""
        return self._types.get(type_hash)

    def is_awaited(self, type_hash: bytes) -> bool:
        """Return whether a type may still come: unknown so far, and its lookup did not time out."""
        if not type_hash or type_hash in self._types:
            return False
        lookup = self._lookups.get(type_hash)
        return lookup is None or not lookup.failed

    def adopt(self, found: TopicType) -> None:
        """Take a type that another bridge told of, within the limits (D-704)."""
        if found.hash not in self._types and self._is_taken(found):
            self._types[found.hash] = found
            self.fresh.append(found)

    def of(self, plan: Plan, now_ns: int) -> tuple[TopicType | None, int | None]:
        """Return the type of a route's mirrors, and when to ask again if there is none yet."""
        type_hash = plan.id.type_hash
        if not type_hash:
            return self._without_information(plan), None
        found = self._types.get(type_hash)
        if found is not None:
            return found, None
        return self._look_up(plan, type_hash, now_ns)

    def _without_information(self, plan: Plan) -> TopicType:
        name = plan.id.type_name
        declared = self._declared.get(name)
        if declared is not None:
            return declared
        keyed = any(one.has_key for one in plan.endpoints)
        return TopicType(name, Tier.OPAQUE, keyed)

    def _look_up(
        self, plan: Plan, type_hash: bytes, now_ns: int
    ) -> tuple[TopicType | None, int | None]:
        lookup = self._lookups.get(type_hash)
        if lookup is None:
            lookup = self._lookups[type_hash] = _Lookup(now_ns, now_ns)
        if now_ns >= lookup.next_ns:
            peers = [one for one in plan.endpoints if one.type_hash == type_hash]
            if peers:  # one at a time: a turn of the DDS thread waits for one answer at most
                asked = peers[lookup.attempts % len(peers)]
                lookup.attempts += 1
                self.lookups_count += 1
                found = self._dds.resolve(asked.guid, LOOKUP_NS)
                if found is not None and self._is_taken(found):
                    return self._adopt(found, plan, type_hash), None
            lookup.next_ns = now_ns + lookup.delay_ns
            lookup.delay_ns = min(2 * lookup.delay_ns, RETRY_NS_MAX)
        if now_ns - lookup.begun_ns < self._timeout_ns:
            return None, lookup.next_ns
        if not lookup.failed:
            lookup.failed = True
            self.failures_count += 1
            LOG.warning("the type %a was not answered by its peer", plan.id.type_name)
        return TopicType(plan.id.type_name, Tier.UNRESOLVED, hash=type_hash), lookup.next_ns

    def _is_taken(self, found: TopicType) -> bool:
        limits = self._limits
        if len(found.mapping) + len(found.info) > limits.dds_type_len:
            return False
        return len(self._types) < limits.dds_types_count

    def _adopt(self, found: TopicType, plan: Plan, type_hash: bytes) -> TopicType:
        self._lookups.pop(type_hash, None)
        made = replace(found, name=plan.id.type_name, hash=type_hash)
        self._types[type_hash] = made
        self.fresh.append(made)
        return made


def declared_type(dds: Dds, name: str, layout: str, keys: tuple[str, ...]) -> TopicType:
    """Return the type that a configuration gives for endpoints that send none (D-268).

    Raises:
        ConfigError: The layout cannot be a type of DDS.
    """
    try:
        found = parse_layout(layout)
        if not isinstance(found, Structure):
            raise ConfigError("layout", "a type of a topic has members: write {name: type, ...}")
        return dds.compile_type(name, found, keys)
    except EleaError as error:
        raise ConfigError(f"plugins/dds/types/{name}", str(error)) from error
