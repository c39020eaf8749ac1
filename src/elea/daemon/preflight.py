"""Whether a router could start with a configuration, before it starts; and what has no effect.

The schema says what a value may be. This asks the world around: whether schemes, services and
volumes are installed, and whether files are there and can be used.
"""

from __future__ import annotations

import os
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
from elea.link.registry import check_scheme
from elea.link.settings import LinkSettings
from elea.link.tls_context import certificate_end_s, client_context, server_context
from elea.locator import Endpoint
from elea.node.settings import NodeSettings

_TLS: Final = "transport/link/tls"
_SIDES: Final = ("listen", "connect")


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
    for path, reason in expired(config):
        raise ConfigError(path, reason)
    services.check_parts(config)


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
    except EleaError as error:
        raise ConfigError(f"{side}/endpoints", f"{endpoint.locator()}: {error}") from None
    check_options(endpoint)
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
