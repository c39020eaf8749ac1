"""Wrong passwords, counted by where they come from: nobody guesses faster than a rate."""

from __future__ import annotations

from elea.errors import LocatorError
from elea.limits import Limits
from elea.locator import Locator
from elea.policy.addresses import bucket_of


class Logins:
    """How many more wrong passwords each address may send.

    Example:
        >>> logins = Logins(Limits(login_failures_count=1, login_failure_ns=10))
        >>> logins.failed("10.0.0.1", now_ns=0)
        >>> logins.may_try("10.0.0.1", now_ns=9), logins.may_try("10.0.0.2", now_ns=9)
        (False, True)
        >>> logins.may_try("10.0.0.1", now_ns=10)
        True
    """

    __slots__ = ("_limits", "_paid_ns")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # When all failures of an address are paid for, the one that failed last at the end.
        self._paid_ns: dict[str, int] = {}

    def may_try(self, source: str, now_ns: int) -> bool:
        """Whether somebody at an address may try now."""
        debt_ns = self._paid_ns.get(source, now_ns) - now_ns
        return debt_ns <= (self._limits.login_failures_count - 1) * self._limits.login_failure_ns

    def failed(self, source: str, now_ns: int) -> None:
        """A password was wrong, or a user unknown."""
        paid_ns = max(self._paid_ns.pop(source, 0), now_ns)
        if len(self._paid_ns) >= self._limits.login_sources_count:
            del self._paid_ns[next(iter(self._paid_ns))]
        self._paid_ns[source] = paid_ns + self._limits.login_failure_ns


def source_of(remote: Locator) -> str:
    """What counts as one address at the other end of a link.

    Example:
        >>> source_of(Locator("tcp/10.0.0.1:4000")), source_of(Locator("tls/[2001:db8::1]:1"))
        ('10.0.0.1', '2001:db8::/64')
    """
    try:
        return bucket_of(remote.host_port()[0])
    except LocatorError:  # a path: whoever is there is on this host
        return remote.protocol
