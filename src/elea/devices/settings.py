"""The section `plugins/xrce`: where devices are served, and what is kept for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from elea.choices import XRCE_GROUP
from elea.config.kinds import Bool, Free, Integer, Text, Value
from elea.config.section import FOREIGN, Converted, FilePath, Own, Section, Setting, Several
from elea.config.shapes import KEY_EXPR
from elea.devices.access import Access, pid_of
from elea.devices.lines import endpoint_of
from elea.devices.resources import Resources
from elea.errors import ConfigError, InvalidValueError
from elea.limits import DEFAULT_LIMITS
from elea.locator import Endpoint, is_group
from elea.xrce.session.settings import LEASE_MAX_NS, LEASE_UNIT_NS

NAME: Final = "xrce"
PATH: Final = f"plugins/{NAME}"
_MS_NS: Final = 1_000_000
ALL: Final = "*"
SHARED: Final = "shared"
FRAME_LEN_MIN: Final = 20
FRAME_LEN_MAX: Final = 65_507  # a datagram


def _group(text: str) -> str:
    endpoint = Endpoint.parse(f"udp/{text}")
    endpoint.host_port()
    if not is_group(endpoint):
        raise InvalidValueError("group", f"it is no group, such as {XRCE_GROUP}")
    return text


_LEASE_MS: Final = Integer(LEASE_UNIT_NS // _MS_NS, LEASE_MAX_NS // _MS_NS)
_COUNT: Final = Integer(1, 1_000_000)
_LIMITS: Final = DEFAULT_LIMITS
SECTION: Final = Section(
    (
        Setting(
            "listen",
            Several(
                Converted(Text("udp/HOST:PORT or tcp/HOST:PORT"), endpoint_of), may_be_empty=True
            ),
            "where devices are served; none",
            legal="`udp/HOST:PORT` or `tcp/HOST:PORT`, or several",
        ),
        Setting(
            "shared_port",
            Bool(),
            "whether they are served at the plain TCP listeners of the node as well; true, unless"
            " users have to prove themselves there or access is controlled",
        ),
        Setting("scouting", Bool(), "whether Scouts by multicast are answered; as for Zenoh"),
        Setting(
            "group",
            Text("an IP address and a port", _group),
            f"the group of those; `{XRCE_GROUP}`",
        ),
        Setting(
            "interface",
            Text("names or addresses separated by commas, or `auto`"),
            "where that group is joined; `auto`, or loopback if devices are served there alone",
        ),
        Setting(
            "lease_ms",
            Converted(_LEASE_MS, _MS_NS.__mul__),
            "what devices are told that silence of the gateway may last; 10000",
            field="lease_ns",
        ),
        Setting(
            "frame_len",
            Free(),
            "the longest frame to a device, as is said of its pid, of where it is served, or of"
            " all; a device may say less itself; 1472",
            legal=f"{FRAME_LEN_MIN} to {FRAME_LEN_MAX}, or `{{NAME: bytes}}`; a name is a pid, one"
            " of `listen`, `shared` for the shared port, or `*`",
        ),
        Setting(
            "resources",
            Own("{PID: {ID: name}}", Resources.read),
            "what ids mean that a device uses and never declares; `@xrce/rid/ID`",
            legal="`{PID: {ID: name}}` with even ids and names such as `lab/t`; `*` is all other"
            " pids",
        ),
        Setting("transient", Bool(), "whether transient samples are kept, in memory; true"),
        Setting(
            "persistent",
            Converted(FilePath("a directory"), Path),
            "where persistent samples are kept; if none, they are transient",
        ),
        Setting(
            "key_exprs",
            Several(KEY_EXPR, may_be_empty=True),
            "the keys that queries are answered for, from what is kept; `**`",
        ),
        Setting(
            "interest_always",
            Bool(),
            "whether publishers are told of a reader, whether there is one or not; false",
        ),
        Setting("sessions_count", _COUNT, f"devices at a time; {_LIMITS.xrce_sessions_count}"),
        Setting(
            "sessions_host_count",
            _COUNT,
            f"those of one address, unless it is of this host; {_LIMITS.xrce_sessions_host_count}",
        ),
        Setting(
            "keys_file",
            Converted(FilePath("a file of `pid:key` lines"), Path),
            "the devices that are served, if they prove that they have their keys; anybody is"
            " served",
            legal="a file of `pid:key` lines in hexadecimal, which other users cannot read",
        ),
        Setting(
            "moves",
            Bool(),
            "whether a device may go on from another address; true, unless there is a `keys_file`",
        ),
        Setting(
            "access",
            Own("pids with what they may read and write", Access.read),
            "what devices may read and write, and nothing else; everything",
            legal="`{PID: {read: [...], write: [...]}}` with key expressions; `*` is all other"
            " pids",
        ),
    ),
    FOREIGN,
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
        found = SECTION.read(section, PATH)
        lens = FrameLens.read(found.pop("frame_len", None), found.get("listen", ()))
        found.setdefault("moves", "keys_file" not in found)
        return cls(frame_lens=lens, **found)


def markdown() -> str:
    """The section as a part of `docs/reference/config.md`."""
    return (
        "\n## `plugins/xrce`\n\nServes XRCE devices ([xrce-gateway.md](../howto/xrce-gateway.md))."
        "\n\n| key | meaning and default | legal |\n| --- | --- | --- |\n"
    ) + SECTION.rows()
