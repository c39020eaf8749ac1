"""What became of a message that was handed over to be sent: one vocabulary, from link to session.

A transport answers SENT, DROPPED or REFUSED. A node queues what its transport refused, so that
routing and sessions are answered SENT, DROPPED or QUEUED. Of several answers the greatest counts.
"""

from __future__ import annotations

from typing import Final

SENT: Final = 0  # in a batch, or there is no destination
DROPPED: Final = 1  # lost to congestion or its length, and counted where that happened
QUEUED: Final = 2  # accepted, but waits for room: the caller should wait as well
REFUSED: Final = 3  # not accepted: there is no room for a message that must not be dropped
