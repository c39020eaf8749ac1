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
from typing import Any, Final
from urllib.parse import urlsplit

from elea.config.kinds import Bool, Choice, Integer, ListOf, Text, Value, refuse
from elea.config.section import FOREIGN, ByName, FilePath, Own, Section, Setting
from elea.config_file import read_token
from elea.errors import ConfigError, InvalidValueError
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

_ADDRESS: Final = f"a port up to {_PORT_MAX}, or IP:PORT such as '[::1]:8000'"


def address_of(value: Value, path: str = f"{PATH}/http_port") -> tuple[str, int]:
    """`8000`, `"8000"`, `"0.0.0.0:8000"` or `"[::]:8000"`; a port alone is on loopback.

    Raises:
        ConfigError: it is none of these.
    """
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(text, str):
        host, colon, port = text.rpartition(":")
        if not colon or host == "localhost":
            host = _LOOPBACK
        elif host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        legal = port.isascii() and port.isdigit() and int(port) <= _PORT_MAX
        with contextlib.suppress(ValueError):
            if legal:
                return str(ipaddress.ip_address(host)), int(port)
    return refuse(path, _ADDRESS, value)


def _host(text: str) -> str:
    name = text.lower().rstrip(".")
    if not _HOST_NAME.fullmatch(name):
        raise InvalidValueError("host", "it is no name of a host")
    return name


def _origin(text: str) -> str:
    parts = urlsplit(text)
    plain = f"{parts.scheme}://{parts.netloc}"
    if text != ANY_ORIGIN and (parts.scheme not in ("http", "https") or plain != text.lower()):
        raise InvalidValueError("origin", "it is no origin")
    return text.lower()


def _user(name: str) -> str:
    if not name or name in (TOKEN_USER, OPERATOR):
        raise InvalidValueError("name", f"{TOKEN_USER!r} and {OPERATOR!r} are taken")
    return name


_COUNT: Final = Integer(1, 10_000)
_BODY_LEN: Final = DEFAULT_LIMITS.web_body_len
_STREAMS: Final = DEFAULT_LIMITS.web_streams_count
SECTION: Final = Section(
    (
        Setting("http_port", Own(_ADDRESS, address_of), "where it is served; needed", needed=True),
        Setting(
            "allowed_hosts",
            ListOf(Text("names without scheme and port, such as 'router.local'", _host)),
            "names in `Host` beside `localhost` and addresses; none",
            default=(),
        ),
        Setting(
            "allowed_origins",
            ListOf(Text("'*', or origins such as 'https://panel.example'", _origin)),
            "web pages that may use it; none",
            default=(),
        ),
        Setting("token_file", FilePath(), f"holds the token; else the variable `{TOKEN_ENV}`"),
        Setting(
            "users",
            ByName(FilePath(), "files with tokens by the names of users", _user),
            "further tokens; none",
            default={},
        ),
        Setting(
            "protect",
            Choice((WRITES, EVERYTHING)),
            "what needs a token; `writes`",
            default=WRITES,
        ),
        Setting("allow_open", Bool(), "whether other hosts may write without a token; false"),
        Setting("tls_certificate", FilePath(), "PEM of the certificate, to serve HTTPS; none"),
        Setting("tls_private_key", FilePath(), "PEM of its key; none"),
        Setting("tls_client_ca", FilePath(), "PEM of who signs certificates of users; none"),
        Setting("body_len", Integer(1, 1 << 30), f"bytes of a body; {_BODY_LEN}", _BODY_LEN),
        Setting("streams_count", _COUNT, f"subscriptions at once; {_STREAMS}", _STREAMS),
        Setting("streams_per_address_count", _COUNT, "those of one address; half of them"),
        Setting("query_timeout_ms", Integer(1, 600_000), "of a query, at most; 10000"),
        Setting("dashboard", Bool(), "whether the page is served; true"),
        Setting(
            "operate_token_file",
            FilePath(),
            f"holds the token to operate by the page; else the variable `{OPERATE_ENV}`",
        ),
        Setting("operate_link", Bool(), "whether one is made while the service runs; false"),
    ),
    # Eclipse Zenoh's, without effect here.
    (*FOREIGN, "__plugin__", "work_thread_num", "max_block_thread_num"),
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
        found = SECTION.read(section, PATH)
        host, port = found.pop("http_port")
        streams_count = found.pop("streams_count")
        limits = replace(
            DEFAULT_LIMITS,
            web_body_len=found.pop("body_len"),
            web_streams_count=streams_count,
            web_streams_per_address_count=found.pop(
                "streams_per_address_count", max(1, streams_count // 2)
            ),
        )
        made = cls(
            host=host,
            port=port,
            allowed_hosts=frozenset(found.pop("allowed_hosts")),
            allowed_origins=frozenset(found.pop("allowed_origins")),
            token=_token(found, "token_file", TOKEN_ENV),
            operate=_token(found, "operate_token_file", OPERATE_ENV),
            users=_users(found.pop("users")),
            limits=limits,
            **found,
        )
        made._check()
        return made

    def _check(self) -> None:
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


def markdown() -> str:
    """The section as a part of `docs/reference/config.md`."""
    return (
        "\n## `plugins/rest`\n\nServes HTTP, and the page ([use-rest.md](../howto/use-rest.md))."
        "\n\n| key | meaning and default | legal |\n| --- | --- | --- |\n"
    ) + SECTION.rows()


def _token(found: dict[str, Any], name: str, variable: str) -> Secret | None:
    return read_token(found.pop(name, None), variable, f"{PATH}/{name}")


def _users(files: Mapping[str, str]) -> dict[str, Secret]:
    """The tokens of named users: files by name."""
    found: dict[str, Secret] = {}
    for name, file in files.items():
        token = read_token(file, TOKEN_ENV, f"{PATH}/users/{name}")
        assert token is not None  # of a file there is one
        if any(token == one for one in found.values()):
            raise ConfigError(f"{PATH}/users/{name}", "another user has the same token")
        found[name] = token
    return found
