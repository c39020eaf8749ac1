"""Services as deputies: keys that are denied to a client, reached through services of a router."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from attack.harness import MIB, PATIENCE_S, Check, Target, until
from attack.users import answers, client, guarded, login, offsets

from elea import Session, ext

THREAT: Final = "deputies"
RSS_GROWTH: Final = 96 * MIB
SIZES: Final = {"small": 1, "full": 20}  # times that everything is tried
_SMALL: Final = {
    "id": "small",
    "flows": ["ingress"],
    "messages": ["put"],
    "key_exprs": ["fleet/small/**"],
    "size_limit": 8,
}
CLIENT: Final = login("anna")
_CANARY: Final = b"canary"
_FORGED: Final = b"forged"
_HISTORY: Final = ext.HistoryConfig(detect_late_publishers=True)
_MISSES: Final = ext.MissDetectionConfig()
_PUTS: Final = (
    *("@elea/log/all/put/secret/pin", "@elea/log/*/put/secret/pin", "@elea/*/*/put/secret/pin"),
    *("@elea/l$*/all/put/secret/pin", "@elea/log/all/pu$*/secret/pin", "@elea/log/all/put/**"),
    *("@elea/log/all/put/*/pin", "@elea/**/put/secret/pin", "@elea/**"),
    *("@elea/log/all/puts/secret/pin", "@elea/log/*/put$*/secret/pin"),
)
# A batch, as a spool forwards samples: one put, with a time that is later than that of any other.
_BATCH: Final = json.dumps([[0, "ab", 1, 7, 1 << 63, "ab", "", 4, None]]).encode() + b"\0" + b"evil"
_READS: Final = (
    *("@elea/log/all/read/0?lo=0;hi=9", "@elea/log/*/read/0?lo=0;hi=9", "@elea/**/0?lo=0;hi=9"),
    *("@elea/log/all/*/0?lo=0;hi=9", "@elea/log/all/read/0?lo=0;hi=9;keyexpr=secret/**"),
    *("**", "secret/**", "*/pin", "**?_time=[..]", "secret/pin?_at=now()"),
    *("secret/pin/@adv/**?_anyke", "**/@adv/**?_anyke", "*/pin/@adv/pub/**?_anyke;_max=9"),
)


def services(folder: Path, port: int) -> dict[str, object]:
    """Users, and a bound for the size of what they put on some keys."""
    return {**guarded(folder, port), "low_pass_filter": [_SMALL]}


SERVICES: Final = services


def attack(target: Target, size: int) -> list[Check]:
    """Write, delete, read and commit in the name of services."""
    seen: list[str] = []
    history: list[bytes] = []
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
                        written += len(answers(mallory, selector + suffix, payload=_BATCH))
                for selector in _READS:
                    read += any(_CANARY in one for one in answers(mallory, selector))
            payload = json.dumps({"offsets": {"0": 1}})
            answers(mallory, "@elea/log/all/commit/spark", payload=payload)
            answers(mallory, "@elea/log/*/commit/spark", payload=payload)
            forge(mallory)
            oversized = sum(
                len(answers(mallory, f"@elea/{head}/put/fleet/small/1", payload=b"x" * 9))
                for head in ("log/all", "log/*", "*/*", "l$*/all")
            )
            anna.put("secret/last", "x")
            until(lambda: "secret/last" in seen)
        with ext.declare_advanced_subscriber(anna, "secret/*", history=_HISTORY) as recalled:
            history += [recalled.recv(PATIENCE_S).payload.to_bytes()]  # all come at once
            history += [one.payload.to_bytes() for one in recalled.drain()]
        moved = len(offsets(anna))
        kept = answers(anna, "secret/pin")
    return [
        Check("forged", sum(one == _FORGED for one in history), 0),
        Check("written", written, 0),
        Check("published", len(seen) - 1, 0),
        Check("read", read, 0),
        Check("oversized", oversized, 0),
        Check("offsets_moved", moved, 0),
        Check("lost", float(kept != [_CANARY]), 0),
    ]


def forge(mallory: Session) -> None:
    """Pose as the caches of publishers whose keys are denied."""
    for key in ("secret/pin/@adv/pub/1/2/_", "**/@adv/**"):
        mallory.declare_queryable(key, lambda query: query.reply("secret/pin", _FORGED))
    mallory.liveliness().declare_token("secret/pin/@adv/pub/1/2/_")
    mallory.put("secret/pin/@adv/pub/1/2/_", b"\xff\0\0\0")
