"""The metrics of a bridge: name, kind, which of its counters, meaning."""

from __future__ import annotations

from typing import Final

METRICS: Final[dict[str, tuple[str, str, str]]] = {
    "elea_dds_participants": ("gauge", "participants", "Participants of the DDS domains"),
    "elea_dds_endpoints": ("gauge", "endpoints", "Writers and readers of the DDS domains"),
    "elea_dds_routes": ("gauge", "routes", "Routes between topics and keys"),
    "elea_dds_routes_active": ("gauge", "routes_active", "Routes that carry samples"),
    "elea_dds_routes_waiting": ("gauge", "routes_waiting", "Routes that no subscriber wants"),
    "elea_dds_routes_standby": ("gauge", "routes_standby", "Routes that another bridge serves"),
    "elea_dds_routes_no_type": ("gauge", "routes_no_type", "Routes whose type is not known"),
    "elea_dds_routes_failed": ("gauge", "routes_failed", "Routes that failed and are retried"),
    "elea_dds_routes_full": ("gauge", "routes_full", "Routes that reached a limit"),
    "elea_dds_from_samples": ("counter", "from_dds_samples", "Samples put from DDS"),
    "elea_dds_from_bytes": ("counter", "from_dds_bytes", "Bytes of samples put from DDS"),
    "elea_dds_from_deletes": ("counter", "from_dds_deletes", "Instances that ended in DDS"),
    "elea_dds_from_lost": ("counter", "from_dds_lost", "Samples of DDS that were not put"),
    "elea_dds_from_lost_no_room": (
        "counter",
        "from_dds_lost_no_room",
        "Best-effort samples of DDS that found no room",
    ),
    "elea_dds_from_lost_too_large": (
        "counter",
        "from_dds_lost_too_large",
        "Samples of DDS that exceed dds_sample_len",
    ),
    "elea_dds_to_samples": ("counter", "to_dds_samples", "Samples written to DDS"),
    "elea_dds_to_bytes": ("counter", "to_dds_bytes", "Bytes of samples written to DDS"),
    "elea_dds_to_deletes": ("counter", "to_dds_deletes", "Instances ended in DDS by deletes"),
    "elea_dds_to_lost": ("counter", "to_dds_lost", "Samples that were not written to DDS"),
    "elea_dds_to_lost_refused_representation": (
        "counter",
        "to_dds_lost_refused_representation",
        "Payloads without a usable encapsulation header",
    ),
    "elea_dds_to_lost_refused_value": (
        "counter",
        "to_dds_lost_refused_value",
        "Payloads that are not a value of the topic's type",
    ),
    "elea_dds_to_lost_line_full": (
        "counter",
        "to_dds_lost_line_full",
        "Samples for DDS that found the line of their route full",
    ),
    "elea_dds_to_lost_too_large": (
        "counter",
        "to_dds_lost_too_large",
        "Samples for DDS that exceed dds_sample_len",
    ),
    "elea_dds_service_samples": ("counter", "service_samples", "ROS requests and replies written"),
    "elea_dds_service_lost": ("counter", "service_lost", "ROS requests and replies not passed on"),
    "elea_dds_cache_samples": ("gauge", "cache_samples", "Samples kept for late joiners"),
    "elea_dds_cache_bytes": ("gauge", "cache_bytes", "Bytes kept for late joiners"),
    "elea_dds_cache_dropped": ("counter", "cache_dropped", "Kept samples dropped at the limit"),
    "elea_dds_queries": ("counter", "queries", "History queries"),
    "elea_dds_queries_dropped": ("counter", "queries_dropped", "History queries not sent"),
    "elea_dds_replies": ("counter", "replies", "Samples given to history queries"),
    "elea_dds_duplicates": ("counter", "duplicates", "Samples dropped: they arrive another way"),
    "elea_dds_type_lookups": ("counter", "type_lookups", "Type lookups at DDS peers"),
    "elea_dds_type_failures": ("counter", "type_failures", "Types that no peer answered"),
    "elea_dds_writes_no_room": ("counter", "no_room", "DDS writes that found no room"),
    "elea_dds_refused": ("counter", "refused", "Participants and endpoints beyond a limit"),
    "elea_dds_failures": ("counter", "failures", "Unexpected errors in the bridge"),
    "elea_dds_stamps_replaced": ("counter", "stamps_replaced", "Source times that were not used"),
    "elea_dds_datagrams_dropped": (
        "counter",
        "datagrams_dropped",
        "Datagrams that the host dropped before DDS read them",
    ),
    "elea_dds_turn_us_max": ("gauge", "turn_us_max", "Longest turn of the DDS thread, in us"),
}
