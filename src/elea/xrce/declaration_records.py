"""The family Declaration, as classes.

Generated from src/elea/xrce/schema/messages.xrce by tools/gen_xrce.py: do not edit.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from elea.xrce.buffer import Record

RESOURCE_DECL_ID: Final = 1
PUBLISHER_DECL_ID: Final = 2
SUBSCRIBER_DECL_ID: Final = 3
SELECTION_DECL_ID: Final = 4
BINDING_DECL_ID: Final = 5
COMMIT_DECL_ID: Final = 6
RESULT_DECL_ID: Final = 7
FORGET_RESOURCE_DECL_ID: Final = 8
FORGET_PUBLISHER_DECL_ID: Final = 9
FORGET_SUBSCRIBER_DECL_ID: Final = 10
FORGET_SELECTION_DECL_ID: Final = 11
PUSH_MODE_ID: Final = 1
PULL_MODE_ID: Final = 2
PERIODIC_PUSH_MODE_ID: Final = 3
PERIODIC_PULL_MODE_ID: Final = 4


class Property(Record):
    """Property: id, value."""

    __slots__ = ("id", "value")

    def __init__(self, *, id: int, value: bytes) -> None:
        self.id: Final = id
        self.value: Final = value

    def members(self) -> tuple[str, ...]:
        return ("id", "value")


class ResourceDecl(Record):
    """ResourceDecl.

    |x|x|P|    1    |
    ~      rid      ~  nat
    ~   resource    ~  string
    ~  properties   ~  [Property], if P
    """

    __slots__ = ("properties", "resource", "rid")

    def __init__(
        self, *, rid: int, resource: bytes, properties: tuple[Property, ...] | None = None
    ) -> None:
        self.rid: Final = rid
        self.resource: Final = resource
        self.properties: Final = properties

    def members(self) -> tuple[str, ...]:
        return ("rid", "resource", "properties")


class PublisherDecl(Record):
    """PublisherDecl.

    |x|x|P|    2    |
    ~      rid      ~  nat
    ~  properties   ~  [Property], if P
    """

    __slots__ = ("properties", "rid")

    def __init__(self, *, rid: int, properties: tuple[Property, ...] | None = None) -> None:
        self.rid: Final = rid
        self.properties: Final = properties

    def members(self) -> tuple[str, ...]:
        return ("rid", "properties")


class SubscriberDeclParamsPart(Record):
    """SubscriberDeclParamsPart: temporalOrigin, period, duration."""

    __slots__ = ("duration", "period", "temporal_origin")

    def __init__(self, *, temporal_origin: int, period: int, duration: int) -> None:
        self.temporal_origin: Final = temporal_origin
        self.period: Final = period
        self.duration: Final = duration

    def members(self) -> tuple[str, ...]:
        return ("temporal_origin", "period", "duration")


class SubscriberDecl(Record):
    """SubscriberDecl.

    |x|x|P|    3    |
    ~      id       ~  nat
    ~     mode      ~  SubscriptionModeId
    ~temporalOrigin ~  nat, if mode is PeriodicPushModeId or PeriodicPullModeId
    ~    period     ~  nat, if mode is PeriodicPushModeId or PeriodicPullModeId
    ~   duration    ~  nat, if mode is PeriodicPushModeId or PeriodicPullModeId
    ~  properties   ~  [Property], if P
    """

    __slots__ = ("id", "mode", "params", "properties")

    def __init__(
        self,
        *,
        id: int,
        mode: int,
        params: SubscriberDeclParamsPart | None = None,
        properties: tuple[Property, ...] | None = None,
    ) -> None:
        self.id: Final = id
        self.mode: Final = mode
        self.params: Final = params
        self.properties: Final = properties

    def members(self) -> tuple[str, ...]:
        return ("id", "mode", "params", "properties")


class SelectionDecl(Record):
    """SelectionDecl.

    |G|x|P|    4    |
    ~      sid      ~  nat
    ~     query     ~  string
    ~  properties   ~  [Property], if P
    """

    __slots__ = ("global_", "properties", "query", "sid")

    def __init__(
        self,
        *,
        global_: bool,
        sid: int,
        query: bytes,
        properties: tuple[Property, ...] | None = None,
    ) -> None:
        self.global_: Final = global_
        self.sid: Final = sid
        self.query: Final = query
        self.properties: Final = properties

    def members(self) -> tuple[str, ...]:
        return ("global_", "sid", "query", "properties")


class BindingDecl(Record):
    """BindingDecl.

    |G|x|x|    5    |
    ~     oldId     ~  nat
    ~     newId     ~  nat
    """

    __slots__ = ("global_", "new_id", "old_id")

    def __init__(self, *, global_: bool, old_id: int, new_id: int) -> None:
        self.global_: Final = global_
        self.old_id: Final = old_id
        self.new_id: Final = new_id

    def members(self) -> tuple[str, ...]:
        return ("global_", "old_id", "new_id")


class CommitDecl(Record):
    """CommitDecl.

    |x|x|x|    6    |
    |   commitId    |  byte
    """

    __slots__ = ("commit_id",)

    def __init__(self, *, commit_id: int) -> None:
        self.commit_id: Final = commit_id

    def members(self) -> tuple[str, ...]:
        return ("commit_id",)


class ResultDecl(Record):
    """ResultDecl.

    |x|x|x|    7    |
    |   commitId    |  byte
    |    status     |  byte
    ~      id       ~  nat, if status is 1 to 255
    """

    __slots__ = ("commit_id", "id", "status")

    def __init__(self, *, commit_id: int, status: int, id: int | None = None) -> None:
        self.commit_id: Final = commit_id
        self.status: Final = status
        self.id: Final = id

    def members(self) -> tuple[str, ...]:
        return ("commit_id", "status", "id")


class ForgetResourceDecl(Record):
    """ForgetResourceDecl.

    |x|x|x|    8    |
    ~      rid      ~  nat
    """

    __slots__ = ("rid",)

    def __init__(self, *, rid: int) -> None:
        self.rid: Final = rid

    def members(self) -> tuple[str, ...]:
        return ("rid",)


class ForgetPublisherDecl(Record):
    """ForgetPublisherDecl.

    |x|x|x|    9    |
    ~      id       ~  nat
    """

    __slots__ = ("id",)

    def __init__(self, *, id: int) -> None:
        self.id: Final = id

    def members(self) -> tuple[str, ...]:
        return ("id",)


class ForgetSubscriberDecl(Record):
    """ForgetSubscriberDecl.

    |x|x|x|   10    |
    ~      id       ~  nat
    """

    __slots__ = ("id",)

    def __init__(self, *, id: int) -> None:
        self.id: Final = id

    def members(self) -> tuple[str, ...]:
        return ("id",)


class ForgetSelectionDecl(Record):
    """ForgetSelectionDecl.

    |x|x|x|   11    |
    ~      sid      ~  nat
    """

    __slots__ = ("sid",)

    def __init__(self, *, sid: int) -> None:
        self.sid: Final = sid

    def members(self) -> tuple[str, ...]:
        return ("sid",)


Declaration: TypeAlias = (
    ResourceDecl
    | PublisherDecl
    | SubscriberDecl
    | SelectionDecl
    | BindingDecl
    | CommitDecl
    | ResultDecl
    | ForgetResourceDecl
    | ForgetPublisherDecl
    | ForgetSubscriberDecl
    | ForgetSelectionDecl
)
