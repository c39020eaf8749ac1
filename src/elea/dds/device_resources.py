"""Resources that XRCE devices describe by property 1: each makes a route to DDS (D-736).

A gateway declares the token `@xrce/<zid>/dds/<key, / as §>` and answers a query on it with the
property. Owned by the DDS thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from elea.dds.announced import announced_guid
from elea.dds.parameter_list import read_parameters
from elea.dds.port import Endpoint
from elea.dds.state import LOG
from elea.errors import EleaError
from elea.keyexpr.keyexpr import KeyExpr
from elea.provenance import SampleKind
from elea.sample import Reply, Sample
from elea.session.handlers import Callback

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge
    from elea.session.context import Declared

TOKENS: Final = "@xrce/*/dds/*"
_SLASH: Final = "§"


class DeviceResources:
    """Follows what gateways tell of their devices."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._watch: Declared | None = None
        self._there: dict[str, bytes] = {}  # GUIDs of the endpoints that stand for them, by token

    def start(self) -> None:
        """Watch the tokens of gateways."""
        post = self._bridge.post

        def told(sample: Sample) -> None:
            token, is_there = sample.key_text, sample.kind is SampleKind.PUT
            post(lambda _now_ns: self._told(token, is_there=is_there))

        self._watch = self._bridge.session.liveliness().declare_subscriber(
            TOKENS, Callback(told, indirect=False), history=True
        )

    def stop(self) -> None:
        """Follow no more."""
        self._bridge.undeclare(self._watch)

    def _told(self, token: str, *, is_there: bool) -> None:
        bridge = self._bridge
        if not is_there:
            known = self._there.pop(token, None)
            if known:
                bridge.announced.remove(known)
            return
        if token in self._there or len(self._there) >= bridge.limits.dds_routes_count:
            return
        self._there[token] = b""

        def take(reply: Reply) -> None:
            if reply.ok is not None:
                payload = reply.ok.payload.to_bytes()
                bridge.post(lambda _now_ns: self._add(token, payload))

        try:
            timeout = bridge.settings.queries_timeout_s
            bridge.session.get(KeyExpr(token), Callback(take, indirect=False), timeout=timeout)
        except EleaError:
            self._there.pop(token, None)

    def _add(self, token: str, payload: bytes) -> None:
        bridge = self._bridge
        if token not in self._there:
            return  # withdrawn meanwhile
        key = token.rpartition("/")[2].replace(_SLASH, "/")
        try:
            described = read_parameters(payload)
        except ValueError as error:
            bridge.counts.refused += 1
            LOG.warning("property 1 of %a makes no route: %a", key, str(error))
            return
        # As if the topic had a reader: what devices write reaches DDS before one is there.
        guid = self._there[token] = announced_guid(token, is_writer=False)
        bridge.announced.add(
            Endpoint(guid, guid, False, described.topic, described.type_name, described.qos), key
        )
