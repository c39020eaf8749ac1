"""Location: where a Flight door is, and where the token for it is. No Arrow is needed for it."""

from __future__ import annotations

import ipaddress
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from elea.errors import InvalidValueError

PLAIN: Final = "grpc"
TLS: Final = "grpc+tls"
TOKEN_ENV: Final = "ELEA_FLIGHT_TOKEN"  # noqa: S105  # the name of a variable


class Location(NamedTuple):
    """Where a door is."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Location:
        """Of `grpc://HOST:PORT` or `grpc+tls://HOST:PORT`.

        Raises:
            InvalidValueError: it is none.

        Example:
            >>> str(Location.parse("grpc+tls://[::1]:8815"))
            'grpc+tls://[::1]:8815'
        """
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
            is_bare = text == f"{parts.scheme}://{parts.netloc}" and "@" not in text
            if is_bare and parts.scheme in (PLAIN, TLS) and host and port is not None:
                return cls(parts.scheme, host, port)
        except ValueError:
            pass
        legal = f"legal are {PLAIN}://HOST:PORT and {TLS}://HOST:PORT"
        # Somebody may have put a password before an `@`: that is not shown.
        raise InvalidValueError("location", f"saw {text.rpartition('@')[2][:80]!a}; {legal}")

    @property
    def is_encrypted(self) -> bool:
        """Whether what goes there cannot be read on the way."""
        return self.scheme == TLS

    @property
    def is_this_host(self) -> bool:
        """Whether it is reached without a network; a name is not asked where it leads."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"
