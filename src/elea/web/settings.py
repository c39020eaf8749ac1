"""The section `plugins/rest`: where to serve HTTP, to whom, and within which bounds.

Nothing here needs the packages of `elea[web]`, so that a configuration can be checked and explained
without them.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Final
from urllib.parse import urlsplit

from elea.config.kinds import Value
from elea.config_file import read_token
from elea.errors import ConfigError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.secret import Secret

PATH: Final = "plugins/rest"
TOKEN_ENV: Final = "ELEA_REST_TOKEN"  # noqa: S105  # the name of a variable
ANY_ORIGIN: Final = "*"
WRITES: Final = "writes"
EVERYTHING: Final = "everything"
TOKEN_USER: Final = "rest"  # noqa: S105  # what access rules call the holder of the token in `token_file`
OPERATE_ENV: Final = "ELEA_OPERATE_TOKEN"
OPERATOR: Final = "operator"  # what access rules call the holder of the token to operate
_LOOPBACK: Final = "127.0.0.1"
_PORT_MAX: Final = 65_535
_HOST_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")

# What the section may hold. Those of the last row are Eclipse Zenoh's, without effect here.
KEYS: Final = (
    "http_port",
    "allowed_hosts",
    "allowed_origins",
    "token_file",
    "users",
    "protect",
    "allow_open",
    "tls_certificate",
    "tls_private_key",
    "tls_client_ca",
    "body_len",
    "streams_count",
    "streams_per_address_count",
    "query_timeout_ms",
    "dashboard",
    "operate_token_file",
    "operate_link",
    "__required__",
    *("__path__", "__config__", "__plugin__", "work_thread_num", "max_block_thread_num"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """What the service does, checked."""

    host: str = _LOOPBACK
    port: int = 0
    allowed_hosts: frozenset[str] = frozenset()
    allowed_origins: frozenset[str] = frozenset()
    token: Secret | None = None
    users: Mapping[str, Secret] = field(default_factory=dict)  # further tokens, by their names
    protect: str = WRITES
    allow_open: bool = False
    tls_certificate: str | None = None
    tls_private_key: str | None = None
    tls_client_ca: str | None = None  # whose certificates users may show
    query_timeout_ms: int = 10_000
    dashboard: bool = True  # whether the page is served
    operate: Secret | None = None  # whoever shows it may change something by the page
    operate_link: bool = False  # make one, for as long as the service runs
    limits: Limits = DEFAULT_LIMITS

    @property
    def is_loopback(self) -> bool:
        """Whether only this host reaches it."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def viewing_needs_token(self) -> bool:
        """Whether the page shows data only to holders of a token: everywhere but on loopback."""
        return bool(self.tokens) and (not self.is_loopback or self.protect == EVERYTHING)

    @property
    def is_encrypted(self) -> bool:
        """Whether it speaks HTTPS."""
        return self.tls_certificate is not None

    @property
    def tokens(self) -> Mapping[str, Secret]:
        """Every token, by the name of its user."""
        own = {} if self.token is None else {TOKEN_USER: self.token}
        return {**self.users, **own}

    def url(self, port: int | None = None) -> str:
        """Where it is, with the port that was given in place of 0."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "https" if self.is_encrypted else "http"
        return f"{scheme}://{host}:{self.port if port is None else port}"

    @classmethod
    def read(cls, section: Mapping[str, Value]) -> RestSettings:
        """The settings of a section; the file of the token is read.

        Raises:
            ConfigError: a key is unknown, a value is not legal, or everybody could write.
        """
        for name in section:
            if name not in KEYS:
                near = get_close_matches(name, KEYS, 1)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(KEYS[:17])}"
                raise ConfigError(f"{PATH}/{name}", f"no such key; {hint}")
        host, port = address_of(section.get("http_port"))
        streams_count = _number(section, "streams_count", DEFAULT_LIMITS.web_streams_count, 10_000)
        made = cls(
            host=host,
            port=port,
            allowed_hosts=frozenset(map(_host, _texts(section, "allowed_hosts"))),
            allowed_origins=frozenset(map(_origin, _texts(section, "allowed_origins"))),
            token=read_token(_text(section, "token_file"), TOKEN_ENV, f"{PATH}/token_file"),
            users=_users(section),
            protect=_text(section, "protect") or WRITES,
            allow_open=_flag(section, "allow_open"),
            tls_certificate=_text(section, "tls_certificate"),
            tls_private_key=_text(section, "tls_private_key"),
            tls_client_ca=_text(section, "tls_client_ca"),
            query_timeout_ms=_number(section, "query_timeout_ms", 10_000, 600_000),
            dashboard=_flag(section, "dashboard", default=True),
            operate=read_token(
                _text(section, "operate_token_file"), OPERATE_ENV, f"{PATH}/operate_token_file"
            ),
            operate_link=_flag(section, "operate_link"),
            limits=replace(
                DEFAULT_LIMITS,
                web_body_len=_number(section, "body_len", DEFAULT_LIMITS.web_body_len, 1 << 30),
                web_streams_count=streams_count,
                web_streams_per_address_count=_number(
                    section, "streams_per_address_count", max(1, streams_count // 2), 10_000
                ),
            ),
        )
        made._check()
        return made

    def _check(self) -> None:
        if self.protect not in (WRITES, EVERYTHING):
            raise _refused("protect", f"{WRITES!r} or {EVERYTHING!r}", self.protect)
        if self.operate is not None and any(self.operate == one for one in self.tokens.values()):
            raise ConfigError(f"{PATH}/operate_token_file", "a user has the same token")
        if (self.tls_certificate is None) != (self.tls_private_key is None):
            raise ConfigError(
                f"{PATH}/tls_certificate", "HTTPS needs tls_certificate and tls_private_key"
            )
        if self.tls_client_ca is not None and not self.is_encrypted:
            raise ConfigError(
                f"{PATH}/tls_client_ca", "certificates of users need tls_certificate, too"
            )
        if not (self.is_loopback or self.tokens or self.allow_open):
            raise ConfigError(
                f"{PATH}/http_port",
                f"{self.url()} is open to other hosts and everybody could write; name a token_file"
                f" or set {TOKEN_ENV}, serve at {_LOOPBACK}, or allow it with allow_open: true",
            )


def address_of(value: Value) -> tuple[str, int]:
    """`8000`, `"8000"`, `"0.0.0.0:8000"` or `"[::]:8000"`; a port alone is on loopback.

    Raises:
        ConfigError: it is none of these.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str):
        host, colon, port = value.rpartition(":")
        if not colon or host == "localhost":
            host = _LOOPBACK
        elif host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        legal = port.isascii() and port.isdigit() and int(port) <= _PORT_MAX
        with contextlib.suppress(ValueError):
            if legal:
                return str(ipaddress.ip_address(host)), int(port)
    legal_text = f"a port up to {_PORT_MAX}, or IP:PORT such as '[::1]:8000'"
    raise _refused("http_port", legal_text, value)


def _host(text: str) -> str:
    name = text.lower().rstrip(".")
    if not _HOST_NAME.fullmatch(name):
        raise _refused(
            "allowed_hosts", "names without scheme and port, such as 'router.local'", text
        )
    return name


def _origin(text: str) -> str:
    parts = urlsplit(text)
    plain = f"{parts.scheme}://{parts.netloc}"
    if text != ANY_ORIGIN and (parts.scheme not in ("http", "https") or plain != text.lower()):
        raise _refused("allowed_origins", "'*', or origins such as 'https://panel.example'", text)
    return text.lower()


def _text(section: Mapping[str, Value], name: str) -> str | None:
    value = section.get(name)
    if isinstance(value, Secret):  # names that sound secret are kept so; a path is none
        value = value.reveal()
    if value is not None and not isinstance(value, str):
        raise _refused(name, "a text", value)
    return value


def _texts(section: Mapping[str, Value], name: str) -> list[str]:
    value = section.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _refused(name, "a list of texts", value)
    found = [one for one in value if isinstance(one, str)]
    if len(found) != len(value):
        raise _refused(name, "a list of texts", value)
    return found


def _users(section: Mapping[str, Value]) -> dict[str, Secret]:
    """The tokens of named users: files by name."""
    given = section.get("users", {})
    if not isinstance(given, dict):
        raise _refused("users", "an object of files with tokens, by the names of users", given)
    found: dict[str, Secret] = {}
    for name in given:
        file = _text(given, name)
        if not name or file is None or name in (TOKEN_USER, OPERATOR):
            legal = f"a file with a token for a name other than {TOKEN_USER!r} and {OPERATOR!r}"
            raise _refused(f"users/{name}", legal, file)
        token = read_token(file, TOKEN_ENV, f"{PATH}/users/{name}")
        assert token is not None  # of a file there is one
        if any(token == one for one in found.values()):
            raise ConfigError(f"{PATH}/users/{name}", "another user has the same token")
        found[name] = token
    return found


def _flag(section: Mapping[str, Value], name: str, *, default: bool = False) -> bool:
    value = section.get(name, default)
    if not isinstance(value, bool):
        raise _refused(name, "true or false", value)
    return value


def _number(section: Mapping[str, Value], name: str, default: int, most: int) -> int:
    value = section.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise _refused(name, f"a whole number from 1 to {most}", value)
    return value


def _refused(name: str, legal: str, value: Value) -> ConfigError:
    return ConfigError(f"{PATH}/{name}", f"saw {value!a}; legal is {legal}")
