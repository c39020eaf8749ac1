"""The section `plugins/xrce`: where devices are served, and what is kept for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from elea.choices import XRCE_GROUP
from elea.config.kinds import Value, unknown_key
from elea.devices.access import Access, pid_of
from elea.devices.lines import endpoint_of
from elea.devices.resources import Resources
from elea.errors import ConfigError, InvalidValueError, KeyExprError, LocatorError
from elea.keyexpr.keyexpr import KeyExpr
from elea.limits import DEFAULT_LIMITS
from elea.locator import Endpoint, is_group
from elea.xrce.session.settings import LEASE_MAX_NS, LEASE_UNIT_NS

NAME: Final = "xrce"
PATH: Final = f"plugins/{NAME}"
_FOREIGN: Final = ("__config__", "__path__", "__required__")
_MS_NS: Final = 1_000_000
ALL: Final = "*"
SHARED: Final = "shared"
FRAME_LEN_MIN: Final = 20
FRAME_LEN_MAX: Final = 65_507  # a datagram

# Name, what is legal, what it means. `docs/reference/config.md` shows them.
KEYS: Final = (
    ("listen", "`udp/HOST:PORT` or `tcp/HOST:PORT`, or several", "where devices are served; none"),
    (
        "shared_port",
        "true or false",
        "whether they are served at the plain TCP listeners of the node as well; true, unless"
        " users have to prove themselves there or access is controlled",
    ),
    ("scouting", "true or false", "whether Scouts by multicast are answered; as for Zenoh"),
    ("group", "an IP address and a port", f"the group of those; `{XRCE_GROUP}`"),
    (
        "interface",
        "names or addresses separated by commas, or `auto`",
        "where that group is joined; `auto`, or loopback if devices are served there alone",
    ),
    (
        "lease_ms",
        "100 to 86400000",
        "what devices are told that silence of the gateway may last; 10000",
    ),
    (
        "frame_len",
        f"{FRAME_LEN_MIN} to {FRAME_LEN_MAX}, or `{{NAME: octets}}`; a name is a pid, one of"
        " `listen`, `shared` for the shared port, or `*`",
        "the longest frame to a device, as is said of its pid, of where it is served, or of all;"
        " a device may say less itself; 1472",
    ),
    (
        "resources",
        "`{PID: {ID: name}}` with even ids and names such as `lab/t`; `*` is all other pids",
        "what ids mean that a device uses and never declares; `@xrce/rid/ID`",
    ),
    ("transient", "true or false", "whether transient samples are kept, in memory; true"),
    ("persistent", "a directory", "where persistent samples are kept; if none, they are transient"),
    (
        "key_exprs",
        "a key expression, or several",
        "the keys that queries are answered for, from what is kept; `**`",
    ),
    (
        "interest_always",
        "true or false",
        "whether publishers are told of a reader, whether there is one or not; false",
    ),
    ("sessions_count", "1 to 1000000", f"devices at a time; {DEFAULT_LIMITS.xrce_sessions_count}"),
    (
        "sessions_host_count",
        "1 to 1000000",
        "those of one address, unless it is of this host;"
        f" {DEFAULT_LIMITS.xrce_sessions_host_count}",
    ),
    (
        "keys_file",
        "a file of `pid:key` lines in hexadecimal, which other users cannot read",
        "the devices that are served, if they prove that they have their keys; anybody is served",
    ),
    (
        "moves",
        "true or false",
        "whether a device may go on from another address; true, unless there is a `keys_file`",
    ),
    (
        "access",
        "`{PID: {read: [...], write: [...]}}` with key expressions; `*` is all other pids",
        "what devices may read and write, and nothing else; everything",
    ),
)


@dataclass(frozen=True, slots=True)
class FrameLens:
    """The longest frames to devices, by pid, and by the text of a listener."""

    devices: Mapping[bytes, int]
    listeners: Mapping[str, int]
    others: int | None = None

    def at(self, listener: str) -> int | None:
        """What is said of devices at a listener."""
        return self.listeners.get(listener, self.others)

    @classmethod
    def read(cls, value: Value, listen: tuple[Endpoint, ...]) -> FrameLens:
        """The key `frame_len`.

        Raises:
            ConfigError: naming what is not legal.
        """
        said: Mapping[str, Value] = value if isinstance(value, dict) else {ALL: value}
        devices: dict[bytes, int] = {}
        listeners: dict[str, int] = {}
        names = [str(one) for one in listen]
        others = None
        for name, number in said.items() if value is not None else ():
            path = f"{PATH}/frame_len" + (f"/{name}" if isinstance(value, dict) else "")
            if isinstance(number, bool) or not isinstance(number, int):
                raise ConfigError(path, f"expected a number of octets, got {number!a}")
            if not FRAME_LEN_MIN <= number <= FRAME_LEN_MAX:
                legal = f"expected {FRAME_LEN_MIN} to {FRAME_LEN_MAX} octets"
                raise ConfigError(path, f"{legal}, got {number}")
            pid = pid_of(name)
            if name == ALL:
                others = number
            elif name == SHARED or name in names:
                listeners[name] = number
            elif pid is not None:
                devices[pid] = number
            else:
                known = ", ".join((*names, SHARED, ALL))
                reason = f"expected a pid in hexadecimal, or one of {known}; got {name!a}"
                raise ConfigError(path, reason)
        return cls(devices, listeners, others)


@dataclass(frozen=True, slots=True, kw_only=True)
class XrceSettings:
    """The section, read."""

    listen: tuple[Endpoint, ...] = ()
    shared_port: bool | None = None  # None: if nobody has to prove anything there
    scouting: bool | None = None  # None: as for Zenoh
    group: str = XRCE_GROUP
    interface: str | None = None
    lease_ns: int = 10_000_000_000
    frame_lens: FrameLens = field(default_factory=lambda: FrameLens({}, {}))
    resources: Resources = field(default_factory=Resources)
    transient: bool = True
    persistent: Path | None = None
    key_exprs: tuple[str, ...] = ("**",)
    interest_always: bool = False
    sessions_count: int = DEFAULT_LIMITS.xrce_sessions_count
    sessions_host_count: int = DEFAULT_LIMITS.xrce_sessions_host_count
    keys_file: Path | None = None
    moves: bool = True
    access: Access | None = None  # None: everything is allowed

    @classmethod
    def read(cls, section: Mapping[str, Value]) -> XrceSettings:
        """The settings in a section.

        Raises:
            ConfigError: naming the key that is not legal.
        """
        names = [name for name, _, _ in KEYS]
        for name in section:
            if name not in (*names, *_FOREIGN):
                raise unknown_key(f"{PATH}/{name}", [f"{PATH}/{one}" for one in names])
        place = _text(section, "persistent")
        lease_ms_max = LEASE_MAX_NS // _MS_NS
        lease_ms = _number(section, "lease_ms", 10_000, LEASE_UNIT_NS // _MS_NS, lease_ms_max)
        keys_file = _text(section, "keys_file")
        moves = _flag(section, "moves")
        access = section.get("access")
        limits = DEFAULT_LIMITS
        listen = tuple(map(_endpoint, _texts(section, "listen", ())))
        return cls(
            listen=listen,
            shared_port=_flag(section, "shared_port"),
            scouting=_flag(section, "scouting"),
            group=_group(_text(section, "group") or XRCE_GROUP),
            interface=_text(section, "interface"),
            lease_ns=lease_ms * _MS_NS,
            frame_lens=FrameLens.read(section.get("frame_len"), listen),
            resources=Resources.read(section.get("resources"), f"{PATH}/resources"),
            transient=_flag(section, "transient") is not False,
            persistent=None if place is None else Path(place),
            key_exprs=tuple(map(_key_expr, _texts(section, "key_exprs", ("**",)))),
            interest_always=_flag(section, "interest_always") is True,
            sessions_count=_number(
                section, "sessions_count", limits.xrce_sessions_count, 1, 1_000_000
            ),
            sessions_host_count=_number(
                section, "sessions_host_count", limits.xrce_sessions_host_count, 1, 1_000_000
            ),
            keys_file=None if keys_file is None else Path(keys_file),
            moves=keys_file is None if moves is None else moves,
            access=None if access is None else Access.read(access, f"{PATH}/access"),
        )


def _endpoint(text: str) -> Endpoint:
    try:
        return endpoint_of(text)
    except InvalidValueError as error:
        raise ConfigError(f"{PATH}/listen", error.reason) from None


def _group(text: str) -> str:
    try:
        endpoint = Endpoint.parse(f"udp/{text}")
        endpoint.host_port()
    except LocatorError as error:
        raise ConfigError(f"{PATH}/group", str(error)) from None
    if not is_group(endpoint):
        raise ConfigError(f"{PATH}/group", f"saw {text!a}; such as {XRCE_GROUP} is legal")
    return text


def _key_expr(text: str) -> str:
    try:
        return str(KeyExpr(text))
    except KeyExprError as error:
        raise ConfigError(f"{PATH}/key_exprs", str(error)) from None


def _texts(section: Mapping[str, Value], name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    value = section.get(name)
    if value is None:
        return default
    found = [value] if isinstance(value, str) else value
    texts = [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
    if not isinstance(found, list) or len(texts) < len(found):
        raise ConfigError(f"{PATH}/{name}", f"saw {value!a}; a text, or several, is legal")
    return tuple(texts)


def _text(section: Mapping[str, Value], name: str) -> str | None:
    value = section.get(name)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{PATH}/{name}", f"saw {value!a}; a text is legal")
    return value


def _flag(section: Mapping[str, Value], name: str) -> bool | None:
    value = section.get(name)
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{PATH}/{name}", f"saw {value!a}; true and false are legal")
    return value


def _number(section: Mapping[str, Value], name: str, default: int, least: int, most: int) -> int:
    value = section.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{PATH}/{name}", f"saw {value!a}; legal are {least} to {most}")
    return value


def markdown() -> str:
    """The section as a part of `docs/reference/config.md`."""
    text = (
        "\n## `plugins/xrce`\n\nServes XRCE devices ([xrce-gateway.md](../howto/xrce-gateway.md))."
        "\n\n| key | meaning and default | legal |\n| --- | --- | --- |\n"
    )
    for name, legal, meaning in KEYS:
        text += f"| `{name}` | {meaning} | {legal} |\n"
    return text
