"""What other bridges of the domain put of a durable route: a bridge that takes over puts the rest.

A durable writer sends what it keeps to every mirror reader that is new, and the bridge that served
the domain before has put it (D-312). The stamps tell which samples these are: those that the other
bridge puts are heard while it is there, those before are in its cache. Owned by the DDS thread; the
subscriber is called by threads of the session.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from elea.dds.history import Question, cache_key
from elea.dds.line import Item
from elea.dds.overlap import Identity, Overlap, identity_by
from elea.dds.stamps import Attachment, nanos_of
from elea.keyexpr.keyexpr import KeyExpr
from elea.provenance import SampleKind
from elea.qos import Locality
from elea.sample import Sample
from elea.session.handlers import Callback

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge
    from elea.session.context import Declared


class OtherPuts:
    """The samples of one key that other bridges of the domain put.

    Args:
        bridge: Which bridges there are, and who asks.
        key: Of the route.
    """

    def __init__(self, bridge: Bridge, key: str) -> None:
        self._bridge = bridge
        self._key = key
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[bytes, Identity], None] = OrderedDict()
        self._watch: Declared | None = None
        self._asking = 0
        self._is_closed = False
        for zid in bridge.presence.equals:
            self.ask(zid)

    @property
    def is_asking(self) -> bool:
        """Whether it is not known yet which bridges there are, or what one of them has put."""
        return self._asking > 0 or not self._bridge.presence.is_settled

    def ask(self, zid: str) -> None:
        """Ask a bridge what it has put, and hear what it puts from now on."""
        if self._is_closed:
            return
        bridge = self._bridge
        if self._watch is None:
            # Declared first: what is not in the answer is heard.
            expr = self._key + ("/*" if bridge.settings.has_instances(self._key) else "")
            handler = Callback(self._heard, indirect=False)
            self._watch = bridge.session.declare_subscriber(
                KeyExpr(expr), handler, allowed_origin=Locality.REMOTE
            )
        self._asking += 1
        bridge.counts.queries += 1
        expr = cache_key(self._key, zid, ros=bridge.settings.ros)
        bridge.history.ask(Question(expr, "", self._told))

    def close(self) -> None:
        """Hear no more."""
        self._is_closed = True
        self._bridge.undeclare(self._watch)

    def add_to(self, overlap: Overlap) -> None:
        """Have what was put pass no more."""
        with self._lock:
            known = list(self._known)
        for writer, identity in known:
            overlap.add(writer, identity)

    def _told(self, items: list[Item], _beyond: int) -> None:
        self._asking -= 1
        for item in items:
            self._note(item)
        self._bridge.others_known()

    def _heard(self, sample: Sample) -> None:
        stamp = sample.raw_stamp
        beside = sample.attachment
        payload = None if sample.kind is SampleKind.DELETE else sample.payload.to_bytes()
        self._note(
            Item(
                sample.key_text,
                payload,
                0 if stamp is None else stamp.time,
                b"" if stamp is None else stamp.id,
                None if beside is None else beside.to_bytes(),
            )
        )

    def _note(self, item: Item) -> None:
        beside = None if item.attachment is None else Attachment.read(item.attachment)
        writer, source_ns = item.clock, nanos_of(item.time)
        payload = item.payload
        if beside is not None:
            writer = beside.writer or writer
            source_ns = source_ns if beside.source_ns is None else beside.source_ns
            payload = beside.key if payload is None else payload
        if not writer or payload is None:
            return
        identity = identity_by(source_ns, payload, is_value=item.payload is not None)
        with self._lock:
            self._known[writer, identity] = None
            if len(self._known) > self._bridge.limits.dds_other_puts_count:
                self._known.popitem(last=False)
