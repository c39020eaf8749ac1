"""Records to octets.

Generated from src/elea/xrce/schema/messages.xrce by tools/gen_xrce.py: do not edit.
"""

from __future__ import annotations

from typing import cast

from elea.limits import (
    XRCE_BATCH_COUNT_MAX,
    XRCE_DECLARATIONS_COUNT_MAX,
    XRCE_MASK_BITS_MAX,
    XRCE_PROPERTIES_COUNT_MAX,
    XRCE_PROPERTY_LEN_MAX,
)
from elea.xrce.buffer import missing, put_byte, put_count, put_nat, put_octets, put_wide, unwanted
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


def _write_property(out: bytearray, this: Property) -> None:
    put_nat(out, this.id, "Property.id")
    put_octets(out, this.value, "Property.value", XRCE_PROPERTY_LEN_MAX)


def _write_resource_decl(out: bytearray, this: ResourceDecl) -> None:
    header = 1
    if this.properties:
        header |= 0x20
    out.append(header)
    put_nat(out, this.rid, "ResourceDecl.rid")
    put_octets(out, this.resource, "ResourceDecl.resource")
    if this.properties:
        _write_properties(out, this.properties)


def _write_publisher_decl(out: bytearray, this: PublisherDecl) -> None:
    header = 2
    if this.properties:
        header |= 0x20
    out.append(header)
    put_nat(out, this.rid, "PublisherDecl.rid")
    if this.properties:
        _write_properties(out, this.properties)


def _write_subscriber_decl_params_part(out: bytearray, this: SubscriberDeclParamsPart) -> None:
    put_nat(out, this.temporal_origin, "SubscriberDeclParamsPart.temporalOrigin")
    put_nat(out, this.period, "SubscriberDeclParamsPart.period")
    put_nat(out, this.duration, "SubscriberDeclParamsPart.duration")


def _write_subscriber_decl(out: bytearray, this: SubscriberDecl) -> None:
    header = 3
    if this.properties:
        header |= 0x20
    out.append(header)
    put_nat(out, this.id, "SubscriberDecl.id")
    put_nat(out, this.mode, "SubscriberDecl.mode")
    if this.mode in (PERIODIC_PUSH_MODE_ID, PERIODIC_PULL_MODE_ID):
        params0 = this.params
        if params0 is None:
            raise missing("SubscriberDecl.params", "mode")
        _write_subscriber_decl_params_part(out, params0)
    elif this.params is not None:
        raise unwanted("SubscriberDecl.params", "mode")
    if this.properties:
        _write_properties(out, this.properties)


def _write_selection_decl(out: bytearray, this: SelectionDecl) -> None:
    header = 4
    if this.global_:
        header |= 0x80
    if this.properties:
        header |= 0x20
    out.append(header)
    put_nat(out, this.sid, "SelectionDecl.sid")
    put_octets(out, this.query, "SelectionDecl.query")
    if this.properties:
        _write_properties(out, this.properties)


def _write_binding_decl(out: bytearray, this: BindingDecl) -> None:
    header = 5
    if this.global_:
        header |= 0x80
    out.append(header)
    put_nat(out, this.old_id, "BindingDecl.oldId")
    put_nat(out, this.new_id, "BindingDecl.newId")


def _write_commit_decl(out: bytearray, this: CommitDecl) -> None:
    out.append(6)
    put_byte(out, this.commit_id, "CommitDecl.commitId")


def _write_result_decl(out: bytearray, this: ResultDecl) -> None:
    out.append(7)
    put_byte(out, this.commit_id, "ResultDecl.commitId")
    put_byte(out, this.status, "ResultDecl.status")
    if 1 <= this.status <= 255:
        id0 = this.id
        if id0 is None:
            raise missing("ResultDecl.id", "status")
        put_nat(out, id0, "ResultDecl.id")
    elif this.id is not None:
        raise unwanted("ResultDecl.id", "status")


def _write_forget_resource_decl(out: bytearray, this: ForgetResourceDecl) -> None:
    out.append(8)
    put_nat(out, this.rid, "ForgetResourceDecl.rid")


def _write_forget_publisher_decl(out: bytearray, this: ForgetPublisherDecl) -> None:
    out.append(9)
    put_nat(out, this.id, "ForgetPublisherDecl.id")


def _write_forget_subscriber_decl(out: bytearray, this: ForgetSubscriberDecl) -> None:
    out.append(10)
    put_nat(out, this.id, "ForgetSubscriberDecl.id")


def _write_forget_selection_decl(out: bytearray, this: ForgetSelectionDecl) -> None:
    out.append(11)
    put_nat(out, this.sid, "ForgetSelectionDecl.sid")


def write_declaration(out: bytearray, declaration: Declaration) -> None:
    """Append a declaration."""
    if isinstance(declaration, ResourceDecl):
        _write_resource_decl(out, declaration)
    elif isinstance(declaration, PublisherDecl):
        _write_publisher_decl(out, declaration)
    elif isinstance(declaration, SubscriberDecl):
        _write_subscriber_decl(out, declaration)
    elif isinstance(declaration, SelectionDecl):
        _write_selection_decl(out, declaration)
    elif isinstance(declaration, BindingDecl):
        _write_binding_decl(out, declaration)
    elif isinstance(declaration, CommitDecl):
        _write_commit_decl(out, declaration)
    elif isinstance(declaration, ResultDecl):
        _write_result_decl(out, declaration)
    elif isinstance(declaration, ForgetResourceDecl):
        _write_forget_resource_decl(out, declaration)
    elif isinstance(declaration, ForgetPublisherDecl):
        _write_forget_publisher_decl(out, declaration)
    elif isinstance(declaration, ForgetSubscriberDecl):
        _write_forget_subscriber_decl(out, declaration)
    else:
        _write_forget_selection_decl(out, declaration)


def _write_scout(out: bytearray, this: Scout) -> None:
    header = 1
    if this.properties:
        header |= 0x20
    out.append(header)
    put_nat(out, this.mask, "Scout.mask")
    if this.properties:
        _write_properties(out, this.properties)


def _write_hello(out: bytearray, this: Hello) -> None:
    header = 2
    if this.properties:
        header |= 0x20
    out.append(header)
    put_nat(out, this.mask, "Hello.mask")
    put_count(out, len(this.locators), "Hello.locators")
    for locators_item in this.locators:
        put_octets(out, locators_item, "Hello.locators[]")
    if this.properties:
        _write_properties(out, this.properties)


def _write_open(out: bytearray, this: Open) -> None:
    header = 3
    if this.properties:
        header |= 0x20
    out.append(header)
    put_byte(out, this.version, "Open.version")
    put_octets(out, this.pid, "Open.pid")
    put_nat(out, this.lease, "Open.lease")
    put_count(out, len(this.locators), "Open.locators")
    for locators_item in this.locators:
        put_octets(out, locators_item, "Open.locators[]")
    if this.properties:
        _write_properties(out, this.properties)


def _write_accept(out: bytearray, this: Accept) -> None:
    header = 4
    if this.properties:
        header |= 0x20
    out.append(header)
    put_octets(out, this.open_pid, "Accept.openPid")
    put_octets(out, this.accept_pid, "Accept.acceptPid")
    put_nat(out, this.lease, "Accept.lease")
    if this.properties:
        _write_properties(out, this.properties)


def _write_close(out: bytearray, this: Close) -> None:
    out.append(5)
    put_octets(out, this.pid, "Close.pid")
    put_byte(out, this.reason, "Close.reason")


def _write_declare(out: bytearray, this: Declare) -> None:
    header = 6
    if this.sync:
        header |= 0x20
    if this.committed:
        header |= 0x40
    out.append(header)
    put_nat(out, this.sn, "Declare.sn")
    put_count(out, len(this.declarations), "Declare.declarations", XRCE_DECLARATIONS_COUNT_MAX)
    for declarations_item in this.declarations:
        write_declaration(out, declarations_item)


def _write_stream_data(out: bytearray, this: StreamData) -> None:
    header = 7
    if this.reliable:
        header |= 0x40
    if this.sync:
        header |= 0x20
    if this.prid is not None:
        header |= 0x80
    out.append(header)
    put_nat(out, this.sn, "StreamData.sn")
    put_nat(out, this.id, "StreamData.id")
    if this.prid is not None:
        put_nat(out, this.prid, "StreamData.prid")
    put_octets(out, this.payload, "StreamData.payload")


def _write_batched_data_payload_part(out: bytearray, this: BatchedDataPayloadPart) -> None:
    put_nat(out, this.prid, "BatchedDataPayloadPart.prid")
    put_octets(out, this.payload, "BatchedDataPayloadPart.payload")


def _write_batched_data(out: bytearray, this: BatchedData) -> None:
    header = 8
    if this.reliable:
        header |= 0x40
    if this.sync:
        header |= 0x20
    if this.has_prid:
        header |= 0x80
    out.append(header)
    put_nat(out, this.sn, "BatchedData.sn")
    put_nat(out, this.id, "BatchedData.id")
    if not this.has_prid:
        payload0 = cast("tuple[bytes, ...]", this.payload)
        put_count(out, len(payload0), "BatchedData.payload", XRCE_BATCH_COUNT_MAX)
        for payload0_item in payload0:
            put_octets(out, payload0_item, "BatchedData.payload[]")
    else:
        payload1 = cast("tuple[BatchedDataPayloadPart, ...]", this.payload)
        put_count(out, len(payload1), "BatchedData.payload", XRCE_BATCH_COUNT_MAX)
        for payload1_item in payload1:
            _write_batched_data_payload_part(out, payload1_item)


def _write_write_data(out: bytearray, this: WriteData) -> None:
    header = 9
    if this.reliable:
        header |= 0x40
    if this.sync:
        header |= 0x20
    out.append(header)
    put_nat(out, this.sn, "WriteData.sn")
    put_octets(out, this.resource, "WriteData.resource")
    put_octets(out, this.payload, "WriteData.payload")


def _write_pull(out: bytearray, this: Pull) -> None:
    header = 11
    if this.sync:
        header |= 0x20
    if this.max_samples is not None:
        header |= 0x40
    out.append(header)
    put_nat(out, this.sn, "Pull.sn")
    put_nat(out, this.id, "Pull.id")
    put_nat(out, this.pull_id, "Pull.pullId")
    if this.max_samples is not None:
        put_nat(out, this.max_samples, "Pull.maxSamples")


def _write_ping(out: bytearray, this: Ping) -> None:
    out.append(12)
    put_nat(out, this.hash, "Ping.hash")


def _write_pong(out: bytearray, this: Pong) -> None:
    out.append(13)
    put_nat(out, this.hash, "Pong.hash")


def _write_synch(out: bytearray, this: Synch) -> None:
    header = 14
    if this.reliable:
        header |= 0x40
    if this.sync:
        header |= 0x20
    if this.count is not None:
        header |= 0x80
    out.append(header)
    put_nat(out, this.sn, "Synch.sn")
    if this.count is not None:
        put_nat(out, this.count, "Synch.count")


def _write_ack_nack(out: bytearray, this: AckNack) -> None:
    header = 15
    if this.mask is not None:
        header |= 0x20
    out.append(header)
    put_nat(out, this.sn, "AckNack.sn")
    if this.mask is not None:
        put_wide(out, this.mask, "AckNack.mask", XRCE_MASK_BITS_MAX)


def _write_keep_alive(out: bytearray, this: KeepAlive) -> None:
    out.append(16)
    put_octets(out, this.pid, "KeepAlive.pid")


def _write_frag(out: bytearray, this: Frag) -> None:
    header = 18
    if this.n is not None:
        header |= 0x40
    out.append(header)
    put_nat(out, this.sn_base, "Frag.snBase")
    if this.n is not None:
        put_nat(out, this.n, "Frag.n")


def _write_conduit(out: bytearray, this: Conduit) -> None:
    header = 19
    if this.compact:
        header |= 0x80
    if this.compact:
        flagged1 = cast("ConduitIdPart", this.id)
        if flagged1.id1:
            header |= 0x40
        if flagged1.id0:
            header |= 0x20
    out.append(header)
    if not this.compact:
        id0 = cast("int", this.id)
        put_nat(out, id0, "Conduit.id")


def write_message(out: bytearray, message: Message) -> None:
    """Append a message."""
    if isinstance(message, Scout):
        _write_scout(out, message)
    elif isinstance(message, Hello):
        _write_hello(out, message)
    elif isinstance(message, Open):
        _write_open(out, message)
    elif isinstance(message, Accept):
        _write_accept(out, message)
    elif isinstance(message, Close):
        _write_close(out, message)
    elif isinstance(message, Declare):
        _write_declare(out, message)
    elif isinstance(message, StreamData):
        _write_stream_data(out, message)
    elif isinstance(message, BatchedData):
        _write_batched_data(out, message)
    elif isinstance(message, WriteData):
        _write_write_data(out, message)
    elif isinstance(message, Pull):
        _write_pull(out, message)
    elif isinstance(message, Ping):
        _write_ping(out, message)
    elif isinstance(message, Pong):
        _write_pong(out, message)
    elif isinstance(message, Synch):
        _write_synch(out, message)
    elif isinstance(message, AckNack):
        _write_ack_nack(out, message)
    elif isinstance(message, KeepAlive):
        _write_keep_alive(out, message)
    elif isinstance(message, Frag):
        _write_frag(out, message)
    else:
        _write_conduit(out, message)


def _write_properties(out: bytearray, this: tuple[Property, ...]) -> None:
    put_count(out, len(this), "Properties", XRCE_PROPERTIES_COUNT_MAX)
    for this_item in this:
        _write_property(out, this_item)


def encode(message: Message) -> bytes:
    """The octets of a message."""
    out = bytearray()
    write_message(out, message)
    return bytes(out)
