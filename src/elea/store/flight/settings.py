"""Where a Flight door is, and who may come in: the section `plugins/recorder/flight`.

Nothing here needs Arrow, so that a configuration can be checked and explained without it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from elea.config.kinds import Value, unknown_key
from elea.config_file import read_token
from elea.errors import ConfigError, InvalidValueError
from elea.secret import Secret
from elea.store.log.location import TOKEN_ENV, Location

PATH: Final = "plugins/recorder/flight"

# Name, what is legal, what it means. `docs/reference/config.md` shows them.
KEYS: Final = (
    (
        "location",
        "`grpc://IP:PORT`, `grpc+tls://IP:PORT`",
        "where logs can be read over Arrow Flight; other hosts need TLS and a token; needed",
    ),
    ("tls_certificate", "a path", "PEM of the certificate, for `grpc+tls`"),
    ("tls_private_key", "a path", "PEM of its key, for `grpc+tls`"),
    (
        "token_file",
        "a path",
        f"holds the token that readers have to show; else the variable `{TOKEN_ENV}`",
    ),
    (
        "advertise",
        "`grpc://HOST:PORT`, `grpc+tls://HOST:PORT`",
        "what readers are told in place of `location`, such as the name in the certificate",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightSettings:
    """The section, read and checked."""

    location: Location
    token: Secret | None = None
    tls_certificate: str | None = None
    tls_private_key: str | None = None
    advertise: Location | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only this host reaches it."""
        return ipaddress.ip_address(self.location.host).is_loopback

    def told(self, port: int) -> str | None:
        """What readers are told, with the port that was given in place of 0; None: nothing."""
        if self.advertise is not None:
            return str(self.advertise)
        if ipaddress.ip_address(self.location.host).is_unspecified:
            return None  # by which name others reach this host is not known here
        return str(self.location._replace(port=port))

    @classmethod
    def read(cls, section: Mapping[str, Value]) -> FlightSettings:
        """The settings of a section; the file of the token is read.

        Raises:
            ConfigError: a key is unknown, a value is not legal, or everybody could read.
        """
        names = [name for name, _, _ in KEYS]
        for name in section:
            if name not in names:
                raise unknown_key(f"{PATH}/{name}", [f"{PATH}/{one}" for one in names])
        texts = {name: _text(section, name) for name in names}
        made = cls(
            location=_bound(texts["location"]),
            token=read_token(texts["token_file"], TOKEN_ENV, f"{PATH}/token_file"),
            tls_certificate=texts["tls_certificate"],
            tls_private_key=texts["tls_private_key"],
            advertise=None if texts["advertise"] is None else _location("advertise", texts),
        )
        made._check()
        return made

    def _check(self) -> None:
        files = (self.tls_certificate, self.tls_private_key)
        if self.location.is_encrypted and None in files:
            reason = "grpc+tls needs tls_certificate and tls_private_key"
            raise ConfigError(f"{PATH}/tls_certificate", reason)
        if not self.location.is_encrypted and files != (None, None):
            reason = f"saw {self.location}; with a certificate, grpc+tls://HOST:PORT is legal"
            raise ConfigError(f"{PATH}/location", reason)
        if not self.is_loopback and not (self.location.is_encrypted and self.token):
            lacks = "is not encrypted" if not self.location.is_encrypted else "asks for no token"
            raise ConfigError(
                f"{PATH}/location",
                f"{self.location} is open to other hosts and {lacks}; serve at 127.0.0.1, or use"
                " grpc+tls with tls_certificate, tls_private_key and a token (token_file, or the"
                f" variable {TOKEN_ENV})",
            )


def _location(name: str, texts: Mapping[str, str | None]) -> Location:
    try:
        return Location.parse(texts[name] or "")
    except InvalidValueError as error:
        raise ConfigError(f"{PATH}/{name}", error.reason) from error


def _bound(text: str | None) -> Location:
    """Where to listen; a name is not asked where it leads."""
    found = _location("location", {"location": text})
    host = "127.0.0.1" if found.host == "localhost" else found.host
    try:
        return found._replace(host=str(ipaddress.ip_address(host)))
    except ValueError:
        reason = f"saw {text!a}; legal is the address of an interface, such as 127.0.0.1"
        raise ConfigError(f"{PATH}/location", reason) from None


def _text(section: Mapping[str, Value], name: str) -> str | None:
    value = section.get(name)
    if isinstance(value, Secret):  # names that sound secret are kept so; a path is none
        value = value.reveal()
    if value is not None and (not isinstance(value, str) or not value):
        raise ConfigError(f"{PATH}/{name}", f"saw {value!a}; legal is a text")
    return value
