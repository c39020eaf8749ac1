"""What is at rest at a gateway: durable samples, and the properties of resources (2.5, 15.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from elea.xrce.declarations import Named, Publisher
from elea.xrce.gateway.interest import Owner
from elea.xrce.gateway.settings import GatewaySettings
from elea.xrce.names import Resource, to_key
from elea.xrce.properties import encoded
from elea.xrce.qualities import PROPERTY_NAME, Level, is_read_only
from elea.xrce.samples.durability import DurableStore
from elea.xrce.samples.index import Index
from elea.xrce.samples.keys import selects
from elea.xrce.samples.sample import Sample


class AtRest:
    """The stores of a gateway, and what its devices said about resources.

    Args:
        settings: Which stores there are.
        resources: Names without wildcards.
        named: What is known of one of them.
    """

    def __init__(
        self, settings: GatewaySettings, resources: Index[Owner], named: Callable[[Owner], Named]
    ) -> None:
        self._settings = settings
        self._resources = resources
        self._named = named

    def keeps(self, named: Named, publisher: Publisher) -> bool:
        """Whether what a publisher writes is kept."""
        return bool(_offered(named, publisher)) and bool(self._stores())

    def admit(self, named: Named, publisher: Publisher) -> str | None:
        """Why there is no room for what a publisher would write."""
        store = self._settings.persistent
        if store is None or not store.is_full:
            return None
        if _offered(named, publisher) is not Level.PERSISTENT:
            return None
        resource = named.resource
        if resource.is_trivial and store.holds(to_key(resource)):
            return None  # its sample is replaced
        return "there is no room for more persistent data"

    def keep(self, sample: Sample, now_ns: int) -> bool:
        """Keep what a device wrote, if it is durable; False if there is no room for it."""
        if sample.deleted:
            self.follow(sample, now_ns)
            return True
        transient, persistent = self._settings.transient, self._settings.persistent
        lasts = sample.level is Level.PERSISTENT and persistent is not None
        store = persistent if lasts else transient
        return not sample.level or store is None or store.write(sample, now_ns)

    def follow(self, sample: Sample, now_ns: int) -> None:
        """Others wrote to a key that may be kept here, or deleted it."""
        for store in self._stores():
            if sample.deleted:
                store.delete(sample.key, sample.timestamp, now_ns)
            elif store.holds(sample.key):
                store.write(sample, now_ns)

    def matching(self, path: str) -> list[Sample]:
        """Durable samples and properties of a path or pattern: what a query is answered (18.3)."""
        found = {
            (sample.key, sample.timestamp): sample
            for store in self._stores()
            for sample in store.matching(path)
        }
        return [*sorted(found.values(), key=lambda one: one.timestamp), *self._properties(path)]

    def merged(self, named: Named, samples: Iterable[Sample]) -> list[Sample]:
        """Ours and those of others, by timestamp, each once."""
        path = named.resource.path
        both = [*self.matching(path), *(one for one in samples if selects(path, one.path))]
        unique = {(one.key, one.timestamp): one for one in both if not one.deleted}
        return sorted(unique.values(), key=lambda one: one.timestamp)

    def _properties(self, path: str) -> Iterator[Sample]:
        if not is_read_only(Resource(path)):
            return
        shown = set()
        for owner in self._resources.matching(path.removesuffix(f"/{PROPERTY_NAME}")):
            named = self._named(owner)
            if named.resource.path in shown:
                continue
            shown.add(named.resource.path)
            yield Sample(
                key=f"{to_key(named.resource)}/{PROPERTY_NAME}",
                path=f"{named.resource.path}/{PROPERTY_NAME}",
                payload=encoded(named.listed),
                timestamp=self._settings.stamp(),
            )

    def _stores(self) -> list[DurableStore]:
        stores = (self._settings.transient, self._settings.persistent)
        return [one for one in stores if one is not None]


def _offered(named: Named, publisher: Publisher) -> Level | None:
    return publisher.qualities.over(named.qualities).offered
