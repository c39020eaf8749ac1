"""What the verbs take by name, as types."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from elea.provenance import SourceInfo, TimestampInstrumentation
from elea.qos import CongestionControl, Locality, Priority, Reliability
from elea.query import QueryTarget, ReplyKeyExpr
from elea.session.cancellation import CancellationToken
from elea.session.convert import IntoEncoding, IntoQueryConsolidation, IntoZBytes
from elea.timestamp import Timestamp

if TYPE_CHECKING:
    from elea.session.since import IntoSince


class PutOptions(TypedDict, total=False):
    """What `Session.put` and `delete` take by name."""

    congestion_control: CongestionControl | None
    priority: Priority | None
    express: bool | None
    attachment: IntoZBytes | None
    timestamp: Timestamp | None
    timestamp_instrumentation: TimestampInstrumentation | None
    allowed_destination: Locality | None
    source_info: SourceInfo | None


class PublicationOptions(TypedDict, total=False):
    """What `Publisher.put` and `delete` take by name."""

    attachment: IntoZBytes | None
    timestamp: Timestamp | None
    timestamp_instrumentation: TimestampInstrumentation | None
    source_info: SourceInfo | None


class SubscriberOptions(TypedDict, total=False):
    """What `Session.declare_subscriber` takes by name."""

    allowed_origin: Locality | None
    since: IntoSince | None


class PublisherOptions(TypedDict, total=False):
    """What `Session.declare_publisher` takes by name."""

    encoding: IntoEncoding | None
    congestion_control: CongestionControl | None
    priority: Priority | None
    express: bool | None
    reliability: Reliability | None
    allowed_destination: Locality | None


class QuerierOptions(TypedDict, total=False):
    """What `Session.declare_querier` takes by name."""

    target: QueryTarget | None
    consolidation: IntoQueryConsolidation | None
    accept_replies: ReplyKeyExpr | None
    timeout: float | None
    congestion_control: CongestionControl | None
    priority: Priority | None
    express: bool | None
    allowed_destination: Locality | None


class QueryOptions(TypedDict, total=False):
    """What every `get` takes by name."""

    payload: IntoZBytes | None
    encoding: IntoEncoding | None
    attachment: IntoZBytes | None
    source_info: SourceInfo | None
    cancellation_token: CancellationToken | None
    timestamp_instrumentation: TimestampInstrumentation | None


class GetOptions(QuerierOptions, QueryOptions, total=False):
    """What `Session.get` takes by name."""
