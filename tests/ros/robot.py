"""A ROS node, played by Eclipse Zenoh in the formats of rmw_zenoh, and the fleet around it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import zenoh
import zenoh.ext
from tests.interop.ends import ECLIPSE, eventually, free_endpoint, session

from elea.ros.formats.attachment import Attachment, parse_attachment
from elea.ros.formats.keys import topic_key
from elea.ros.formats.library import MessageType
from elea.ros.formats.qos import DEFAULT, QoS
from elea.ros.formats.shipped import shipped
from elea.ros.formats.tokens import Kind, Token

CLIENT: Final = {"timestamping/enabled": True}


class Robot:
    """One node in a session of Eclipse Zenoh."""

    def __init__(
        self,
        session: Any,
        name: str = "talker",
        namespace: str = "/robot1",
        *,
        domain: int = 0,
        nid: int = 0,
    ) -> None:
        self.session = session
        zid = str(session.zid())
        self.token = Token(domain, zid, nid, nid, Kind.NODE, namespace, name)
        self._next = nid
        self._kept: list[Any] = [session.liveliness().declare_token(self.token.key)]

    def endpoint(self, kind: Kind, name: str, type: str, hash: str, qos: QoS = DEFAULT) -> Token:
        """A token of this node, not declared."""
        self._next += 1
        return replace(
            self.token, kind=kind, eid=self._next, name=name, type=type, hash=hash, qos=qos
        )

    def declare(self, token: Token) -> Any:
        """Declare a token; it stays until the robot goes, or it is undeclared."""
        declared = self.session.liveliness().declare_token(token.key)
        self._kept.append(declared)
        return declared

    def publisher(
        self,
        name: str,
        kind: MessageType | str,
        qos: QoS = DEFAULT,
        *,
        hash: str | None = None,
        backends: dict[str, str] | None = None,
    ) -> RobotPublisher:
        """A publisher: token first, as rmw_zenoh does."""
        kind = message(kind)
        token = self.endpoint(Kind.PUBLISHER, name, kind.name, hash or kind.hash, qos)
        token = replace(token, backends=backends)
        made = RobotPublisher(self, token, kind)
        self._kept.append(made)
        return made

    def subscription(self, name: str, kind: MessageType | str, qos: QoS = DEFAULT) -> RobotEar:
        """A subscription: token last."""
        kind = message(kind)
        token = self.endpoint(Kind.SUBSCRIPTION, name, kind.name, kind.hash, qos)
        made = RobotEar(self, token, kind)
        self._kept.append(made)
        return made

    def server(
        self, name: str, type: str, handle: Callable[[Any], Any], *, hash: str | None = None
    ) -> Any:
        """A server of a service; its handle gets and gives plain values."""
        kind = shipped().service(type)
        token = self.endpoint(Kind.SERVER, name, kind.name, hash or kind.hash)
        key = topic_key(token.domain, name, kind.name, token.hash)

        def answer(query: Any) -> None:
            with query:
                attached = parse_attachment(query.attachment.to_bytes())
                assert attached is not None
                request = kind.request.decode(query.payload.to_bytes())
                reply = kind.response.encode(handle(request))
                attached = attached._replace(source_time_ns=time.time_ns())
                query.reply(key, reply, attachment=attached.to_bytes())

        self._kept.append(self.session.declare_queryable(key, answer, complete=True))
        return self.declare(token)


class RobotPublisher:
    """An advanced publisher with a token."""

    def __init__(self, robot: Robot, token: Token, kind: MessageType) -> None:
        self.token, self.kind = token, kind
        self.declared = robot.declare(token)
        qos = token.qos
        self.key = topic_key(token.domain, token.name, token.type, token.hash)
        options: dict[str, Any] = {}
        if qos.is_transient_local:
            options["cache"] = zenoh.ext.CacheConfig(qos.depth)
            options["publisher_detection"] = True
            if qos.is_reliable:
                options["sample_miss_detection"] = zenoh.ext.MissDetectionConfig(
                    heartbeat=None, sporadic_heartbeat=0.5
                )
        self.publisher = zenoh.ext.declare_advanced_publisher(
            robot.session,
            self.key,
            congestion_control=zenoh.CongestionControl.BLOCK,  # no test loses a message
            **options,
        )
        self._session = robot.session
        self.number = 0

    def publish(self, value: Any, *, suffix: str = "", attach: bytes | None = None) -> None:
        self.number += 1
        attachment = attach
        if attach is None:
            attachment = Attachment(self.number, time.time_ns(), self.token.gid).to_bytes()
        payload = self.kind.encode(value)
        if suffix:
            self._session.put(
                f"{self.key}/{suffix}",
                payload,
                attachment=attachment,
                congestion_control=zenoh.CongestionControl.BLOCK,
            )
        elif attachment == b"":
            self.publisher.put(payload)
        else:
            self.publisher.put(payload, attachment=attachment)

    def wait_matching(self, suffix: str = "") -> None:
        """Until there is a subscriber for the key; it has one of its own for keys with a suffix."""
        status = self._session.declare_publisher(f"{self.key}/{suffix}" if suffix else self.key)
        assert eventually(lambda: status.matching_status.matching)


class RobotEar:
    """An advanced subscriber with a token; refuses what rmw_zenoh refuses."""

    def __init__(self, robot: Robot, token: Token, kind: MessageType) -> None:
        self.token, self.kind = token, kind
        self.messages: list[Any] = []
        self.attachments: list[Attachment] = []
        self.refused = 0
        self._lock = threading.Lock()
        qos = token.qos
        options: dict[str, Any] = {}
        if qos.is_transient_local:
            options["history"] = zenoh.ext.HistoryConfig(
                detect_late_publishers=True, max_samples=qos.depth
            )
            options["subscriber_detection"] = True
            if qos.is_reliable:
                options["recovery"] = zenoh.ext.RecoveryConfig(
                    periodic_queries=None, heartbeat=True
                )
        self.key = topic_key(token.domain, token.name, token.type, token.hash)
        self._subscriber = zenoh.ext.declare_advanced_subscriber(
            robot.session, self.key, self._heard, **options
        )
        robot.declare(token)

    def _heard(self, sample: Any) -> None:
        attached = None
        if sample.attachment is not None:
            attached = parse_attachment(sample.attachment.to_bytes())
        with self._lock:
            if attached is None:
                self.refused += 1
                return
            self.attachments.append(attached)
            self.messages.append(self.kind.decode(sample.payload.to_bytes()))

    def reach(self, count: int) -> bool:
        return eventually(lambda: len(self.messages) >= count)


def message(kind: MessageType | str) -> MessageType:
    return shipped().message(kind) if isinstance(kind, str) else kind


@contextmanager
def fleet() -> Iterator[str]:
    """A router of Eclipse Zenoh; where it listens."""
    endpoint = free_endpoint()
    with session(ECLIPSE, "router", listen=endpoint):
        yield endpoint


@contextmanager
def robot(
    endpoint: str, name: str = "talker", namespace: str = "/robot1", *, domain: int = 0
) -> Iterator[Robot]:
    """A robot at a router."""
    with session(ECLIPSE, "client", connect=endpoint, more=CLIENT) as opened:
        made = Robot(opened, name, namespace, domain=domain)  # kept here: its tokens go with it
        yield made
