"""Which reading of the protocol is spoken where the specification and the world differ.

`ECLIPSE` is what Eclipse Zenoh 1.x and zenoh-pico put on the wire, and the default. `SPECIFICATION`
follows the specification pages to the letter. They part in the codec at three places: the suffix of
the WireExpr extension is length-prefixed (wire.md 12, row 1), QueryableInfo packs its distance from
bit 1 on (row 2), and the TsStack extension does not exist (row 19).
"""

from __future__ import annotations

from enum import Enum


class Dialect(Enum):
    """The reading of the protocol that a Reader or Writer follows."""

    ECLIPSE = "eclipse"
    SPECIFICATION = "specification"
