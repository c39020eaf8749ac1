"""What ids of devices mean that no device declares: `resources` of `plugins/xrce` (A-18)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from elea.config.kinds import Value, refuse
from elea.devices.access import OTHERS, pid_of
from elea.errors import ConfigError, InvalidValueError
from elea.xrce.declarations import ID_MAX, NO_PRESETS, Named
from elea.xrce.names import parse
from elea.xrce.qualities import Qualities, is_read_only
from elea.xrce.selections import Selection
from elea.xrce.session.settings import PID_LEN_MAX
from elea.xrce.status import RefusedError


@dataclass(frozen=True, slots=True)
class Resources:
    """Names by pid and id; those of `*` count for devices that are not named."""

    devices: Mapping[bytes, Mapping[int, Named]] = field(default_factory=dict)
    others: Mapping[int, Named] = field(default_factory=lambda: NO_PRESETS)

    def of(self, pid: bytes) -> Mapping[int, Named]:
        """The ids of a device."""
        return self.devices.get(pid, self.others)

    @classmethod
    def read(cls, section: Value, path: str) -> Resources:
        """The key `resources`.

        Raises:
            ConfigError: naming what is not legal.
        """
        if section is None:
            return cls()
        if not isinstance(section, dict):
            refuse(path, "{PID: {ID: name}}", section)
        devices: dict[bytes, Mapping[int, Named]] = {}
        others: Mapping[int, Named] = NO_PRESETS
        for name, listed in section.items():
            pid = pid_of(name)
            if pid is None and name != OTHERS:
                legal = f"expected a pid of 1 to {PID_LEN_MAX} bytes in hexadecimal, or {OTHERS}"
                raise ConfigError(f"{path}/{name}", f"{legal}, got {name!a}")
            if not isinstance(listed, dict):
                refuse(f"{path}/{name}", "{ID: name}", listed)
            read = {_id(id_, f"{path}/{name}"): _named(listed, id_, path, name) for id_ in listed}
            if pid is None:
                others = read
            else:
                devices[pid] = read
        return cls(devices, others)


def _id(text: str, path: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if not 0 < number <= ID_MAX or number % 2:
        raise ConfigError(f"{path}/{text}", f"expected an even id above 0, got {text!a}")
    return number


def _named(listed: Mapping[str, Value], id_: str, path: str, pid: str) -> Named:
    where, text = f"{path}/{pid}/{id_}", listed[id_]
    if not isinstance(text, str):
        refuse(where, "a name such as lab/t", text)
    plain = "://" not in text and not text.startswith(("/", "**"))
    try:
        resource = parse(f"/{text}" if plain else text)
        qualities = Qualities.of(resource, {}, 0)
    except (InvalidValueError, RefusedError) as error:
        raise ConfigError(where, str(error)) from None
    if is_read_only(resource):
        raise ConfigError(where, f"{resource.spelled()} is read-only")
    return Named(Selection(resource), {}, qualities)
