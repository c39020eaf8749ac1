"""Structures and signatures of the C functions of Cyclone DDS, for ctypes (dds.md 3)."""

from __future__ import annotations

import ctypes as ct
from typing import Any

from elea.dds import cyclone_qos


class Info(ct.Structure):
    """What comes with a sample of a built-in topic."""

    _fields_ = (
        ("sample_state", ct.c_int),
        ("view_state", ct.c_int),
        ("instance_state", ct.c_int),
        ("valid_data", ct.c_bool),
        ("source_timestamp", ct.c_int64),
        ("instance_handle", ct.c_uint64),
        ("publication_handle", ct.c_uint64),
        ("disposed_generation_count", ct.c_uint32),
        ("no_writers_generation_count", ct.c_uint32),
        ("sample_rank", ct.c_uint32),
        ("generation_rank", ct.c_uint32),
        ("absolute_generation_rank", ct.c_uint32),
    )


class EndpointSample(ct.Structure):
    """A sample of the topics of writers and readers."""

    _fields_ = (
        ("key", ct.c_uint8 * 16),
        ("participant", ct.c_uint8 * 16),
        ("participant_handle", ct.c_uint64),
        ("topic", ct.c_void_p),
        ("type", ct.c_void_p),
        ("qos", ct.c_void_p),
    )


class ParticipantSample(ct.Structure):
    """A sample of the topic of participants."""

    _fields_ = (("key", ct.c_uint8 * 16), ("qos", ct.c_void_p))


class Descriptor(ct.Structure):
    """A topic descriptor, which holds the bytes of a type."""

    _fields_ = (
        ("size", ct.c_uint32),
        ("align", ct.c_uint32),
        ("flags", ct.c_uint32),
        ("keys_count", ct.c_uint32),
        ("type_name", ct.c_void_p),
        ("keys", ct.c_void_p),
        ("ops_count", ct.c_uint32),
        ("ops", ct.c_void_p),
        ("meta", ct.c_void_p),
        ("info", ct.c_void_p),
        ("info_len", ct.c_uint32),
        ("mapping", ct.c_void_p),
        ("mapping_len", ct.c_uint32),
        ("restrict", ct.c_uint32),
    )


class Incompatible(ct.Structure):
    """A status of incompatible QoS."""

    _fields_ = (
        ("total", ct.c_uint32),
        ("change", ct.c_int32),
        ("policy", ct.c_uint32),
    )


class Rejected(ct.Structure):
    """The status of samples that a reader had no room for."""

    _fields_ = (
        ("total", ct.c_uint32),
        ("change", ct.c_int32),
        ("reason", ct.c_int),
        ("handle", ct.c_uint64),
    )


class Counted(ct.Structure):
    """A status that counts."""

    _fields_ = (
        ("total", ct.c_uint32),
        ("change", ct.c_int32),
        ("handle", ct.c_uint64),
    )


def declare(c: ct.CDLL) -> None:
    """Tell ctypes the signatures of C functions."""
    cyclone_qos.declare(c)
    entity, ptr, i64, u32 = ct.c_int32, ct.c_void_p, ct.c_int64, ct.c_uint32
    signatures: dict[str, tuple[list[Any], Any]] = {
        "dds_create_domain": ([u32, ct.c_char_p], entity),
        "dds_create_participant": ([u32, ptr, ptr], entity),
        "dds_create_reader": ([entity, entity, ptr, ptr], entity),
        "dds_create_writer": ([entity, entity, ptr, ptr], entity),
        "dds_create_readcondition": ([entity, u32], entity),
        "dds_create_guardcondition": ([entity], entity),
        "dds_set_guardcondition": ([entity, ct.c_bool], entity),
        "dds_take_guardcondition": ([entity, ct.POINTER(ct.c_bool)], entity),
        "dds_create_waitset": ([entity], entity),
        "dds_waitset_attach": ([entity, entity, ct.c_ssize_t], entity),
        "dds_waitset_detach": ([entity, entity], entity),
        "dds_waitset_wait": ([entity, ptr, ct.c_size_t, i64], entity),
        "dds_take": ([entity, ptr, ptr, ct.c_size_t, u32], entity),
        "dds_return_loan": ([entity, ptr, entity], entity),
        "dds_delete": ([entity], entity),
        "dds_get_guid": ([entity, ptr], entity),
        "dds_get_instance_handle": ([entity, ptr], entity),
        "dds_write_flush": ([entity], entity),
        "dds_wait_for_acks": ([entity, i64], entity),
        "dds_triggered": ([entity], entity),
        "dds_assert_liveliness": ([entity], entity),
        "dds_strretcode": ([entity], ptr),
        "dds_builtintopic_get_endpoint_type_info": ([ptr, ct.POINTER(ptr)], entity),
        "dds_create_topic_descriptor": ([ct.c_int, entity, ptr, i64, ct.POINTER(ptr)], entity),
        "dds_delete_topic_descriptor": ([ptr], None),
        "dds_get_matched_publications": ([entity, ptr, ct.c_size_t], entity),
        "dds_get_matched_subscriptions": ([entity, ptr, ct.c_size_t], entity),
        "dds_get_requested_incompatible_qos_status": ([entity, ptr], entity),
        "dds_get_offered_incompatible_qos_status": ([entity, ptr], entity),
        "dds_get_sample_lost_status": ([entity, ptr], entity),
        "dds_get_sample_rejected_status": ([entity, ptr], entity),
        "dds_get_offered_deadline_missed_status": ([entity, ptr], entity),
        "ddsi_typeinfo_dup": ([ptr], ptr),
        "ddsi_typeinfo_free": ([ptr], None),
        "ddsi_typeinfo_complete_typeid": ([ptr], ptr),
        "ddsi_typeinfo_minimal_typeid": ([ptr], ptr),
        "ddsi_typeid_is_hash": ([ptr], ct.c_bool),
        "ddsi_typeid_get_equivalence_hash": ([ptr, ptr], None),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(c, name)
        function.argtypes = arguments
        function.restype = result
