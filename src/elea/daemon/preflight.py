"""Whether a router could start with a configuration, before it starts; and what has no effect.

The schema says what a value may be. This asks the world around: whether schemes, services and
volumes are installed, and whether files are there and can be used.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from elea.config.config import Config
from elea.config.schema import BY_PATH
from elea.daemon import exposure
from elea.daemon.audit import FILE as AUDIT_FILE
from elea.daemon.services import Services
from elea.errors import ConfigError, EleaError, LinkError
from elea.ids import WhatAmI
from elea.link.accounts import read_accounts
from elea.link.authorizers import read_authorizer
from elea.link.endpoint_options import check_options, inert_options
from elea.link.multicast import check_interfaces
from elea.link.registry import Registry, check_scheme
from elea.link.schemes import facts
from elea.link.settings import LinkSettings, ScoutingSettings, text_option
from elea.link.tls_context import certificate_end_s, client_context, server_context
from elea.locator import Endpoint, is_group
from elea.node.settings import NodeSettings
from elea.policy.records import records
from elea.session.endpoints import refusal

_TLS: Final = "transport/link/tls"
_SIDES: Final = ("listen", "connect")
_NAMING_USERS: Final = frozenset({"dds", "recorder", "rest", "ros2dds", "xrce"})  # to rules
_UNIX: Final = "unixsock-stream"
_UNIX_PATH_LEN_MAX: Final = 107  # of `sun_path` on Linux, without its end


def check(config: Config, services: Services, *, allow_plain: bool) -> None:
    """Check that a router could start with a configuration.

    Raises:
        ConfigError: it could not: naming the key, and what to do.
    """
    services.check(config)
    settings = LinkSettings.from_config(config)
    # Before their exposure: an address that is none counts as open to other hosts.
    for side in _SIDES:
        for group in config.endpoints(side):
            for endpoint in group:
                _check_endpoint(side, endpoint, settings)
    exposure.check(config, allow_plain=allow_plain)
    NodeSettings.from_config(
        config, os.urandom, read_accounts(config), authorize=read_authorizer(config)
    )
    _check_audit(config)


def check_all(config: Config, services: Services, *, allow_plain: bool) -> None:
    """Check that a router could start with a configuration, and that every part of it would run.

    A router that starts is more lenient: one storage that cannot be opened leaves the others alone.

    Raises:
        ConfigError: it could not, or a part would be left out.
    """
    check(config, services, allow_plain=allow_plain)
    _check_client(config)
    _check_group(config)
    _check_listeners(config)
    _check_places(config)
    for path, reason in started_without(config, services):
        raise ConfigError(path, reason)
    services.check_parts(config)


def started_without(config: Config, services: Services) -> Iterator[tuple[str, str]]:
    """What is missing while a router starts all the same: keys of the configuration, and why."""
    yield from expired(config)
    yield from services.absent(config)


def expired(config: Config) -> Iterator[tuple[str, str]]:
    """Certificates of this node that have ended: keys of the configuration, and what is wrong.

    A router starts with one, as it may be renewed while it runs; its neighbours refuse it.
    """
    settings = LinkSettings.from_config(config)
    for side in _SIDES:
        for endpoint in (one for group in config.endpoints(side) for one in group):
            if endpoint.protocol != "tls":
                continue
            tls = settings.tls.for_endpoint(endpoint)
            if certificate_end_s(tls, listening=side == "listen") == 0:
                shown = tls.listen_certificate if side == "listen" else tls.connect_certificate
                where = "" if shown is None or shown.path is None else f" {shown.path}"
                yield (
                    f"transport/link/tls/{side}_certificate",
                    f"the certificate{where} has expired: neighbours refuse it; renew it, then send"
                    " SIGHUP to a router that runs",
                )


def notes(config: Config, services: Services) -> Iterator[str]:
    """What a configuration asks for and does not get, though the router starts: one line each."""
    for path in config.paths():
        inert = BY_PATH[path].inert
        if inert is not None and inert.any_value:
            yield f"{path} has no effect: {inert.why}"
    for side in _SIDES:
        for group in config.endpoints(side):
            for endpoint in group:
                yield from inert_options(endpoint)
    if config.value("transport/unicast/compression/enabled", bool) and find_spec("lz4") is None:
        yield (
            "transport/unicast/compression has no effect: lz4 is not installed;"
            " pip install 'elea[compression]'"
        )
    yield from _unused_rules(config)
    yield from _unused_certificate(config)
    yield from _unused_values(config)
    yield from services.notes(config)


def _check_client(config: Config) -> None:
    """A client that knows no endpoint does not start, unless scouting finds a node in time."""
    if config.mode is not WhatAmI.CLIENT or config.endpoints("connect"):
        return
    scouts = config.value("scouting/multicast/enabled", bool)
    why = "it starts only while scouting finds a node" if scouts else "scouting is not enabled"
    reason = f"mode client needs an endpoint, as {why}; give one, or use mode router"
    raise ConfigError("connect/endpoints", reason)


def _check_group(config: Config) -> None:
    """An address of one host is joined by nobody: the router starts, and scouts nothing."""
    path = "scouting/multicast/address"
    if not config.value("scouting/multicast/enabled", bool):
        return
    group = config.value(path, str)
    if not ip_address(group.rpartition(":")[0].strip("[]")).is_multicast:
        reason = "a group is legal, of 224.0.0.0/4 or ff00::/8, as the default 224.0.0.224:7446"
        raise ConfigError(path, f"saw {group!r}; {reason}")


def _check_listeners(config: Config) -> None:
    """The second one of two would find its address in use."""
    seen: set[str] = set()
    for endpoint in (one for group in config.endpoints("listen") for one in group):
        text = str(endpoint.locator())
        if text in seen and not text.endswith(":0"):  # port 0: each gets one of its own
            raise ConfigError("listen/endpoints", f"{text} is there twice; remove one")
        seen.add(text)


def _check_places(config: Config) -> None:
    """Interfaces and directories that are not there: links and scouting would wait for them."""
    scouting = ScoutingSettings.from_config(config)
    if scouting.enabled:
        check_interfaces(scouting.interface, scouting.address, "scouting/multicast/interface")
    for side in _SIDES:
        for endpoint in (one for group in config.endpoints(side) for one in group):
            if endpoint.protocol == _UNIX:
                _check_unix(side, endpoint)
            if facts(endpoint.protocol).has_port:
                _check_interfaces(side, endpoint)


def _check_interfaces(side: str, endpoint: Endpoint) -> None:
    """The interface of the option `iface`, and that of the zone of an IPv6 address."""
    path, name = f"{side}/endpoints", text_option(endpoint, "iface")
    if is_group(endpoint):
        check_interfaces(name or "auto", endpoint.address, path)
        return
    there = [one for pair in socket.if_nameindex() for one in (pair[1], str(pair[0]))]
    for one in (name, endpoint.host_port()[0].partition("%")[2]):
        if one and one not in there:
            reason = f"no interface {one!r}; there are {', '.join(there[::2])}"
            raise ConfigError(path, f"{endpoint.locator()}: {reason}")


def _unused_values(config: Config) -> Iterator[str]:
    """Values that are legal, and let a router do nothing."""
    for kind, what in (("unicast", "neighbour that connects"), ("multicast", "member of a group")):
        path = f"transport/{kind}/max_sessions"
        if config.value(path, int) == 0:
            yield f"{path} is 0: every {what} is refused"
    for place, item in enumerate(records(config, "qos/network") or ()):
        if not item.get("overwrite"):
            yield f"qos/network/{place} has no effect: its overwrite is empty"
    if config.get("transport/auth/usrpwd/dictionary_file") is None:
        plugins = config.get("plugins")
        if isinstance(plugins, dict) and plugins.keys() & _NAMING_USERS:
            return
        for place, item in enumerate(records(config, "access_control/subjects") or ()):
            if item.get("usernames"):
                yield (
                    f"access_control/subjects/{place} has no effect: no neighbour has a user name,"
                    " as transport/auth/usrpwd/dictionary_file is not set"
                )


def _unused_certificate(config: Config) -> Iterator[str]:
    """A connecting side shows its certificate with mutual TLS only."""
    enabled = f"{_TLS}/enable_mtls"
    if config.value(enabled, bool):
        return
    for name in ("connect_certificate", "connect_private_key"):
        for key in (name, f"{name}_base64"):
            if config.get(f"{_TLS}/{key}") is not None:
                yield f"{_TLS}/{key} has no effect: {enabled} is false, so it is never shown"


def _unused_rules(config: Config) -> Iterator[str]:
    """Access rules that are not in effect: without `enabled` every neighbour may do everything."""
    enabled = "access_control/enabled"
    if config.value(enabled, bool):
        return
    written = [one for one in config.paths() if one.startswith("access_control/")]
    if any(one != enabled for one in written):
        yield f"access_control has no effect: {enabled} is false, so every action is allowed"


def _check_endpoint(side: str, endpoint: Endpoint, settings: LinkSettings) -> None:
    try:
        check_scheme(endpoint, settings.protocols)
        check_options(endpoint)
        if not facts(endpoint.protocol).has_port:  # nothing is looked up
            Registry().scheme(endpoint.protocol).resolve(endpoint, listening=side == "listen")
    except EleaError as error:
        raise ConfigError(f"{side}/endpoints", refusal(endpoint, error)) from None
    if side == "connect" and facts(endpoint.protocol).has_port and endpoint.host_port()[1] == 0:
        raise ConfigError(f"{side}/endpoints", f"{endpoint.locator()}: expected a port, got 0")
    if endpoint.protocol != "tls":
        return
    try:
        tls = settings.tls.for_endpoint(endpoint)
        if side == "listen":
            server_context(tls)
        else:
            client_context(tls)
    except LinkError as error:
        raise ConfigError(f"{side}/endpoints", f"{endpoint.locator()}: {error}") from None


def _check_unix(side: str, endpoint: Endpoint) -> None:
    """A socket needs a path that fits; to listen, also a directory in which it can be made."""
    path, length = Path(endpoint.address), len(os.fsencode(endpoint.address))
    reason = None
    if length > _UNIX_PATH_LEN_MAX:
        reason = f"expected a path of {_UNIX_PATH_LEN_MAX} bytes at most, got {length}"
    elif side == "listen":
        folder = path.absolute().parent
        if not folder.is_dir():
            reason = f"there is no directory {folder}; make it, or name another path"
        elif not os.access(folder, os.W_OK | os.X_OK):
            reason = f"{folder} cannot be written; name another path"
        elif path.exists() and not path.is_socket():
            reason = f"{path} is there and is not a socket; name another path"
    if reason is not None:
        raise ConfigError(f"{side}/endpoints", f"{_UNIX}: {reason}")


def _check_audit(config: Config) -> None:
    file = config.get(AUDIT_FILE)
    if not isinstance(file, str):
        return
    path = Path(file)
    if path.exists():
        if not (path.is_file() and os.access(path, os.W_OK)):
            raise ConfigError(AUDIT_FILE, f"{file} is no file that can be written")
    elif not (path.absolute().parent.is_dir() and os.access(path.absolute().parent, os.W_OK)):
        raise ConfigError(AUDIT_FILE, f"{file} cannot be made: its directory cannot be written")
