"""Services as deputies: keys that are denied to a client, reached through services of a router."""

from __future__ import annotations

import json
from typing import Final

from attack.harness import MIB, Check, Target, until
from attack.users import answers, client, guarded, login, offsets

from elea import ext

THREAT: Final = "deputies"
RSS_GROWTH: Final = 96 * MIB
SIZES: Final = {"small": 1, "full": 20}  # times that everything is tried
SERVICES: Final = guarded
CLIENT: Final = login("anna")
_CANARY: Final = b"canary"
_MISSES: Final = ext.MissDetectionConfig()
_PUTS: Final = (
    *("@elea/log/all/put/secret/pin", "@elea/log/*/put/secret/pin", "@elea/*/*/put/secret/pin"),
    *("@elea/l$*/all/put/secret/pin", "@elea/log/all/pu$*/secret/pin", "@elea/log/all/put/**"),
    *("@elea/log/all/put/*/pin", "@elea/**/put/secret/pin", "@elea/**"),
)
_READS: Final = (
    *("@elea/log/all/read/0?lo=0;hi=9", "@elea/log/*/read/0?lo=0;hi=9", "@elea/**/0?lo=0;hi=9"),
    *("@elea/log/all/*/0?lo=0;hi=9", "@elea/log/all/read/0?lo=0;hi=9;keyexpr=secret/**"),
    *("**", "secret/**", "*/pin", "**?_time=[..]", "secret/pin?_at=now()"),
    *("secret/pin/@adv/**?_anyke", "**/@adv/**?_anyke", "*/pin/@adv/pub/**?_anyke;_max=9"),
)


def attack(target: Target, size: int) -> list[Check]:
    """Write, delete, read and commit in the name of services."""
    seen: list[str] = []
    written = read = 0
    with client(target, "anna") as anna, client(target, "mallory") as mallory:
        anna.put("secret/pin", _CANARY, ack="stored")
        cached = ext.declare_advanced_publisher(
            anna, "secret/pin", cache=ext.CacheConfig(9), sample_miss_detection=_MISSES
        )
        cached.put(_CANARY)
        with anna.declare_subscriber("secret/**", lambda one: seen.append(str(one.key_expr))):
            for _ in range(size):
                for selector in _PUTS:
                    for suffix in ("", "?kind=delete", "?kind=put", "?publish=true"):
                        written += len(answers(mallory, selector + suffix, payload=b"evil"))
                        written += len(answers(mallory, selector + suffix))
                for selector in _READS:
                    read += any(_CANARY in one for one in answers(mallory, selector))
            payload = json.dumps({"offsets": {"0": 1}})
            answers(mallory, "@elea/log/all/commit/spark", payload=payload)
            answers(mallory, "@elea/log/*/commit/spark", payload=payload)
            anna.put("secret/last", "x")
            until(lambda: "secret/last" in seen)
        moved = len(offsets(anna))
        kept = answers(anna, "secret/pin")
    return [
        Check("written", written, 0),
        Check("published", len(seen) - 1, 0),
        Check("read", read, 0),
        Check("offsets_moved", moved, 0),
        Check("lost", float(kept != [_CANARY]), 0),
    ]
