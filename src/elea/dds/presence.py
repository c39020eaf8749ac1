"""Other bridges: how this one is seen, whom it sees, and what follows (dds.md 14, 15).

Owned by the DDS thread; `home` is read by threads of the session.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from elea.dds.port import Endpoint, Participant
from elea.dds.qos import INFINITE
from elea.dds.ros import action_of
from elea.dds.ros_tokens import MARK, Announcement, ServiceAnnouncement
from elea.dds.routes import Plan, Routed, Verdict
from elea.dds.settings import DdsSettings
from elea.dds.state import LOG
from elea.errors import KeyExprError
from elea.keyexpr.keyexpr import KeyExpr
from elea.provenance import SampleKind
from elea.sample import Reply, Sample
from elea.session.handlers import Callback
from elea.session.neighbours import TransportEvent

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge
    from elea.session.context import Declared

ECLIPSE_PREFIX: Final = "zenoh-plugin-dds"
_MARKER: Final = re.compile(rb"elea-dds=([0-9a-f]{1,32});")
_ECLIPSE_PROCESSES: Final = ("zenoh-bridge-dds", "zenoh-bridge-ros2dds", "zenohd")
_SLASH: Final = "§"
_QUIET_NS: Final = 10_000_000_000  # without a participant so long, one line tells of loopback


def identity_of(settings: DdsSettings) -> str:
    """Return what bridges must agree in to stand by for each other: 8 hex digits (D-633)."""
    return hashlib.blake2s(settings.identity.encode(), digest_size=4).hexdigest()


def marker(zid: str, *, ros: bool) -> bytes:
    """Return the user data of the bridge's participant (D-633)."""
    return (f"enclave=/;elea-dds={zid};" if ros else f"elea-dds={zid};").encode()


def marked_zid(user_data: bytes) -> str | None:
    """Return the ZID in the user data of a bridge's participant; None if it is no bridge."""
    found = _MARKER.search(user_data)
    return None if found is None else found[1].decode()


class Presence:
    """What a bridge knows of the others, and the tokens by which they know it."""

    def __init__(self, bridge: Bridge) -> None:
        settings = bridge.settings
        self.home: frozenset[bytes] = frozenset()  # prefixes of the participants of the domain
        self.strangers: frozenset[bytes] = frozenset()  # of these, bridges of other networks
        self.participants: dict[bytes, Participant] = {}
        self._bridge = bridge
        self._zid = str(bridge.session.zid())
        self._domain = settings.domain
        self._identity = identity_of(settings)
        self._tokens: list[Declared] = []
        self._endpoint_tokens: dict[bytes, list[Declared]] = {}
        self._tokens_count = 0
        self._tokens_refused = False
        self._watches: list[Declared] = []
        self._bridges: dict[str, set[str]] = {}  # ZID to the identities of its tokens
        self._eclipse: set[str] = set()  # ZIDs of Eclipse's tokens
        self._unlinked_ns: int | None = None
        self._is_standby = False
        self._is_settled = not settings.standby
        self._told_ros = False
        self._started_ns = bridge.now_ns()
        self._told_quiet = False

    @property
    def equals(self) -> list[str]:
        """Bridges that do the same for the domain: the ZIDs in their tokens."""
        if not self._bridge.settings.standby:
            return []
        return [zid for zid, identities in self._bridges.items() if self._identity in identities]

    @property
    def is_settled(self) -> bool:
        """Whether the tokens of bridges that are there were looked for."""
        return self._is_settled

    @property
    def is_standby(self) -> bool:
        """Whether another bridge serves the domain (D-637)."""
        return self._is_standby

    def start(self) -> None:
        """Declare the tokens and watch those of others."""
        session, post = self._bridge.session, self._bridge.post
        liveliness = session.liveliness()
        for key in (
            f"{ECLIPSE_PREFIX}/{self._zid}",
            f"@/{self._zid}/@dds_bridge/{self._domain}/{self._identity}",
        ):
            self._tokens.append(liveliness.declare_token(key))
        if self._bridge.settings.ros:
            self._tokens.append(liveliness.declare_token(f"@/{self._zid}/{MARK}"))

        def told(sample: Sample) -> None:
            key, is_there = sample.key_text, sample.kind is SampleKind.PUT
            post(lambda _now_ns: self._token(key, is_there=is_there))

        for key in (
            f"{ECLIPSE_PREFIX}/**",
            f"@/*/@dds_bridge/{self._domain}/*",
            f"@/*/@dds/*/{'*' if self._bridge.settings.forward_discovery else 'W'}/*/*",
            f"@/*/{MARK}/**" if self._bridge.settings.ros else f"@/*/{MARK}",
        ):
            handler = Callback(told, indirect=False)
            self._watches.append(liveliness.declare_subscriber(key, handler, history=True))
        links = Callback[TransportEvent](lambda _event: post(self._links_changed), indirect=False)
        self._watches.append(session.info.declare_transport_events_listener(links))
        post(self._links_changed)
        if not self._is_settled:
            self._look_for_others()

    def _look_for_others(self) -> None:
        """Ask for the tokens of bridges that do the same, and settle when there is the answer."""
        bridge = self._bridge

        def told(reply: Reply) -> None:
            if reply.ok is not None:
                key = reply.ok.key_text
                bridge.post(lambda _now_ns: self._token(key, is_there=True))

        def settle(_now_ns: int) -> None:
            self._is_settled = True
            bridge.others_known()

        bridge.session.liveliness().get(
            f"@/*/@dds_bridge/{self._domain}/{self._identity}",
            Callback(told, lambda: bridge.post(settle), indirect=False),
            timeout=bridge.settings.queries_timeout_s,
        )

    def tell_quiet(self, now_ns: int) -> None:
        """Log once that no participant was found on loopback (D-811), if nobody chose loopback."""
        if self._told_quiet or now_ns - self._started_ns < _QUIET_NS:
            return
        self._told_quiet = True
        settings = self._bridge.settings
        is_chosen = settings.said.get("localhost_only") is True
        if len(self.participants) <= 1 and settings.is_loopback and not is_chosen:
            LOG.warning(
                "no DDS participant was found on loopback in domain %d; participants on other"
                " interfaces are seen with localhost_only: false and --allow-plain",
                settings.domain,
            )

    def stop(self) -> None:
        """Take the tokens back."""
        mine = [one for tokens in self._endpoint_tokens.values() for one in tokens]
        self._bridge.undeclare(*self._watches, *mine, *self._tokens)

    # Participants.

    def add(self, participant: Participant) -> None:
        """A participant appeared or changed."""
        self.participants[participant.guid] = participant
        self._renew()

    def remove(self, guid: bytes) -> None:
        """A participant went."""
        if self.participants.pop(guid, None) is not None:
            self._renew()

    def _renew(self) -> None:
        own = self._bridge.dds.guid[:12]
        self.home = frozenset(
            one.prefix
            for one in self.participants.values()
            if one.prefix != own and not self._is_bridge(one)
        )
        self.strangers = frozenset(
            one.prefix
            for one in self.participants.values()
            if one.prefix in self.home and marked_zid(one.user_data) is not None
        )
        self._decide()

    def is_bridge(self, guid: bytes) -> bool:
        """Whether an endpoint belongs to a bridge of the own Zenoh network (D-634, D-635)."""
        participant = self.participants.get(guid[:12] + b"\0\0\x01\xc1")
        return participant is not None and self._is_bridge(participant)

    def _is_bridge(self, participant: Participant) -> bool:
        zid = marked_zid(participant.user_data)
        if zid is not None:
            return zid in self._bridges and zid != self._zid
        return (
            self._bridge.settings.ignore_foreign
            and bool(self._eclipse - {self._zid} - self._bridges.keys())
            and participant.properties.get("__ProcessName", "") in _ECLIPSE_PROCESSES
        )

    # Tokens of others.

    def _token(self, key: str, *, is_there: bool) -> None:
        chunks = key.split("/")
        if chunks[0] == ECLIPSE_PREFIX:
            self._eclipse_token(chunks[1] if len(chunks) > 1 else "", is_there=is_there)
        elif len(chunks) == 5 and chunks[2] == "@dds_bridge":
            self._bridge_token(chunks[1], chunks[4], is_there=is_there)
        elif len(chunks) == 3 and chunks[2] == MARK:
            self._ros_token(chunks[1], is_there=is_there)
        elif len(chunks) > 3 and chunks[2] == MARK:
            if chunks[1] != self._zid:
                self._announced(key, is_there=is_there)
        elif len(chunks) == 7 and (chunks[1], chunks[3]) != (self._zid, str(self._domain)):
            guid, name = chunks[5], chunks[6].replace(_SLASH, "/")
            if chunks[4] == "W":
                announcer = f"{chunks[1]}/{chunks[3]}"
                self._bridge.remote_writers.told(name, guid.encode(), announcer, is_there=is_there)
            self._bridge.forwarding.told(key, is_there=is_there)

    def _announced(self, key: str, *, is_there: bool) -> None:
        """A bridge with ROS names announces an interface, or withdraws it (D-665)."""
        topic, service = Announcement.read(key), ServiceAnnouncement.read(key)
        if topic is not None:
            self._bridge.announced.told(key, topic, is_there=is_there)
        elif service is not None:
            self._bridge.services.told(key, service, is_there=is_there)
            for part in service.topics():
                self._bridge.announced.told(f"{key} {part.key}", part, is_there=is_there)

    def _eclipse_token(self, zid: str, *, is_there: bool) -> None:
        if zid == self._zid:
            return
        (self._eclipse.add if is_there else self._eclipse.discard)(zid)
        self._bridge.admission.bridges_changed()
        self._renew()
        if is_there:
            self._bridge.ask_bridge(zid)

    def _bridge_token(self, zid: str, identity: str, *, is_there: bool) -> None:
        if zid == self._zid:
            return
        known = self._bridges.setdefault(zid, set())
        is_new = is_there and identity not in known
        (known.add if is_there else known.discard)(identity)
        if not known:
            del self._bridges[zid]
        self._bridge.admission.bridges_changed()
        self._renew()
        if is_new and zid in self.equals:
            self._bridge.other_came(zid)

    def _ros_token(self, zid: str, *, is_there: bool) -> None:
        if zid == self._zid:
            return
        (self._eclipse.add if is_there else self._eclipse.discard)(zid)
        self._bridge.admission.bridges_changed()
        self._renew()
        if is_there and not self._told_ros and not self._bridge.settings.ros:
            self._told_ros = True
            LOG.warning(
                "a bridge with ROS names is in this network (%a): its keys differ from those of"
                ' names: "dds"; set names: "ros2" to meet it',
                zid,
            )

    def _decide(self) -> None:
        """Stand by if another bridge, equal and with a smaller ZID, serves the domain (D-637)."""
        before = self._is_standby
        marked = {marked_zid(one.user_data) for one in self.participants.values()}
        equal = {
            zid
            for zid, identities in self._bridges.items()
            if self._identity in identities and zid in marked
        }
        self._is_standby = self._bridge.settings.standby and any(
            _order(zid) < _order(self._zid) for zid in equal
        )
        if before != self._is_standby:
            LOG.info(
                "domain %d: %s",
                self._domain,
                "standing by, another bridge serves it" if self._is_standby else "active",
            )
            self._bridge.upkeep.touch_all()

    # Tokens of endpoints.

    def announce(self, endpoint: Endpoint, routed: dict[str, Routed]) -> None:
        """Declare the tokens of an endpoint (D-604)."""
        self.withdraw(endpoint.guid)
        if not self._bridge.settings.tokens:
            return
        kind = "W" if endpoint.is_writer else "R"
        liveliness = self._bridge.session.liveliness()
        for one in routed.values():
            if one.verdict is not Verdict.ROUTED or "*" in one.key:
                continue
            if self._tokens_count >= self._bridge.limits.dds_tokens_count:
                if not self._tokens_refused:
                    self._tokens_refused = True
                    LOG.warning("dds_tokens_count reached: further endpoints have no tokens")
                return
            key = one.key.replace("/", _SLASH)
            name = f"@/{self._zid}/@dds/{self._domain}/{kind}/{endpoint.guid.hex()}/{key}"
            names = [name]
            if self._bridge.settings.ros and action_of(one.key) is None:
                names.append(self._announcement(endpoint, one.key))
            for name in names:
                try:
                    token = liveliness.declare_token(KeyExpr(name))
                except KeyExprError:
                    continue  # a type name that is no chunk of a key; samples pass all the same
                self._endpoint_tokens.setdefault(endpoint.guid, []).append(token)
                self._tokens_count += 1

    def _announcement(self, endpoint: Endpoint, key: str) -> str:
        """The token that tells bridges with ROS names of an endpoint (D-665)."""
        label = self._bridge.type_label(endpoint.type_name)
        return Announcement(
            self._zid, endpoint.is_writer, key, label, endpoint.qos, endpoint.has_key
        ).to_key()

    def withdraw(self, guid: bytes) -> None:
        """Undeclare the tokens of an endpoint."""
        tokens = self._endpoint_tokens.pop(guid, [])
        self._tokens_count -= len(tokens)
        self._bridge.undeclare(*tokens)

    # Links.

    def _links_changed(self, now_ns: int) -> None:
        linked = bool(self._bridge.session.info.transports())
        if linked and self._unlinked_ns is not None:
            self._unlinked_ns = None
            self._bridge.upkeep.touch_all()
        elif not linked and self._unlinked_ns is None:
            self._unlinked_ns = now_ns
            self._bridge.upkeep.touch_all()

    def is_reachable(self, plan: Plan, now_ns: int) -> bool:
        """Whether the sources of a route may be reached, by the lease of its readers (D-602)."""
        lease_ns = min((one.qos.lease_ns for one in plan.endpoints), default=INFINITE)
        if lease_ns >= INFINITE or self._unlinked_ns is None:
            return True
        end_ns = self._unlinked_ns + lease_ns
        if now_ns < end_ns:
            self._bridge.upkeep.touch_plan_at(plan, end_ns)
            return True
        return False


def _order(zid: str) -> int:
    """ZIDs are compared as numbers."""
    return int(zid, 16)
