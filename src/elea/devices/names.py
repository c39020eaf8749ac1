"""The metrics of a gateway: name, kind, which of its counters, meaning."""

from __future__ import annotations

from typing import Final

METRICS: Final[dict[str, tuple[str, str, str]]] = {
    "elea_xrce_devices": ("gauge", "devices", "Devices that have a session"),
    "elea_xrce_connections": ("gauge", "connections_open", "TCP connections of devices"),
    "elea_xrce_connections_refused": (
        "counter",
        "connections_refused",
        "TCP connections that were one too many",
    ),
    "elea_xrce_sessions_ended": ("counter", "gateway_ended", "Sessions of devices that ended"),
    "elea_xrce_frames_received": ("counter", "received", "Frames of devices"),
    "elea_xrce_frames_sent": ("counter", "sent", "Frames to devices"),
    "elea_xrce_frames_lost": (
        "counter",
        "sent_lost",
        "Frames to devices that no socket took; what is reliable is sent again",
    ),
    "elea_xrce_strays": ("counter", "strays", "Messages and frames that belong to no session"),
    "elea_xrce_opens_unproven": (
        "counter",
        "unproven",
        "Opens without the proof of a key, where devices have keys",
    ),
    "elea_xrce_forbidden": (
        "counter",
        "gateway_forbidden",
        "Declarations, samples and pulls of devices that they are not allowed",
    ),
    "elea_xrce_samples_written": ("counter", "gateway_written", "Samples of devices"),
    "elea_xrce_samples_dropped": (
        "counter",
        "gateway_dropped",
        "Samples of devices without a usable name or id",
    ),
    "elea_xrce_samples_refused": (
        "counter",
        "gateway_refused",
        "Durable samples of devices that there was no room for",
    ),
    "elea_xrce_persistent_failures": (
        "counter",
        "persistent_failed",
        "Errors of the disk with persistent samples; sessions of who wrote them end",
    ),
    "elea_xrce_limited": (
        "counter",
        "gateway_limited",
        "Samples and questions of devices beyond a quota, a size limit or down-sampling",
    ),
    "elea_xrce_samples_told": ("counter", "space_told", "Samples of others that devices wanted"),
    "elea_xrce_samples_behind": (
        "counter",
        "space_dropped",
        "Samples of others that found the line of the gateway full, or had no plain key",
    ),
    "elea_xrce_samples_outdated": (
        "counter",
        "gateway_stores_dropped",
        "Samples that devices did not fetch in time",
    ),
    "elea_xrce_gaps": (
        "counter",
        "gateway_gaps",
        "Reliable messages of devices that they no longer had when they were asked for",
    ),
    "elea_xrce_fragments_dropped": (
        "counter",
        "gateway_fragments_dropped",
        "Samples of devices whose fragments did not become a whole",
    ),
    "elea_xrce_samples_too_long": (
        "counter",
        "gateway_too_long",
        "Samples for devices that their frames, or their memory, do not take",
    ),
    "elea_xrce_queries_refused": (
        "counter",
        "space_queries_refused",
        "Queries that found the line of the gateway full",
    ),
    "elea_xrce_stalls": (
        "counter",
        "stalls",
        "Times that readers of reliable samples, or the disk, held the gateway up for 200 ms",
    ),
    "elea_xrce_failures": ("counter", "failed", "Errors of the gateway itself; see its log"),
}
