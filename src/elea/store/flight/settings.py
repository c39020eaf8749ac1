"""Where a Flight door is, and who may come in: the section `plugins/recorder/flight`.

Nothing here needs Arrow, so that a configuration can be checked and explained without it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from elea.config.kinds import Text, Value
from elea.config.section import Converted, FilePath, Section, Setting
from elea.config_file import read_token
from elea.errors import ConfigError, InvalidValueError
from elea.secret import Secret
from elea.store.log.location import TOKEN_ENV, Location

PATH: Final = "plugins/recorder/flight"

_LEGAL: Final = "grpc://HOST:PORT or grpc+tls://HOST:PORT"


def _bound(text: str) -> Location:
    """Where to listen; a name is not asked where it leads."""
    found = Location.parse(text)
    host = "127.0.0.1" if found.host == "localhost" else found.host
    try:
        return found._replace(host=str(ipaddress.ip_address(host)))
    except ValueError:
        reason = "HOST has to be the address of an interface, such as 127.0.0.1"
        raise InvalidValueError("location", reason) from None


SECTION: Final = Section(
    (
        Setting(
            "location",
            Converted(Text(_LEGAL), _bound),
            "where logs can be read over Arrow Flight; other hosts need TLS and a token; needed",
            legal="`grpc://IP:PORT`, `grpc+tls://IP:PORT`",
            needed=True,
        ),
        Setting("tls_certificate", FilePath(), "PEM of the certificate, for `grpc+tls`"),
        Setting("tls_private_key", FilePath(), "PEM of its key, for `grpc+tls`"),
        Setting(
            "token_file",
            FilePath(),
            f"holds the token that readers have to show; else the variable `{TOKEN_ENV}`",
        ),
        Setting(
            "advertise",
            Converted(Text(_LEGAL), Location.parse),
            "what readers are told in place of `location`, such as the name in the certificate",
            legal="`grpc://HOST:PORT`, `grpc+tls://HOST:PORT`",
        ),
    )
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
        found = SECTION.read(section, PATH)
        token = read_token(found.pop("token_file", None), TOKEN_ENV, f"{PATH}/token_file")
        made = cls(token=token, **found)
        made._check()
        return made

    def _check(self) -> None:
        files = (self.tls_certificate, self.tls_private_key)
        if self.location.is_encrypted and None in files:
            reason = "grpc+tls needs tls_certificate and tls_private_key"
            raise ConfigError(f"{PATH}/tls_certificate", reason)
        if not self.location.is_encrypted and files != (None, None):
            reason = f"expected grpc+tls://HOST:PORT with a certificate, got {self.location}"
            raise ConfigError(f"{PATH}/location", reason)
        if not self.is_loopback and not (self.location.is_encrypted and self.token):
            lacks = "is not encrypted" if not self.location.is_encrypted else "asks for no token"
            raise ConfigError(
                f"{PATH}/location",
                f"{self.location} is open to other hosts and {lacks}; serve at 127.0.0.1, or use"
                " grpc+tls with tls_certificate, tls_private_key and a token (token_file, or the"
                f" variable {TOKEN_ENV})",
            )
