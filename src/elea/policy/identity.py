"""Identity: who a neighbour is, as far as its links prove it; and Selection, which names some.

A ZID proves nothing: whoever connects says what it likes. It can be selected by, as in Eclipse
Zenoh, but it is no identity that quotas or the audit go by.
"""

from __future__ import annotations

from typing import Self

from elea.policy.addresses import bucket_of
from elea.policy.records import Record, texts
from elea.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkIdentity:
    """What is known of one link."""

    protocol: str
    interfaces: tuple[str, ...] = ()
    common_name: str | None = None  # of a certificate that was verified
    address: str = ""  # where the neighbour is, without its port


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A neighbour.

    Example:
        >>> Identity(zid="a1", links=(LinkIdentity(protocol="tcp", address="10.0.0.7"),)).name
        'address:10.0.0.7'
        >>> Identity(zid="a1", links=(LinkIdentity(protocol="tcp", address="2001:db8::7"),)).name
        'address:2001:db8::/64'
        >>> Identity(zid="a1", user="anna").name
        'user:anna'
    """

    zid: str  # as text; unproven
    user: str | None = None
    links: tuple[LinkIdentity, ...] = ()

    @property
    def common_names(self) -> tuple[str, ...]:
        """The names of the certificates of its links."""
        found = (link.common_name for link in self.links)
        return tuple(dict.fromkeys(name for name in found if name is not None))

    @property
    def name(self) -> str:
        """Whom quotas go by: the user, else the certificate, else the address.

        Addresses of one IPv6 network are one: a host takes as many of them as it likes.
        """
        if self.user is not None:
            return f"user:{self.user}"
        if self.common_names:
            return f"cert:{self.common_names[0]}"
        return f"address:{bucket_of(self.links[0].address) if self.links else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Some neighbours. None leaves a property open; of those given, all must match.

    Example:
        >>> some = Selection(users=("anna", "otto"))
        >>> some.matches(Identity(zid="a1", user="otto")), some.matches(Identity(zid="a1"))
        (True, False)
    """

    interfaces: tuple[str, ...] | None = None
    protocols: tuple[str, ...] | None = None
    common_names: tuple[str, ...] | None = None
    common_name_prefixes: tuple[str, ...] | None = None
    users: tuple[str, ...] | None = None
    zids: tuple[str, ...] | None = None

    @classmethod
    def read(cls, record: Record) -> Self:
        """The selection that a record of the configuration makes."""
        return cls(
            interfaces=texts(record, "interfaces"),
            protocols=texts(record, "link_protocols"),
            common_names=texts(record, "cert_common_names"),
            common_name_prefixes=texts(record, "cert_common_name_prefixes"),
            users=texts(record, "usernames"),
            zids=texts(record, "zids"),
        )

    def matches(self, identity: Identity) -> bool:
        """Whether a neighbour is one of them: one link of it has all that a link can have."""
        if self.users is not None and identity.user not in self.users:
            return False
        if self.zids is not None and identity.zid not in self.zids:
            return False
        if self._open_to_links():
            return True
        return any(self._matches_link(link) for link in identity.links)

    def _open_to_links(self) -> bool:
        named = (self.interfaces, self.protocols, self.common_names, self.common_name_prefixes)
        return all(one is None for one in named)

    def _matches_link(self, link: LinkIdentity) -> bool:
        if self.interfaces is not None and not any(
            name in self.interfaces for name in link.interfaces
        ):
            return False
        if self.protocols is not None and link.protocol not in self.protocols:
            return False
        if self.common_names is None and self.common_name_prefixes is None:
            return True
        name = link.common_name
        return name is not None and (
            name in (self.common_names or ()) or name.startswith(self.common_name_prefixes or ())
        )
