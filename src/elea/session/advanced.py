"""Declares advanced publishers and subscribers: cache, history, recovery, detection (7.11).

All of it is made of ordinary publications, queries and liveliness tokens under reserved keys, so
nodes in between need to know nothing of it.
"""

from __future__ import annotations

from typing import overload

from elea.qos import CongestionControl, Locality, Priority, Reliability
from elea.sample import Sample
from elea.session.advanced_config import (
    CacheConfig,
    HistoryConfig,
    MissDetectionConfig,
    RecoveryConfig,
    timestamps_needed,
)
from elea.session.advanced_publisher import AdvancedPublisher
from elea.session.advanced_subscriber import AdvancedSubscriber, Reorderer
from elea.session.batches import ArrowBatches, sample_delivery
from elea.session.convert import IntoEncoding, IntoKeyExpr, checked, checked_or, key_text
from elea.session.handlers import (
    AnyHandler,
    BuiltinHandler,
    H,
    Handler,
    PythonCallback,
    PythonHandler,
)
from elea.session.session import Session


def declare_advanced_publisher(
    session: Session,
    key_expr: IntoKeyExpr,
    *,
    encoding: IntoEncoding | None = None,
    congestion_control: CongestionControl | None = None,
    priority: Priority | None = None,
    express: bool | None = None,
    reliability: Reliability | None = None,
    allowed_destination: Locality | None = None,
    cache: CacheConfig | None = None,
    sample_miss_detection: MissDetectionConfig | None = None,
    publisher_detection: bool | None = None,
) -> AdvancedPublisher:
    """Declare a publisher whose subscribers can ask for what they missed.

    Args:
        cache: Keep the last samples for who asks.
        sample_miss_detection: Number the samples.
        publisher_detection: Let subscribers see that it is there.

    Raises:
        InvalidValueError: a cache needs numbers or timestamps, and there are neither.
        ClosedError: the session is closed.
    """
    settings = checked("session", session, Session)._context.core.face.settings
    for name, value, kind in (
        ("cache", cache, CacheConfig),
        ("sample_miss_detection", sample_miss_detection, MissDetectionConfig),
    ):
        if value is not None:
            checked(name, value, kind)
    if cache is not None and sample_miss_detection is None and not settings.timestamping:
        raise timestamps_needed(key_text(key_expr))
    publisher = session.declare_publisher(
        key_expr,
        encoding=encoding,
        congestion_control=congestion_control,
        priority=priority,
        express=express,
        reliability=reliability,
        allowed_destination=allowed_destination,
    )
    return AdvancedPublisher(
        session,
        publisher,
        cache=cache,
        miss_detection=sample_miss_detection,
        detection=checked_or("publisher_detection", publisher_detection, bool, False),
    )


@overload
def declare_advanced_subscriber(
    session: Session,
    key_expr: IntoKeyExpr,
    handler: BuiltinHandler[Sample] | None = None,
    *,
    allowed_origin: Locality | None = None,
    history: HistoryConfig | None = None,
    recovery: RecoveryConfig | None = None,
    subscriber_detection: bool | None = None,
) -> AdvancedSubscriber[Handler[Sample]]: ...
@overload
def declare_advanced_subscriber(
    session: Session,
    key_expr: IntoKeyExpr,
    handler: PythonHandler[Sample, H],
    *,
    allowed_origin: Locality | None = None,
    history: HistoryConfig | None = None,
    recovery: RecoveryConfig | None = None,
    subscriber_detection: bool | None = None,
) -> AdvancedSubscriber[H]: ...
@overload
def declare_advanced_subscriber(
    session: Session,
    key_expr: IntoKeyExpr,
    handler: PythonCallback[Sample],
    *,
    allowed_origin: Locality | None = None,
    history: HistoryConfig | None = None,
    recovery: RecoveryConfig | None = None,
    subscriber_detection: bool | None = None,
) -> AdvancedSubscriber[None]: ...
def declare_advanced_subscriber(
    session: Session,
    key_expr: IntoKeyExpr,
    handler: AnyHandler[Sample] | ArrowBatches = None,
    *,
    allowed_origin: Locality | None = None,
    history: HistoryConfig | None = None,
    recovery: RecoveryConfig | None = None,
    subscriber_detection: bool | None = None,
) -> AdvancedSubscriber[object]:
    """Declare a subscriber that asks caches for history and for what it missed.

    Args:
        history: Ask for samples published before.
        recovery: Ask for samples that were missed.
        subscriber_detection: Let others see that it is there.

    Raises:
        ClosedError: the session is closed.
    """
    key = key_text(key_expr)
    origin = checked_or("allowed_origin", allowed_origin, Locality, Locality.ANY)
    detection = checked_or("subscriber_detection", subscriber_detection, bool, False)
    context = checked("session", session, Session)._context
    for name, value, kind in (
        ("history", history, HistoryConfig),
        ("recovery", recovery, RecoveryConfig),
    ):
        if value is not None:
            checked(name, value, kind)
    delivery = sample_delivery(context, handler)

    def declare() -> AdvancedSubscriber[object]:
        context.core.face.check_open()
        reorderer = Reorderer(context.core, key, delivery.outlet, history, recovery)
        subscription = reorderer.start(origin, detection=detection)
        return AdvancedSubscriber(context, delivery, subscription, reorderer)

    return context.call(declare)
