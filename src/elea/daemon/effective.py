"""Effective: the configuration of a daemon, put together from its sources, each value with its own.

Later ones win: the file, the options, `--cfg`; what nobody said is set here, safe by default. The
same options give the same configuration again when the daemon is told to reload.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

from elea.choices import PERMISSIONS
from elea.config.config import Config
from elea.config_file import NO_SCOUTING_ENV, in_environment
from elea.daemon.exposure import is_beyond_host
from elea.errors import ConfigError
from elea.ids import WhatAmI

DEFAULT: Final = "default"
_ITSELF: Final = "elea router"
_LOOPBACK: Final = {WhatAmI.ROUTER: "tcp/127.0.0.1:7447", WhatAmI.PEER: "tcp/127.0.0.1:0"}
_SCOUTING: Final = "scouting/multicast/enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a daemon is started with: the options of `elea router`."""

    config: str | None = None
    listen: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    id: str | None = None
    cfg: tuple[str, ...] = ()
    plugin: tuple[str, ...] = ()
    adminspace_permissions: str | None = None
    rest_http_port: str | None = None
    ui: bool = False  # serve the page, at a free port of loopback unless another one is given
    xrce: tuple[str, ...] = ()
    dds: int | None = None  # the domain to bridge
    no_multicast_scouting: bool = False
    no_timestamp: bool = False
    allow_plain: bool = False


@dataclass(slots=True)
class Effective:
    """A configuration, and where each value that is set comes from."""

    config: Config
    origins: dict[str, str] = field(default_factory=dict)  # by path

    @classmethod
    def of(cls, options: Options) -> Effective:
        """The configuration that options describe; files are read.

        Raises:
            ConfigError: for a key that is unknown, naming the nearest, or a value that is not
                legal.
        """
        made = cls(Config())
        if options.config is not None:
            made.config = Config.from_file(options.config)
            made.origins = dict.fromkeys(made.config.paths(), f"file {options.config}")
        made._take_flags(options)
        for setting in options.cfg:
            key, colon, value = setting.partition(":")
            if not colon:
                raise ConfigError(
                    key, "--cfg takes KEY:VALUE, such as scouting/gossip/enabled:false"
                )
            made._insert_text(key, value, "--cfg")
        made._complete()
        made.config.validate()
        return made

    def origin(self, path: str) -> str:
        """Where the value of a key comes from."""
        return self.origins.get(path, DEFAULT)

    def insert(self, path: str, value: object, origin: str) -> None:
        """Set a key to a plain value."""
        self.insert_json5(path, json.dumps(value), origin)

    def insert_json5(self, path: str, text: str, origin: str) -> None:
        """Set a key to a JSON5 text; nothing has changed if that raises."""
        self.config.insert_json5(path, text)
        self._note(path, origin)

    def remove(self, path: str) -> None:
        """Set a key back to its default."""
        self.config.remove(path)
        self._note("", None)

    def copy(self) -> Effective:
        """Another one that can be changed."""
        return Effective(self.config.__copy__(), dict(self.origins))

    def _note(self, path: str, origin: str | None) -> None:
        """Keys at, below or around a path were set by somebody; those not set are nobody's."""
        path = "/".join(name for name in path.split("/") if name)
        kept = self.config.paths()
        if origin is not None:
            for one in kept:
                if not path or f"{one}/".startswith(f"{path}/") or path.startswith(f"{one}/"):
                    self.origins[one] = origin
        self.origins = {one: self.origins[one] for one in kept if one in self.origins}

    def _insert_text(self, key: str, text: str, origin: str) -> None:
        self.insert_json5(key, text, f"{origin} {key or ':'}")

    def _take_flags(self, options: Options) -> None:
        if options.id is not None:
            self.insert("id", options.id, "--id")
        for side, endpoints in (("listen", options.listen), ("connect", options.connect)):
            if endpoints:
                self.insert(f"{side}/endpoints", list(endpoints), f"--{side}")
        if options.no_timestamp:
            self.insert("timestamping/enabled", False, "--no-timestamp")
        if options.no_multicast_scouting:
            self.insert(_SCOUTING, False, "--no-multicast-scouting")
        self._take_plugins(options)
        if options.adminspace_permissions is not None:
            known = PERMISSIONS.get(options.adminspace_permissions)
            if known is None:
                raise ConfigError(
                    "--adminspace-permissions",
                    f"saw {options.adminspace_permissions!a}; legal are {', '.join(PERMISSIONS)}",
                )
            for name, allowed in zip(("read", "write"), known, strict=True):
                path = f"adminspace/permissions/{name}"
                self.insert(path, allowed, "--adminspace-permissions")

    def _take_plugins(self, options: Options) -> None:
        port = options.rest_http_port
        if port is not None and port.lower() != "none":
            self.insert("plugins/rest/http_port", port, "--rest-http-port")
            self.insert("plugins/rest/__required__", True, "--rest-http-port")
        if options.ui:
            plugins = self.config.get("plugins")
            rest = plugins.get("rest") if isinstance(plugins, dict) else None
            if not isinstance(rest, dict) or rest.get("http_port") is None:
                self.insert("plugins/rest/http_port", "0", "--ui")
            self.insert("plugins/rest/dashboard", True, "--ui")
            if not isinstance(rest, dict) or rest.get("operate_token_file") is None:
                self.insert("plugins/rest/operate_link", True, "--ui")
            self.insert("plugins/rest/__required__", True, "--ui")
        if options.dds is not None:
            self.insert("plugins/dds/domain", options.dds, "--dds")
            self.insert("plugins/dds/__required__", True, "--dds")
        if options.xrce:
            self.insert("plugins/xrce/listen", list(options.xrce), "--xrce")
            self.insert("plugins/xrce/__required__", True, "--xrce")
        for plugin in options.plugin:
            name, colon, path = plugin.partition(":")
            self.insert(f"plugins/{name}/__required__", True, "--plugin")
            if colon:
                self.insert(f"plugins/{name}/__path__", path, "--plugin")

    def _complete(self) -> None:
        """Say what nobody said: a router that describes itself, on loopback."""
        said = set(self.config.paths())
        for path, value in (
            ("mode", str(WhatAmI.ROUTER)),
            ("adminspace/enabled", True),
            ("plugins_loading/enabled", True),
        ):
            if path not in said:
                self.insert(path, value, _ITSELF)
        mode = self.config.mode
        if mode in _LOOPBACK and not self._says_where_to_listen(str(mode)):
            self.insert(f"listen/endpoints/{mode}", [_LOOPBACK[mode]], f"{_ITSELF}: loopback")
        if _SCOUTING not in said and self._is_exposed():
            self.insert(_SCOUTING, False, f"{_ITSELF}: it listens beyond this host")
        silent = in_environment(self.config)
        if silent is not self.config:
            self.config = silent
            self.origins[_SCOUTING] = NO_SCOUTING_ENV

    def _says_where_to_listen(self, mode: str) -> bool:
        path = "listen/endpoints"
        if path not in self.config.paths():
            return False
        value = json.loads(self.config.get_json(path))
        return not isinstance(value, dict) or mode in value

    def _is_exposed(self) -> bool:
        listen = self.config.endpoints("listen")
        return any(is_beyond_host(endpoint) for group in listen for endpoint in group)
