"""What a configuration opens to others, in words; and the one thing that needs a word of consent.

Others reach a router by the endpoints it listens at. One that is not encrypted and can be reached
from other hosts is refused unless `--allow-plain` says that it is meant.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING

from elea.config.config import Config
from elea.config.kinds import Value
from elea.errors import ConfigError, LocatorError
from elea.link.schemes import facts
from elea.locator import Endpoint
from elea.policy.filters import FILTERS
from elea.policy.policy import Policy
from elea.policy.quota import PATH as QUOTAS
from elea.policy.records import Record, records
from elea.policy.roles import Roles
from elea.policy.rules import AUTHORIZER
from elea.store.recorder.section import read_flight
from elea.web.settings import EVERYTHING, RestSettings

if TYPE_CHECKING:
    from elea.dds.settings import DdsSettings


def check(config: Config, *, allow_plain: bool) -> list[Endpoint]:
    """The endpoints that are open to other hosts and not encrypted.

    Raises:
        ConfigError: if there is one and that was not allowed, if access rules do not fit together,
            or if REST is not configured as it may be.
    """
    Policy.from_config(config)
    plain = [one for one in _listening(config) if is_beyond_host(one) and not is_encrypted(one)]
    if plain and not allow_plain:
        raise ConfigError(
            "listen/endpoints",
            f"{plain[0]} is not encrypted and open to other hosts; listen at 127.0.0.1, use"
            " tls/..., or allow it with --allow-plain",
        )
    rest = _rest(config)
    if rest is not None and not (rest.is_loopback or rest.is_encrypted or allow_plain):
        raise ConfigError(
            "plugins/rest/http_port",
            f"{rest.url()} is not encrypted and open to other hosts; serve at 127.0.0.1, name"
            " tls_certificate and tls_private_key, or allow it with --allow-plain",
        )
    for path, one in _dds(config):
        if not (one.is_loopback or allow_plain):
            raise ConfigError(
                path,
                f"DDS domain {one.domain} is not encrypted and open to other hosts; keep"
                " localhost_only, or allow it with --allow-plain",
            )
    return plain


def is_encrypted(endpoint: Endpoint) -> bool:
    """Whether what goes over it cannot be read on the way."""
    return facts(endpoint.protocol).is_encrypted


def is_beyond_host(endpoint: Endpoint) -> bool:
    """Whether other hosts can reach a listener there.

    Example:
        >>> [is_beyond_host(Endpoint.parse(one)) for one in ("tcp/[::1]:7447", "tcp/[::]:7447")]
        [False, True]
    """
    if facts(endpoint.protocol).is_local or endpoint.get("iface") == "lo":
        return False
    try:
        host = endpoint.host_port()[0]
        address = ipaddress.ip_address(host.partition("%")[0])
    except LocatorError:
        return True  # not understood here: say the worse
    except ValueError:
        return host != "localhost"  # a name: where it leads is not asked
    return not (getattr(address, "ipv4_mapped", None) or address).is_loopback


def lines(config: Config) -> Iterator[str]:
    """What the configuration opens, one line each, the gravest first."""
    listening = list(_listening(config))
    for endpoint in sorted(listening, key=lambda one: (is_encrypted(one), not is_beyond_host(one))):
        reach = "other hosts" if is_beyond_host(endpoint) else "this host only"
        secrecy = "encrypted" if is_encrypted(endpoint) else "not encrypted"
        yield f"{endpoint}: open to {reach}, {secrecy}"
    if not listening:
        yield "no listener: nobody can connect"
    yield from _who_may_connect(config, listening)
    roles = Roles.from_config(config).selections
    for role in ("router", "peer"):
        if role in roles:
            yield f"who may be a {role}: those that elea/roles/{role} names"
    yield from _what_may_pass(config)
    if config.value("adminspace/enabled", bool):
        read = config.value("adminspace/permissions/read", bool)
        write = config.value("adminspace/permissions/write", bool)
        may = " and ".join(verb for verb, allowed in (("read", read), ("write", write)) if allowed)
        who = "whoever is connected"
        if config.value("access_control/enabled", bool) or config.get(AUTHORIZER) is not None:
            who = "those whom access rules let query @/**"
        yield f"admin space: {who} may {may or 'neither read nor write'} it"
    else:
        yield "admin space: off"
    yield from _what_rest_opens(config)
    yield from _what_flight_opens(config)
    yield from _what_xrce_opens(config)
    yield from _what_dds_opens(config)
    if config.value("scouting/multicast/enabled", bool):
        group = config.value("scouting/multicast/address", str)
        interface = config.value("scouting/multicast/interface", str)
        yield f"multicast scouting: on, group {group}, interface {interface}"
    else:
        yield "multicast scouting: off"


def _listening(config: Config) -> Iterator[Endpoint]:
    for group in config.endpoints("listen"):
        yield from group


def _section(config: Config, name: str) -> dict[str, Value] | None:
    """What is said of a service; None: it does not run."""
    services = config.get("plugins")
    section = services.get(name) if isinstance(services, dict) else None
    if section is None or not config.value("plugins_loading/enabled", bool):
        return None
    return section if isinstance(section, dict) else {}


def _rest(config: Config) -> RestSettings | None:
    """How REST is configured, if it is."""
    section = _section(config, "rest")
    return None if section is None else RestSettings.read(section)


def _what_rest_opens(config: Config) -> Iterator[str]:
    try:
        rest = _rest(config)
    except ConfigError:
        return  # it would not start, and `check` says why
    if rest is None:
        return
    reach = "this host only" if rest.is_loopback else "other hosts"
    secrecy = "encrypted" if rest.is_encrypted else "not encrypted"
    yield f"REST at {rest.url()}: open to {reach}, {secrecy}"
    writers = "holders of the token" if rest.tokens else "anybody"
    readers = writers if rest.protect == EVERYTHING else "anybody"
    keys = "every key"
    if config.value("access_control/enabled", bool):
        keys = "what access rules allow"
    yield f"REST: {readers} may read {keys} and /metrics, {writers} may write {keys}"
    if rest.dashboard:
        viewers = "holders of the token" if rest.viewing_needs_token else "anybody"
        yield f"REST: the page shows nodes, declared keys and values to {viewers}"
        if rest.operate is not None or rest.operate_link:
            yield "REST: holders of the token to operate may publish by the page"
    if rest.allowed_origins:
        yield f"REST: pages of {', '.join(sorted(rest.allowed_origins))} may use it from a browser"


def _what_flight_opens(config: Config) -> Iterator[str]:
    try:
        flight = read_flight(_section(config, "recorder") or {})
    except ConfigError:
        return  # it would not start, and `check` says why
    if flight is None:
        return
    reach = "this host only" if flight.is_loopback else "other hosts"
    secrecy = "encrypted" if flight.location.is_encrypted else "not encrypted"
    readers = "anybody" if flight.token is None else "holders of the token"
    yield f"Flight at {flight.location}: open to {reach}, {secrecy}; {readers} may read every log"


def _dds(config: Config) -> Iterator[tuple[str, DdsSettings]]:
    """The domains that are bridged, each with its part of the configuration."""
    for name in ("dds", "ros2dds"):
        section = _section(config, name)
        if section is not None:
            # late: most routers have no bridge
            from elea.dds.settings import DdsSettings, ros_section

            said = ros_section(section) if name == "ros2dds" else section
            for one in DdsSettings.read_all(said, f"plugins/{name}"):
                yield f"plugins/{name}", one


def _what_dds_opens(config: Config) -> Iterator[str]:
    try:
        found = list(_dds(config))
    except ConfigError:
        return  # it would not start, and `check` says why
    for _, one in found:
        reach = "this host only" if one.is_loopback else "other hosts"
        yield (
            f"DDS domain {one.domain}: open to {reach}, not encrypted; participants may read and"
            " write every bridged topic"
        )


def _what_xrce_opens(config: Config) -> Iterator[str]:
    section = _section(config, "xrce")
    if section is None:
        return
    from elea.devices.settings import XrceSettings  # late: most routers have no gateway

    try:
        settings = XrceSettings.read(section)
    except ConfigError:
        return  # it would not start, and `check` says why
    who = "devices" if settings.keys_file is None else "devices that have their keys"
    what = "every key" if settings.access is None else "what plugins/xrce/access says"
    for one in settings.listen:
        reach = "other hosts" if is_beyond_host(one) else "this host only"
        yield f"XRCE at {one}: open to {reach}, not encrypted; {who} may read and write {what}"


def _who_may_connect(config: Config, listening: list[Endpoint]) -> Iterator[str]:
    users = config.get("transport/auth/usrpwd/dictionary_file") is not None
    if users:
        yield "who may connect: users of the dictionary file, with their passwords"
        if any(is_beyond_host(one) and not is_encrypted(one) for one in listening):
            yield "warning: passwords are proven over a link that is not encrypted"
    if config.value("transport/link/tls/enable_mtls", bool):
        yield "who may connect by TLS: holders of a certificate of the trusted authority"
    elif listening and not users:
        yield "who may connect: anybody who reaches a listener"


def _what_may_pass(config: Config) -> Iterator[str]:
    if config.value("access_control/enabled", bool):
        default = config.value("access_control/default_permission", str)
        rules, subjects = (
            _records(config, f"access_control/{name}") for name in ("rules", "subjects")
        )
        yield (
            f"access control: on, {_counted(rules, 'rule')} for {_counted(subjects, 'subject')};"
            " what no rule"
            f" decides is {'allowed' if default == 'allow' else 'denied'}"
        )
        for subject in subjects:
            if "zids" in subject:
                yield f"warning: subject {subject['id']} goes by zids, which nobody has to prove"
    else:
        given = "its rules are off" if _records(config, "access_control/rules") else "none"
        yield f"access control: {given}, whoever is connected may read and write every key"
    authorizer = config.get(AUTHORIZER)
    if authorizer is not None:
        yield f"access control: {authorizer} is asked as well"
    for name in (*FILTERS, QUOTAS):
        count = len(_records(config, name))
        if count:
            yield f"{name}: {count}"


def _counted(listed: list[Record], noun: str) -> str:
    return f"{len(listed)} {noun}{'' if len(listed) == 1 else 's'}"


def _records(config: Config, path: str) -> list[Record]:
    return records(config, path) or []
