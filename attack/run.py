"""Attack a router on loopback, and say whether its bounds held. See README.md beside this file."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

# After the path: this file is run as a program, by its name.
from attack.harness import MIB, Check, Healthy, Services, Settings, Target  # noqa: E402

ATTACKS: Final = (
    "garbage",
    "fragments",
    "silent",
    "silent_tls",
    "scouting",
    "expressions",
    "declarations",
    "interests",
    "queries",
    "slow_consumer",
    "timestamps",
    "callbacks",
    "sessions",
    "forks",
    "stuck_neighbour",
    "link_state",
    "forged_inits",
    "rest_writes",
    "rest_slow",
    "deputies",
    "sql_bombs",
    "history",
    "many_askers",
    "receipts",
    "recorder_flood",
    "retried_tasks",
    "request_ids",
    "dialling",
    "id_spaces",
    "quotas",
    "spool_drain",
    "posing",
    "reload",
    "widening",
)


class Attack(Protocol):
    """A module of this folder."""

    THREAT: str
    RSS_GROWTH: int  # how much memory the router may have more afterwards, in octets
    SIZES: Mapping[str, int]
    # And perhaps SCHEME, SETTINGS, CLIENT and SERVICES, as `Target` has them.

    def attack(self, target: Target, size: int) -> list[Check]: ...


def assault(name: str, target: Target, size: str) -> list[Check]:
    """Do one attack, and look at what became of the router."""
    module: Attack = load(name)
    target.counter("elea_sessions")  # so that the session that asks is part of the base
    base = target.rss_len()
    checks = module.attack(target, module.SIZES[size])
    grown = round((target.rss_len() - base) / MIB, 1)
    return [
        *checks,
        Check("router_gone", float(not target.alive), 0),
        Check("rss_growth_mib", grown, module.RSS_GROWTH / MIB),
    ]


def needs_own(name: str) -> bool:
    """Whether an attack is on a router with services that only it needs."""
    return hasattr(load(name), "SERVICES")


def load(name: str) -> Any:
    """The module of an attack."""
    return importlib.import_module(f"attack.{name}")


def target_for(name: str, peer: str) -> Target:
    """A router as an attack needs it."""
    module = load(name)
    settings: Settings = getattr(module, "SETTINGS", {})
    client: Settings = getattr(module, "CLIENT", {})
    services: Services | None = getattr(module, "SERVICES", None)
    return Target(peer, getattr(module, "SCHEME", "tcp"), settings, client, services)


def run(name: str, peer: str, size: str) -> dict[str, object]:
    """Run one attack; the figures, and whether they held."""
    with target_for(name, peer) as target:
        healthy = Healthy(target)
        try:
            checks = assault(name, target, size)
            figures = healthy.stop()
            overflowed = target.overflowed() if target.endpoint.startswith("udp/") else 0
        finally:
            healthy.kill()
    # A flood of datagrams fills the socket's buffer, and the kernel then drops anybody's.
    checks += [
        Check("healthy_lost", figures.get("lost", float("inf")), overflowed),
        Check("healthy_p99_ms", figures.get("p99_ms", float("inf")), 50, timed=True),
    ]
    return {
        "attack": name,
        "threat": load(name).THREAT,
        "peer": peer,
        "size": size,
        "figures": {
            one.name: {"value": one.value, "bound": one.bound, "timed": one.timed, "held": one.held}
            for one in checks
        },
        "healthy": figures,
        "held": all(one.held or (one.timed and size == "small") for one in checks),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attack", choices=(*ATTACKS, "all"))
    parser.add_argument("--peer", choices=("elea", "eclipse"), default="elea")
    parser.add_argument("--size", choices=("small", "full"), default="full")
    args = parser.parse_args()
    held = True
    for name in ATTACKS if args.attack == "all" else (args.attack,):
        if args.peer != "elea" and needs_own(name):
            continue  # it has no such services
        print(f"==> {name}", file=sys.stderr)
        outcome = run(name, args.peer, args.size)
        print(json.dumps(outcome), flush=True)
        held = held and bool(outcome["held"])
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
