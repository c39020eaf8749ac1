"""Octets to records.

Generated from src/elea/xrce/schema/messages.xrce by tools/gen_xrce.py: do not edit.
"""

from __future__ import annotations

from elea.errors import DecodeError
from elea.limits import (
    XRCE_BATCH_COUNT_MAX,
    XRCE_DECLARATIONS_COUNT_MAX,
    XRCE_MASK_BITS_MAX,
    XRCE_PROPERTIES_COUNT_MAX,
    XRCE_PROPERTY_LEN_MAX,
)
from elea.xrce.buffer import Reader
from elea.xrce.declaration_records import (
    PERIODIC_PULL_MODE_ID,
    PERIODIC_PUSH_MODE_ID,
    BindingDecl,
    CommitDecl,
    Declaration,
    ForgetPublisherDecl,
    ForgetResourceDecl,
    ForgetSelectionDecl,
    ForgetSubscriberDecl,
    Property,
    PublisherDecl,
    ResourceDecl,
    ResultDecl,
    SelectionDecl,
    SubscriberDecl,
    SubscriberDeclParamsPart,
)
from elea.xrce.message_records import (
    Accept,
    AckNack,
    BatchedData,
    BatchedDataPayloadPart,
    Close,
    Conduit,
    ConduitIdPart,
    Declare,
    Frag,
    Hello,
    KeepAlive,
    Message,
    Open,
    Ping,
    Pong,
    Pull,
    Scout,
    StreamData,
    Synch,
    WriteData,
)


def _read_property(reader: Reader) -> Property:
    id = reader.nat("id")
    value = reader.octets("value", XRCE_PROPERTY_LEN_MAX)
    return Property(id=id, value=value)


def _read_resource_decl(reader: Reader, header: int) -> ResourceDecl:
    rid = reader.nat("rid")
    resource = reader.octets("resource")
    properties = _read_properties(reader) if header & 0x20 else None
    return ResourceDecl(rid=rid, resource=resource, properties=properties)


def _read_publisher_decl(reader: Reader, header: int) -> PublisherDecl:
    rid = reader.nat("rid")
    properties = _read_properties(reader) if header & 0x20 else None
    return PublisherDecl(rid=rid, properties=properties)


def _read_subscriber_decl_params_part(reader: Reader) -> SubscriberDeclParamsPart:
    temporal_origin = reader.nat("temporalOrigin")
    period = reader.nat("period")
    duration = reader.nat("duration")
    return SubscriberDeclParamsPart(
        temporal_origin=temporal_origin, period=period, duration=duration
    )


def _read_subscriber_decl(reader: Reader, header: int) -> SubscriberDecl:
    id = reader.nat("id")
    mode = reader.nat("mode")
    params: SubscriberDeclParamsPart | None = None
    if mode in (PERIODIC_PUSH_MODE_ID, PERIODIC_PULL_MODE_ID):
        params = _read_subscriber_decl_params_part(reader)
    properties = _read_properties(reader) if header & 0x20 else None
    return SubscriberDecl(id=id, mode=mode, params=params, properties=properties)


def _read_selection_decl(reader: Reader, header: int) -> SelectionDecl:
    global_ = header & 0x80 != 0
    sid = reader.nat("sid")
    query = reader.octets("query")
    properties = _read_properties(reader) if header & 0x20 else None
    return SelectionDecl(global_=global_, sid=sid, query=query, properties=properties)


def _read_binding_decl(reader: Reader, header: int) -> BindingDecl:
    global_ = header & 0x80 != 0
    old_id = reader.nat("oldId")
    new_id = reader.nat("newId")
    return BindingDecl(global_=global_, old_id=old_id, new_id=new_id)


def _read_commit_decl(reader: Reader, header: int) -> CommitDecl:
    commit_id = reader.byte("commitId")
    return CommitDecl(commit_id=commit_id)


def _read_result_decl(reader: Reader, header: int) -> ResultDecl:
    commit_id = reader.byte("commitId")
    status = reader.byte("status")
    id: int | None = None
    if 1 <= status <= 255:
        id = reader.nat("id")
    return ResultDecl(commit_id=commit_id, status=status, id=id)


def _read_forget_resource_decl(reader: Reader, header: int) -> ForgetResourceDecl:
    rid = reader.nat("rid")
    return ForgetResourceDecl(rid=rid)


def _read_forget_publisher_decl(reader: Reader, header: int) -> ForgetPublisherDecl:
    id = reader.nat("id")
    return ForgetPublisherDecl(id=id)


def _read_forget_subscriber_decl(reader: Reader, header: int) -> ForgetSubscriberDecl:
    id = reader.nat("id")
    return ForgetSubscriberDecl(id=id)


def _read_forget_selection_decl(reader: Reader, header: int) -> ForgetSelectionDecl:
    sid = reader.nat("sid")
    return ForgetSelectionDecl(sid=sid)


def read_declaration(reader: Reader) -> Declaration:
    """The next declaration."""
    at = reader.pos
    header = reader.byte("kind")
    kind = header & 0x1F
    if kind == 1:
        return _read_resource_decl(reader, header)
    if kind == 2:
        return _read_publisher_decl(reader, header)
    if kind == 3:
        return _read_subscriber_decl(reader, header)
    if kind == 4:
        return _read_selection_decl(reader, header)
    if kind == 5:
        return _read_binding_decl(reader, header)
    if kind == 6:
        return _read_commit_decl(reader, header)
    if kind == 7:
        return _read_result_decl(reader, header)
    if kind == 8:
        return _read_forget_resource_decl(reader, header)
    if kind == 9:
        return _read_forget_publisher_decl(reader, header)
    if kind == 10:
        return _read_forget_subscriber_decl(reader, header)
    if kind == 11:
        return _read_forget_selection_decl(reader, header)
    raise DecodeError(f"kind is {kind}, which has no definition", at)


def _read_scout(reader: Reader, header: int) -> Scout:
    mask = reader.nat("mask")
    properties = _read_properties(reader) if header & 0x20 else None
    return Scout(mask=mask, properties=properties)


def _read_hello(reader: Reader, header: int) -> Hello:
    mask = reader.nat("mask")
    locators_list: list[bytes] = []
    for _ in range(reader.count("locators")):
        locators_list.append(reader.octets("locators"))
    locators = tuple(locators_list)
    properties = _read_properties(reader) if header & 0x20 else None
    return Hello(mask=mask, locators=locators, properties=properties)


def _read_open(reader: Reader, header: int) -> Open:
    version = reader.byte("version")
    pid = reader.octets("pid")
    lease = reader.nat("lease")
    locators_list: list[bytes] = []
    for _ in range(reader.count("locators")):
        locators_list.append(reader.octets("locators"))
    locators = tuple(locators_list)
    properties = _read_properties(reader) if header & 0x20 else None
    return Open(version=version, pid=pid, lease=lease, locators=locators, properties=properties)


def _read_accept(reader: Reader, header: int) -> Accept:
    open_pid = reader.octets("openPid")
    accept_pid = reader.octets("acceptPid")
    lease = reader.nat("lease")
    properties = _read_properties(reader) if header & 0x20 else None
    return Accept(open_pid=open_pid, accept_pid=accept_pid, lease=lease, properties=properties)


def _read_close(reader: Reader, header: int) -> Close:
    pid = reader.octets("pid")
    reason = reader.byte("reason")
    return Close(pid=pid, reason=reason)


def _read_declare(reader: Reader, header: int) -> Declare:
    sync = header & 0x20 != 0
    committed = header & 0x40 != 0
    sn = reader.nat("sn")
    declarations_list: list[Declaration] = []
    for _ in range(reader.count("declarations", XRCE_DECLARATIONS_COUNT_MAX)):
        declarations_list.append(read_declaration(reader))
    declarations = tuple(declarations_list)
    return Declare(sync=sync, committed=committed, sn=sn, declarations=declarations)


def _read_stream_data(reader: Reader, header: int) -> StreamData:
    reliable = header & 0x40 != 0
    sync = header & 0x20 != 0
    sn = reader.nat("sn")
    id = reader.nat("id")
    prid = reader.nat("prid") if header & 0x80 else None
    payload = reader.octets("payload")
    return StreamData(reliable=reliable, sync=sync, sn=sn, id=id, prid=prid, payload=payload)


def _read_batched_data_payload_part(reader: Reader) -> BatchedDataPayloadPart:
    prid = reader.nat("prid")
    payload = reader.octets("payload")
    return BatchedDataPayloadPart(prid=prid, payload=payload)


def _read_batched_data(reader: Reader, header: int) -> BatchedData:
    reliable = header & 0x40 != 0
    sync = header & 0x20 != 0
    sn = reader.nat("sn")
    id = reader.nat("id")
    has_prid = header & 0x80 != 0
    payload: tuple[bytes, ...] | tuple[BatchedDataPayloadPart, ...]
    if not has_prid:
        payload0_list: list[bytes] = []
        for _ in range(reader.count("payload", XRCE_BATCH_COUNT_MAX)):
            payload0_list.append(reader.octets("payload"))
        payload = tuple(payload0_list)
    else:
        payload1_list: list[BatchedDataPayloadPart] = []
        for _ in range(reader.count("payload", XRCE_BATCH_COUNT_MAX)):
            payload1_list.append(_read_batched_data_payload_part(reader))
        payload = tuple(payload1_list)
    return BatchedData(
        reliable=reliable, sync=sync, sn=sn, id=id, has_prid=has_prid, payload=payload
    )


def _read_write_data(reader: Reader, header: int) -> WriteData:
    reliable = header & 0x40 != 0
    sync = header & 0x20 != 0
    sn = reader.nat("sn")
    resource = reader.octets("resource")
    payload = reader.octets("payload")
    return WriteData(reliable=reliable, sync=sync, sn=sn, resource=resource, payload=payload)


def _read_pull(reader: Reader, header: int) -> Pull:
    sync = header & 0x20 != 0
    sn = reader.nat("sn")
    id = reader.nat("id")
    pull_id = reader.nat("pullId")
    max_samples = reader.nat("maxSamples") if header & 0x40 else None
    return Pull(sync=sync, sn=sn, id=id, pull_id=pull_id, max_samples=max_samples)


def _read_ping(reader: Reader, header: int) -> Ping:
    hash = reader.nat("hash")
    return Ping(hash=hash)


def _read_pong(reader: Reader, header: int) -> Pong:
    hash = reader.nat("hash")
    return Pong(hash=hash)


def _read_synch(reader: Reader, header: int) -> Synch:
    reliable = header & 0x40 != 0
    sync = header & 0x20 != 0
    sn = reader.nat("sn")
    count = reader.nat("count") if header & 0x80 else None
    return Synch(reliable=reliable, sync=sync, sn=sn, count=count)


def _read_ack_nack(reader: Reader, header: int) -> AckNack:
    sn = reader.nat("sn")
    mask = reader.wide("mask", XRCE_MASK_BITS_MAX) if header & 0x20 else None
    return AckNack(sn=sn, mask=mask)


def _read_keep_alive(reader: Reader, header: int) -> KeepAlive:
    pid = reader.octets("pid")
    return KeepAlive(pid=pid)


def _read_frag(reader: Reader, header: int) -> Frag:
    sn_base = reader.nat("snBase")
    n = reader.nat("n") if header & 0x40 else None
    return Frag(sn_base=sn_base, n=n)


def _read_conduit(reader: Reader, header: int) -> Conduit:
    compact = header & 0x80 != 0
    id: int | ConduitIdPart
    if not compact:
        id = reader.nat("id")
    else:
        id_id1 = header & 0x40 != 0
        id_id0 = header & 0x20 != 0
        id = ConduitIdPart(id1=id_id1, id0=id_id0)
    return Conduit(compact=compact, id=id)


def read_message(reader: Reader) -> Message:
    """The next message."""
    at = reader.pos
    header = reader.byte("kind")
    kind = header & 0x1F
    if kind == 1:
        return _read_scout(reader, header)
    if kind == 2:
        return _read_hello(reader, header)
    if kind == 3:
        return _read_open(reader, header)
    if kind == 4:
        return _read_accept(reader, header)
    if kind == 5:
        return _read_close(reader, header)
    if kind == 6:
        return _read_declare(reader, header)
    if kind == 7:
        return _read_stream_data(reader, header)
    if kind == 8:
        return _read_batched_data(reader, header)
    if kind == 9:
        return _read_write_data(reader, header)
    if kind == 11:
        return _read_pull(reader, header)
    if kind == 12:
        return _read_ping(reader, header)
    if kind == 13:
        return _read_pong(reader, header)
    if kind == 14:
        return _read_synch(reader, header)
    if kind == 15:
        return _read_ack_nack(reader, header)
    if kind == 16:
        return _read_keep_alive(reader, header)
    if kind == 18:
        return _read_frag(reader, header)
    if kind == 19:
        return _read_conduit(reader, header)
    raise DecodeError(f"kind is {kind}, which has no definition", at)


def _read_properties(reader: Reader) -> tuple[Property, ...]:
    found_list: list[Property] = []
    for _ in range(reader.count("properties", XRCE_PROPERTIES_COUNT_MAX)):
        found_list.append(_read_property(reader))
    return tuple(found_list)
