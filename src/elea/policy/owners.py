"""Owners: which identity a consumer of a log belongs to. Its first commit binds its name."""

from __future__ import annotations

from collections import Counter
from typing import Final

from elea.policy.identity import Identity

_SHARE: Final = 4  # of all consumers, one part is for one identity


class Owners:
    """Consumers by the keys of their commits, and the identities that committed first.

    Only a user or a certificate owns: an address is proof of nothing. Owners are remembered as long
    as the node runs; a rule on `@elea/log/*/commit/${username}` binds names for good.

    Args:
        count_max: How many are remembered; further consumers cannot be claimed. One identity
            claims a quarter of them at most.

    Example:
        >>> owners = Owners(10)
        >>> key = "@elea/log/all/commit/spark"
        >>> owners.refusal(key, Identity(zid="1", user="anna"))
        >>> owners.refusal(key, Identity(zid="2", user="otto"))
        'consumer spark belongs to user:anna'
    """

    __slots__ = ("_count_max", "_counts", "_names")

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._names: dict[str, str] = {}
        self._counts: Counter[str] = Counter()  # of consumers, by identity

    def refusal(self, key: str, identity: Identity) -> str | None:
        """Claim a consumer; why that is refused, or None."""
        owner = self._names.get(key)
        is_proven = identity.user is not None or bool(identity.common_names)
        if owner is None and is_proven:
            if len(self._names) >= self._count_max:
                return f"consumer_owners_count is {self._count_max}, and all are in use"
            share = max(1, self._count_max // _SHARE)
            if self._counts[identity.name] >= share:
                return (
                    f"{identity.name} owns {share} consumers, as many as one identity may"
                    f" (consumer_owners_count is {self._count_max}); commit by fewer names"
                )
            self._names[key] = owner = identity.name
            self._counts[owner] += 1
        if owner is None or owner == identity.name:
            return None
        return f"consumer {key.rpartition('/')[2]} belongs to {owner}"
