"""What links take from the configuration, and how an endpoint's own options override it.

An endpoint's option has the name of the configuration key, as in
`tls/host:7447#verify_name_on_connect=false;so_sndbuf=65536`.
"""

from __future__ import annotations

import base64
from typing import Final, Self

from elea.config.config import Config
from elea.errors import ConfigError
from elea.ids import WhatAmI
from elea.limits import DEFAULT_LIMITS, Limits
from elea.locator import Endpoint
from elea.node.settings import role_bits
from elea.records import dataclass, field_names, replace
from elea.secret import Secret

_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}
_TLS: Final = "transport/link/tls"
_ALLOWED_NAMES: Final = "elea/tls/allowed_names"
_NO_PEM: Final = ("version_1_2", "allowed_names")  # of TlsSettings; neither file nor flag
_SCOUTING: Final = "scouting/multicast"
_BUFFER_LEN_MAX: Final = 0x7FFF_FFFF  # a C int; the system allows less anyway
_DSCP_MAX: Final = 63


@dataclass(frozen=True, slots=True)
class Pem:
    """A certificate or a private key: the file it is in, or the PEM text itself."""

    path: str | None = None
    text: Secret | None = None

    @classmethod
    def of_base64(cls, value: str | Secret, where: str) -> Self:
        """The PEM text that was given as base64.

        Raises:
            ConfigError: if it is no base64.
        """
        encoded = value.reveal() if isinstance(value, Secret) else value
        try:
            return cls(text=Secret(base64.b64decode(encoded, validate=True).decode("ascii")))
        except ValueError:  # characters that are none of base64, or bytes that are no text
            raise ConfigError(where, "is no base64 of a PEM text") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Certificates and how strictly they are checked."""

    root_ca_certificate: Pem | None = None
    listen_private_key: Pem | None = None
    listen_certificate: Pem | None = None
    connect_private_key: Pem | None = None
    connect_certificate: Pem | None = None
    enable_mtls: bool = False
    verify_name_on_connect: bool = True
    close_link_on_expiration: bool = False
    allowed_names: frozenset[str] | None = None  # who may connect; None: all that are trusted
    version_1_2: bool = False  # an endpoint's option only: #tls_min_version=1.2

    @classmethod
    def from_config(cls, config: Config) -> Self:
        values: dict[str, Pem | bool | frozenset[str]] = {}
        allowed = config.get(_ALLOWED_NAMES)
        if isinstance(allowed, list):
            values["allowed_names"] = frozenset(map(str, allowed))
        for name in field_names(cls):
            if name in _NO_PEM:
                continue
            value = config.get(f"{_TLS}/{name}")
            if isinstance(value, bool):
                values[name] = value
                continue
            inline = config.get(f"{_TLS}/{name}_base64")
            if isinstance(inline, str | Secret):
                values[name] = Pem.of_base64(inline, f"{_TLS}/{name}_base64")
            elif isinstance(value, str):
                values[name] = Pem(path=value)
        return replace(cls(), **values)  # type: ignore[arg-type]  # each name has its field's type

    def for_endpoint(self, endpoint: Endpoint) -> Self:
        """These settings with the endpoint's options in their place.

        Raises:
            ConfigError: if an option has no legal value.
        """
        values: dict[str, Pem | bool] = {}
        for name in field_names(type(self)):
            if name in _NO_PEM:
                continue
            if isinstance(getattr(self, name), bool):
                flag = flag_option(endpoint, name)
                if flag is not None:
                    values[name] = flag
                continue
            for option in (name, f"{name}_file"):  # Eclipse's endpoints say _file
                path = text_option(endpoint, option)
                if path is not None:
                    values[name] = Pem(path=path)
            inline = endpoint.get(f"{name}_base64")
            if inline is not None:
                values[name] = Pem.of_base64(inline, f"{endpoint}: {name}_base64")
        version = text_option(endpoint, "tls_min_version")
        if version not in (None, "1.2", "1.3"):
            raise ConfigError(f"{endpoint}", f"tls_min_version is 1.2 or 1.3, saw {version!r}")
        if version is not None:
            values["version_1_2"] = version == "1.2"
        return replace(self, **values)  # type: ignore[arg-type]  # as above


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoutingSettings:
    """`scouting` of a configuration, for the role of its node.

    Example:
        >>> ScoutingSettings.from_config(Config()).address
        '224.0.0.224:7446'
    """

    address: str = "224.0.0.224:7446"
    interface: str = "auto"  # names or addresses separated by commas, or `auto`
    ttl: int = 1
    enabled: bool = True  # False: a node neither asks nor answers
    listen: bool = True  # whether to answer others
    what: int = 0  # whom a node looks for to connect to, as the bits of SCOUT
    timeout_ns: int = 3_000_000_000  # how long a client looks before it gives up

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The settings in a configuration."""
        roles = config.get(f"{_SCOUTING}/autoconnect")
        return cls(
            address=config.value(f"{_SCOUTING}/address", str),
            interface=config.value(f"{_SCOUTING}/interface", str),
            ttl=config.value(f"{_SCOUTING}/ttl", int),
            enabled=config.value(f"{_SCOUTING}/enabled", bool),
            listen=config.value(f"{_SCOUTING}/listen", bool),
            what=role_bits(roles),
            timeout_ns=config.value("scouting/timeout", int) * 1_000_000,
        )

    def of(self, whatami: WhatAmI, *, must_find: bool) -> Self | None:
        """These settings for a node of a role; None if it has no use for scouting.

        `must_find`: It is a client that was given no endpoint.
        """
        settings = self
        if whatami is WhatAmI.CLIENT:  # which connects to one node, and to no client
            what = self.what & ~WhatAmI.CLIENT.value if must_find else 0
            settings = replace(self, what=what)
        return settings if self.enabled and (settings.listen or settings.what) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """What all links of one node share.

    Example:
        >>> LinkSettings.from_config(Config()).tls.verify_name_on_connect
        True
    """

    so_sndbuf: int | None = None
    so_rcvbuf: int | None = None
    tls: TlsSettings = TlsSettings()
    tls_so_sndbuf: int | None = None
    tls_so_rcvbuf: int | None = None
    protocols: frozenset[str] | None = None  # those that may be used; None for all
    scouting: ScoutingSettings = ScoutingSettings(enabled=False)
    learned_allow: tuple[str, ...] | None = None  # where learned nodes may be; None: anywhere
    limits: Limits = DEFAULT_LIMITS

    @classmethod
    def from_config(cls, config: Config, limits: Limits = DEFAULT_LIMITS) -> Self:
        """The settings in a configuration.

        Raises:
            ConfigError: if an inline certificate is no base64.
        """
        protocols = config.get("transport/link/protocols")
        places = config.get("elea/learned/allow")
        return cls(
            so_sndbuf=_number(config, "transport/link/tcp/so_sndbuf"),
            so_rcvbuf=_number(config, "transport/link/tcp/so_rcvbuf"),
            tls=TlsSettings.from_config(config),
            tls_so_sndbuf=_number(config, f"{_TLS}/so_sndbuf"),
            tls_so_rcvbuf=_number(config, f"{_TLS}/so_rcvbuf"),
            protocols=frozenset(map(str, protocols)) if isinstance(protocols, list) else None,
            scouting=ScoutingSettings.from_config(config),
            learned_allow=tuple(map(str, places)) if isinstance(places, list) else None,
            limits=limits,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketOptions:
    """What is asked of one socket."""

    so_sndbuf: int | None = None
    so_rcvbuf: int | None = None
    dscp: int | None = None  # differentiated services code point, 0 to 63
    interface: str | None = None
    bind: str | None = None  # host:port to connect from

    @classmethod
    def of(cls, endpoint: Endpoint, settings: LinkSettings) -> Self:
        """The options of an endpoint, then those of the configuration.

        Raises:
            ConfigError: if an option has no legal value.
        """
        tls = endpoint.protocol == "tls"
        sndbuf, rcvbuf = int_option(endpoint, "so_sndbuf"), int_option(endpoint, "so_rcvbuf")
        if sndbuf is None:
            sndbuf = settings.tls_so_sndbuf if tls else settings.so_sndbuf
        if rcvbuf is None:
            rcvbuf = settings.tls_so_rcvbuf if tls else settings.so_rcvbuf
        dscp = int_option(endpoint, "dscp")
        if dscp is not None and dscp > _DSCP_MAX:
            raise ConfigError(f"{endpoint}", f"dscp is 0 to {_DSCP_MAX}, saw {dscp}")
        return cls(
            so_sndbuf=None if sndbuf is None else min(sndbuf, _BUFFER_LEN_MAX),
            so_rcvbuf=None if rcvbuf is None else min(rcvbuf, _BUFFER_LEN_MAX),
            dscp=dscp,
            interface=text_option(endpoint, "iface"),
            bind=text_option(endpoint, "bind"),
        )


def text_option(endpoint: Endpoint, name: str) -> str | None:
    """An option that is no secret."""
    value = endpoint.get(name)
    return value.reveal() if isinstance(value, Secret) else value


def int_option(endpoint: Endpoint, name: str) -> int | None:
    """An option that is a number, decimal or 0x.

    Raises:
        ConfigError: if it is none.
    """
    text = text_option(endpoint, name)
    if text is None:
        return None
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if number < 0:
        raise ConfigError(f"{endpoint}", f"{name} is a number from 0, saw {text!r}")
    return number


def flag_option(endpoint: Endpoint, name: str) -> bool | None:
    """An option that is `true` or `false`.

    Raises:
        ConfigError: if it is neither.
    """
    text = text_option(endpoint, name)
    if text is None:
        return None
    if text not in _FLAGS:
        raise ConfigError(f"{endpoint}", f"{name} is true or false, saw {text!r}")
    return _FLAGS[text]


def priorities_option(endpoint: Endpoint) -> tuple[int, int] | None:
    """The range of `prio=a-b` or `prio=a` in an endpoint's metadata.

    Raises:
        ConfigError: if it is no range of 0 to 7.
    """
    text = text_option(endpoint, "prio")
    if text is None:
        return None
    first, _, last = text.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal()):
        raise ConfigError(f"{endpoint}", f"prio is a range such as 1-5, saw {text!r}")
    low, high = int(first), int(last or first)
    if not low <= high <= 7:
        raise ConfigError(
            f"{endpoint}", f"priorities are 0 to 7, lowest number first, saw {text!r}"
        )
    return low, high


def _number(config: Config, path: str) -> int | None:
    value = config.get(path)
    return value if isinstance(value, int) else None
