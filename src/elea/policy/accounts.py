"""Accounts: what each identity has used of its quota, the debts of those who left among them."""

from __future__ import annotations

from elea.policy.quota import Account, AccountKey, Quota


class Accounts:
    """The accounts of a node.

    An identity that leaves keeps its account, so that it does not come back without its debt. Where
    too many have left, those who owe least are forgotten first: many names that owe little do not
    pay the debt of one that owes much. An eighth is forgotten at once, so that a newcomer costs a
    few comparisons on average.

    Args:
        left_count_max: How many accounts without a face are kept.

    Example:
        >>> from elea.policy.identity import Selection
        >>> quota = Quota(id="few", selection=Selection(), messages_per_second=1)
        >>> accounts = Accounts(2)
        >>> for name, count in (("debtor", 9), ("second", 1), ("third", 1)):
        ...     for _ in range(count):
        ...         _ = accounts.get(quota, name, 0).spend(0, 0)
        >>> len(accounts), accounts.get(quota, "debtor", 0).wait_ns(0)
        (2, 8000000000)
    """

    __slots__ = ("_connected", "_left", "_left_count_max")

    def __init__(self, left_count_max: int) -> None:
        self._left_count_max = left_count_max
        self._connected: dict[AccountKey, Account] = {}
        self._left: dict[AccountKey, Account] = {}

    def __len__(self) -> int:
        return len(self._connected) + len(self._left)

    def get(self, quota: Quota, name: str, now_ns: int) -> Account:
        """Return the account that an identity has, had before it left, or gets now."""
        key = (quota.id, name)
        account = self._connected.get(key) or self._left.get(key)
        if account is None:
            account = Account(quota, now_ns, name)
            self._keep(account, now_ns)
        return account

    def join(self, account: Account, face_id: int) -> None:
        """Count what a face sends."""
        account.faces.add(face_id)
        self._left.pop(account.key, None)
        self._connected[account.key] = account

    def leave(self, account: Account, face_id: int, now_ns: int) -> None:
        """Remember what is owed when the last face of an identity is gone."""
        account.faces.discard(face_id)
        if not account.faces and self._connected.pop(account.key, None) is not None:
            self._keep(account, now_ns)

    def clear(self) -> None:
        """Forget all debts: the quotas are others."""
        self._connected.clear()
        self._left.clear()

    def _keep(self, account: Account, now_ns: int) -> None:
        if len(self._left) >= self._left_count_max:
            by_debt = sorted(self._left.items(), key=lambda item: item[1].debt_ns(now_ns))
            for key, _ in by_debt[: max(len(by_debt) // 8, 1)]:
                del self._left[key]
        self._left[account.key] = account
