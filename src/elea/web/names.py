"""The metrics of REST: name to type, labels and meaning. For the code and for the reference."""

from __future__ import annotations

from typing import Final

METRICS: Final[dict[str, tuple[str, tuple[str, ...], str]]] = {
    "elea_rest_requests": ("counter", ("method", "status"), "Requests that were answered."),
    "elea_rest_refusals": ("counter", ("reason",), "Requests and connections that were refused."),
    "elea_rest_streams": ("gauge", (), "Subscriptions by server-sent events."),
    "elea_rest_stream_samples": ("counter", (), "Samples sent to such subscriptions."),
    "elea_rest_stream_dropped": ("counter", (), "Samples dropped because a browser was slow."),
    "elea_rest_replies_dropped": ("counter", (), "Replies dropped for want of room."),
    "elea_ui_connections": ("gauge", (), "Live connections of pages."),
    "elea_ui_frames": ("counter", (), "Frames sent to pages."),
    "elea_ui_bytes": ("counter", (), "Bytes of these frames."),
}

COMMON_NAME: Final = "elea.common_name"  # in the scope of a request: of its certificate

# Why something was refused: the label `reason`.
REASONS: Final = {
    "host": "the name in `Host` is not one of ours",
    "origin": "a page of somebody else asked",
    "token": "no token, or a wrong one",
    "access": "access rules deny it, or deny a reply or sample that was left out",
    "request": "the key, the selector or the path is not legal",
    "body": "the body is too long, came too slowly, or is one of a GET",
    "http": "it was no HTTP, or its headers were too long or too slow",
    "connections": "too many connections, in all or of one address",
    "streams": "too many subscriptions",
    "pages": "too many live connections of pages",
    "live": "a live connection without a ticket, or with messages that are not legal",
    "deadline": "it took too long",
    "error": "an error of the service, which is in the log",
}
