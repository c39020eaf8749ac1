"""Elea: the Zenoh data space in Python, with Apache Spark as its data pipeline.

The public names are loaded on first use, so that a program pays only for what it touches.
"""

from elea import pure

pure.install()  # first: it decides which build of the compiled modules every later import gets

# Where each public name is defined. A name stands here and in the imports for type checkers below;
# tests/meta/test_exports.py holds the two equal.
_HOMES = {
    "elea.config.config": "Config",
    "elea.encoding": "Encoding",
    "elea.errors": """
        AckTimeoutError ClosedError ConfigError CorruptLogError DecodeError EleaError
        InvalidValueError KeyExprError LimitError LinkError LocalProtocolError LocatorError
        MissingDependencyError NotRecordedError NotStoredError ProtocolError
        RemoteProtocolError SelectorError StoreError ZError
    """,
    "elea.ids": "EntityGlobalId WhatAmI WhatAmIMatcher ZenohId",
    "elea.keyexpr.keyexpr": "KeyExpr SetIntersectionLevel",
    "elea.keyexpr.template": "KeyFormat",
    "elea.keyexpr.tree": "KeyExprTree",
    "elea.limits": "Limits",
    "elea.locator": "Endpoint Locator",
    "elea.parameters": "Parameters",
    "elea.qos": "CongestionControl Locality Priority Reliability",
    "elea.query": "ConsolidationMode QueryConsolidation QueryTarget ReplyKeyExpr",
    "elea.sample": """
        Hello InterceptionPoint Reply ReplyError Sample SampleKind SourceInfo TimestampContext
        TimestampInstrumentation TimestampInstrumentationBuilder TimestampStack
        TimestampStackRecord
    """,
    "elea.selector": "Selector",
    "elea.session.ack": "StoredAck",
    "elea.session.cancellation": "CancellationToken",
    "elea.session.handlers": "Handler",
    "elea.session.info": "LinkEventsListener SessionInfo TransportEventsListener",
    "elea.session.listeners": "MatchingListener",
    "elea.session.liveliness": "Liveliness LivelinessToken",
    "elea.session.logs": "init_log_from_env_or try_init_log_from_env",
    "elea.session.matching": "MatchingStatus",
    "elea.session.neighbours": "Link LinkEvent Transport TransportEvent",
    "elea.session.publisher": "Publisher",
    "elea.session.querier": "Querier",
    "elea.session.query": "Query",
    "elea.session.queryable": "Queryable",
    "elea.session.scouting": "Scout scout",
    "elea.session.session": "Session open",
    "elea.session.spool": "Spool SpoolStats",
    "elea.session.subscriber": "Subscriber",
    "elea.timerange": "TimeRange",
    "elea.timestamp": "NTP64 HybridClock Timestamp TimestampId",
    "elea.zbytes": "ZBytes",
}

_DOORWAYS = ("aio", "ext", "handlers", "shm")  # modules of their own that `elea.` reaches

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)

# `typing` would cost every `import elea` some milliseconds; type checkers know this idiom.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from elea import aio as aio
    from elea import ext as ext
    from elea import handlers as handlers
    from elea import shm as shm
    from elea.config.config import Config as Config
    from elea.encoding import Encoding as Encoding
    from elea.errors import AckTimeoutError as AckTimeoutError
    from elea.errors import ClosedError as ClosedError
    from elea.errors import ConfigError as ConfigError
    from elea.errors import CorruptLogError as CorruptLogError
    from elea.errors import DecodeError as DecodeError
    from elea.errors import EleaError as EleaError
    from elea.errors import InvalidValueError as InvalidValueError
    from elea.errors import KeyExprError as KeyExprError
    from elea.errors import LimitError as LimitError
    from elea.errors import LinkError as LinkError
    from elea.errors import LocalProtocolError as LocalProtocolError
    from elea.errors import LocatorError as LocatorError
    from elea.errors import MissingDependencyError as MissingDependencyError
    from elea.errors import NotRecordedError as NotRecordedError
    from elea.errors import NotStoredError as NotStoredError
    from elea.errors import ProtocolError as ProtocolError
    from elea.errors import RemoteProtocolError as RemoteProtocolError
    from elea.errors import SelectorError as SelectorError
    from elea.errors import StoreError as StoreError
    from elea.errors import ZError as ZError
    from elea.ids import EntityGlobalId as EntityGlobalId
    from elea.ids import WhatAmI as WhatAmI
    from elea.ids import WhatAmIMatcher as WhatAmIMatcher
    from elea.ids import ZenohId as ZenohId
    from elea.keyexpr.keyexpr import KeyExpr as KeyExpr
    from elea.keyexpr.keyexpr import SetIntersectionLevel as SetIntersectionLevel
    from elea.keyexpr.template import KeyFormat as KeyFormat
    from elea.keyexpr.tree import KeyExprTree as KeyExprTree
    from elea.limits import Limits as Limits
    from elea.locator import Endpoint as Endpoint
    from elea.locator import Locator as Locator
    from elea.parameters import Parameters as Parameters
    from elea.qos import CongestionControl as CongestionControl
    from elea.qos import Locality as Locality
    from elea.qos import Priority as Priority
    from elea.qos import Reliability as Reliability
    from elea.query import ConsolidationMode as ConsolidationMode
    from elea.query import QueryConsolidation as QueryConsolidation
    from elea.query import QueryTarget as QueryTarget
    from elea.query import ReplyKeyExpr as ReplyKeyExpr
    from elea.sample import Hello as Hello
    from elea.sample import InterceptionPoint as InterceptionPoint
    from elea.sample import Reply as Reply
    from elea.sample import ReplyError as ReplyError
    from elea.sample import Sample as Sample
    from elea.sample import SampleKind as SampleKind
    from elea.sample import SourceInfo as SourceInfo
    from elea.sample import TimestampContext as TimestampContext
    from elea.sample import TimestampInstrumentation as TimestampInstrumentation
    from elea.sample import TimestampInstrumentationBuilder as TimestampInstrumentationBuilder
    from elea.sample import TimestampStack as TimestampStack
    from elea.sample import TimestampStackRecord as TimestampStackRecord
    from elea.selector import Selector as Selector
    from elea.session.ack import StoredAck as StoredAck
    from elea.session.cancellation import CancellationToken as CancellationToken
    from elea.session.handlers import Handler as Handler
    from elea.session.info import LinkEventsListener as LinkEventsListener
    from elea.session.info import SessionInfo as SessionInfo
    from elea.session.info import TransportEventsListener as TransportEventsListener
    from elea.session.listeners import MatchingListener as MatchingListener
    from elea.session.liveliness import Liveliness as Liveliness
    from elea.session.liveliness import LivelinessToken as LivelinessToken
    from elea.session.logs import init_log_from_env_or as init_log_from_env_or
    from elea.session.logs import try_init_log_from_env as try_init_log_from_env
    from elea.session.matching import MatchingStatus as MatchingStatus
    from elea.session.neighbours import Link as Link
    from elea.session.neighbours import LinkEvent as LinkEvent
    from elea.session.neighbours import Transport as Transport
    from elea.session.neighbours import TransportEvent as TransportEvent
    from elea.session.publisher import Publisher as Publisher
    from elea.session.querier import Querier as Querier
    from elea.session.query import Query as Query
    from elea.session.queryable import Queryable as Queryable
    from elea.session.scouting import Scout as Scout
    from elea.session.scouting import scout as scout
    from elea.session.session import Session as Session
    from elea.session.session import open as open
    from elea.session.spool import Spool as Spool
    from elea.session.spool import SpoolStats as SpoolStats
    from elea.session.subscriber import Subscriber as Subscriber
    from elea.timerange import TimeRange as TimeRange
    from elea.timestamp import NTP64 as NTP64
    from elea.timestamp import HybridClock as HybridClock
    from elea.timestamp import Timestamp as Timestamp
    from elea.timestamp import TimestampId as TimestampId
    from elea.zbytes import ZBytes as ZBytes

    __version__: str
else:

    def __getattr__(name):
        from importlib import import_module

        if name == "__version__":
            value = import_module("elea.version").VERSION
        elif name in _DOORWAYS:
            return import_module(f"elea.{name}")
        elif name in _HOME_OF:
            value = getattr(import_module(_HOME_OF[name]), name)
        else:
            raise AttributeError(f"module 'elea' has no attribute {name!r}")
        globals()[name] = value  # the next access costs nothing
        return value

    def __dir__():
        return sorted({*globals(), *__all__, "__version__"})
