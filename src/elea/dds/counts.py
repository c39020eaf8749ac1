"""What a bridge counts, by name; `elea.dds.names` makes metrics of it (dds.md 19)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class RouteCounts:
    """What passed one route."""

    samples: int = 0
    octets: int = 0
    deletes: int = 0
    deletes_ignored: int = 0
    lost: dict[str, int] = field(default_factory=dict)  # by reason
    last_ns: int = 0  # monotonic, when the last sample passed

    def lose(self, reason: str, count: int = 1) -> None:
        """Count samples that were lost."""
        self.lost[reason] = self.lost.get(reason, 0) + count

    def add(self, other: RouteCounts) -> None:
        """Add the counters of a route that ended."""
        self.samples += other.samples
        self.octets += other.octets
        self.deletes += other.deletes
        self.deletes_ignored += other.deletes_ignored
        for reason, count in other.lost.items():
            self.lose(reason, count)


@dataclass(slots=True)
class BridgeCounts:
    """What a bridge counted; routes that ended are included."""

    from_dds: RouteCounts = field(default_factory=RouteCounts)
    to_dds: RouteCounts = field(default_factory=RouteCounts)
    services: RouteCounts = field(default_factory=RouteCounts)  # requests and replies written
    duplicates: dict[str, int] = field(default_factory=dict)  # dropped, by the rule that says so
    queries: int = 0  # history asked of others
    queries_dropped: int = 0
    replies: int = 0  # history given to others
    type_lookups: int = 0
    type_failures: int = 0
    no_room: int = 0  # DDS writes that found none
    refused: int = 0  # endpoints and participants beyond a limit
    failures: int = 0  # exceptions in the bridge
    turn_ns_max: int = 0  # longest turn of the DDS thread
    stamps_replaced: int = 0  # source times that were not used

    def duplicate(self, rule: str, count: int = 1) -> None:
        """Count samples that a rule dropped because they arrive another way."""
        self.duplicates[rule] = self.duplicates.get(rule, 0) + count
