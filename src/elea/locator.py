"""Where a node can be reached (wire.md 2.10): locators travel, endpoints are configured.

    locator  = protocol "/" address [ "?" metadata ]
    endpoint = protocol "/" address [ "?" metadata ] [ "#" config ]

Metadata and config are parameter lists; their names are sorted in the canonical form, and a
locator with unsorted names is refused by other nodes. Addresses are not interpreted here beyond
`host_port`, and any protocol is accepted: what cannot be dialled is still passed on.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final, Self

from elea.errors import LocatorError
from elea.limits import LOCATOR_LEN_MAX
from elea.parameters import Pair, join_pairs, split_pairs
from elea.records import dataclass
from elea.secret import Secret

_PORT_MAX: Final = 65_535
_SECRET_WORDS: Final = ("private_key_base64", "password")  # in names of an endpoint's config


@dataclass(frozen=True, slots=True, order=True)
class Locator:
    """An address as nodes tell it to each other.

    Args:
        text: the canonical text; use `parse` for what a person wrote.

    Raises:
        LocatorError: if it is malformed, longer than 255 octets, has unsorted metadata or a config.

    Example:
        >>> locator = Locator("tcp/[::1]:7447?prio=1-5;rel=1")
        >>> locator.protocol, locator.host_port(), locator.metadata
        ('tcp', ('::1', 7447), (('prio', '1-5'), ('rel', '1')))
    """

    text: str

    def __post_init__(self) -> None:
        _check_utf8(self.text)
        length = len(self.text.encode())
        if length > LOCATOR_LEN_MAX:
            raise LocatorError(
                self.text, len(self.text), f"at most {LOCATOR_LEN_MAX} octets travel, got {length}"
            )
        parts = _split(self.text)
        if parts.config is not None:
            at = self.text.index("#")
            raise LocatorError(self.text, at, "a locator has no '#' config; that is an endpoint")
        names = [name for name, _ in parts.metadata]
        if names != sorted(names):
            at = self.text.index("?") + 1
            raise LocatorError(self.text, at, f"metadata is not sorted by name: {names[:8]!a}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The locator a person wrote; its metadata is put in order.

        Example:
            >>> str(Locator.parse("udp/host:7447?rel=0;prio=5"))
            'udp/host:7447?prio=5;rel=0'
        """
        parts = _split(text)
        if parts.config is not None:
            return cls(text)  # refused there, with the offset
        return cls(_join(parts.protocol, parts.address, _sorted(parts.metadata)))

    @property
    def protocol(self) -> str:
        """The part before the first slash, such as `tcp`."""
        return self.text.partition("/")[0]

    @property
    def address(self) -> str:
        """What the protocol is to make of: a host and port, a path, a device."""
        return _split(self.text).address

    @property
    def metadata(self) -> tuple[Pair, ...]:
        """The parameters that travel with the address, such as `rel` and `prio`."""
        return _split(self.text).metadata

    def host_port(self) -> tuple[str, int]:
        """The address as a host, without the brackets of IPv6, and a port.

        Raises:
            LocatorError: if the address is not `host:port` or `[ipv6]:port`.
        """
        return _host_port(self.text, self.protocol, self.address)

    def __str__(self) -> str:
        return self.text


def parse_locators(texts: Iterable[str]) -> tuple[Locator, ...]:
    """The locators of a list, in its order.

    Raises:
        LocatorError: for the first text that is none.
    """
    return tuple(Locator.parse(text) for text in texts)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A locator with what this node needs to use it: certificates, interface, retry periods.

    Inline private keys and passwords are `Secret`s; `str` shows them as `***`.

    Example:
        >>> endpoint = Endpoint.parse("tls/host:7447#verify_name_on_connect=false")
        >>> str(endpoint.locator()), endpoint.get("verify_name_on_connect")
        ('tls/host:7447', 'false')
    """

    protocol: str
    address: str
    metadata: tuple[Pair, ...] = ()
    config: tuple[tuple[str, str | Secret], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """The endpoint of a text; metadata and config are put in order.

        Raises:
            LocatorError: with the offset where the text stops being an endpoint.
        """
        parts = _split(text)
        config = tuple(
            (name, Secret(value) if _is_secret(name) else value)
            for name, value in _sorted(parts.config or ())
        )
        return cls(parts.protocol, parts.address, _sorted(parts.metadata), config)

    def get(self, name: str) -> str | Secret | None:
        """The first value of this name in the config, or in the metadata."""
        pairs = (*self.config, *self.metadata)
        return next((value for key, value in pairs if key == name), None)

    def locator(self) -> Locator:
        """The part that travels."""
        return Locator(_join(self.protocol, self.address, self.metadata))

    def host_port(self) -> tuple[str, int]:
        """As `Locator.host_port`."""
        return _host_port(str(self), self.protocol, self.address)

    def reveal(self) -> str:
        """The whole text, secrets included."""
        pairs = [(n, v.reveal() if isinstance(v, Secret) else v) for n, v in self.config]
        return _join(self.protocol, self.address, self.metadata, pairs)

    def __str__(self) -> str:
        pairs = [(name, str(value)) for name, value in self.config]
        return _join(self.protocol, self.address, self.metadata, pairs)


def is_group(endpoint: Endpoint) -> bool:
    """Whether an endpoint is a multicast group.

    Example:
        >>> is_group(Endpoint.parse("udp/224.0.0.225:7447"))
        True
        >>> is_group(Endpoint.parse("udp/10.0.0.1:7447")), is_group(Endpoint.parse("tcp/host:1"))
        (False, False)
    """
    if endpoint.protocol != "udp":
        return False
    host = endpoint.address.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        return ipaddress.ip_address(host).is_multicast
    except ValueError:
        return False  # a name


@dataclass(frozen=True, slots=True)
class _Parts:
    protocol: str
    address: str
    metadata: tuple[Pair, ...]
    config: tuple[Pair, ...] | None


def _split(text: str) -> _Parts:
    _check_utf8(text)
    body, hash_mark, config = text.partition("#")
    place, question_mark, metadata = body.partition("?")
    protocol, slash, address = place.partition("/")
    if not protocol:
        raise LocatorError(text, 0, "a protocol is missing; expected <protocol>/<address>")
    if not slash:
        reason = "no '/'; expected <protocol>/<address>, as tcp/10.0.0.7:7447"
        raise LocatorError(text, len(place), reason)
    if not address:
        raise LocatorError(text, len(place), "an address is missing; expected <protocol>/<address>")
    if hash_mark and "?" in config and not question_mark:
        raise LocatorError(text, len(body), "'#' config stands before '?' metadata; swap them")
    return _Parts(
        protocol,
        address,
        _pairs(text, metadata, len(place) + 1) if question_mark else (),
        _pairs(text, config, len(body) + 1) if hash_mark else None,
    )


def _pairs(text: str, part: str, start: int) -> tuple[Pair, ...]:
    pairs = split_pairs(part)
    if not pairs or not all(name for name, _ in pairs):
        raise LocatorError(
            text, start, "expected name=value;..., with at least one name, none empty"
        )
    return tuple(pairs)


def _sorted(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


def _join(
    protocol: str, address: str, metadata: Iterable[Pair], config: Iterable[Pair] = ()
) -> str:
    text = f"{protocol}/{address}"
    for mark, pairs in (("?", join_pairs(metadata)), ("#", join_pairs(config))):
        text += mark + pairs if pairs else ""
    return text


def _is_secret(name: str) -> bool:
    return any(word in name for word in _SECRET_WORDS)


def _check_utf8(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LocatorError(text, error.start, "the text is not UTF-8") from None


def _host_port(text: str, protocol: str, address: str) -> tuple[str, int]:
    start = len(protocol) + 1
    if "," in address:
        at = start + address.index(",")
        raise LocatorError(text, at, "expected one host:port; give several endpoints one by one")
    host, colon, port = address.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and len(port) <= 5):
        raise LocatorError(text, start + len(host), "expected host:port, with a port of 0 to 65535")
    if int(port) > _PORT_MAX:
        raise LocatorError(text, start + len(host) + 1, f"ports end at {_PORT_MAX}, got {port}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise LocatorError(text, start, "an IPv6 address goes in brackets: [::1]:7447")
    if not host:
        raise LocatorError(text, start, "a host is missing; use 0.0.0.0 or [::] for all interfaces")
    return host, int(port)
