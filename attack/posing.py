"""A client declares the queryables of a recorder and of SQL: it is neither asked nor believed.

With access control on, whoever answers in the place of a service needs a rule that names it.
"""

from __future__ import annotations

import json
from typing import Final

from attack.harness import MIB, Check, Target, until
from attack.users import answers, client, guarded, login

import elea

THREAT: Final = "posing as a service"
RSS_GROWTH: Final = 96 * MIB
SIZES: Final = {"small": 10, "full": 500}  # puts
SERVICES: Final = guarded
CLIENT: Final = login("anna")
_LOG: Final = "1c9a3b0e-0000-0000-0000-000000000000"
_STORED: Final = {"log": _LOG, "name": "all", "shard": 0, "seq": 1, "duplicate": False}
_KEYS: Final = (
    *("@elea/log/all/put/**", "@elea/log/*/put/**", "@elea/log/all/puts/**", "@elea/**"),
    *("@elea/log/all/info", "@elea/log/all/read/*", "@elea/log/all/commit/*", "@sql/lake/**"),
)


def attack(target: Target, size: int) -> list[Check]:
    """Answer what is asked of services, and see who asks and who believes it."""
    asked: list[str] = []

    def pose(query: elea.Query) -> None:
        key = str(query.key_expr)
        asked.append(key)
        query.reply(key.replace("**", "x").replace("*", "all"), json.dumps(_STORED))

    believed = unstored = 0
    with client(target, "mallory") as mallory, client(target, "anna") as anna:
        for key in (*_KEYS, "posing/**"):
            mallory.declare_queryable(key, pose)
        until(lambda: answers(anna, "posing/x"))  # it was declared after all others
        for number in range(size):
            stored = anna.put("fleet/anna", str(number), ack="stored", timeout=60)
            believed += _LOG in repr(stored)
        try:
            believed += anna.put("unrecorded/a", "x", ack="stored", timeout=2) is not None
        except elea.StoreError:
            unstored = 1  # nobody records it
        infos = answers(anna, "@elea/log/*/info")
        believed += any(_LOG.encode() in one for one in infos)
        believed += len(answers(anna, "@sql/lake", payload="select 1"))
    posed = [one for one in asked if not one.startswith("posing")]
    return [
        Check("asked", len(posed), 0),
        Check("believed", believed, 0),
        Check("acknowledged_by_nobody", 1 - unstored, 0),
        Check("recorder_not_found", 1 - len(infos), 0),
    ]
