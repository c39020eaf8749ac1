"""Recording of topics: a recorder's keys, tokens for who must see it, and definitions (R2-701)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from elea.errors import UnknownTypeError
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.match import includes
from elea.ros.formats.keys import BUFFER_CPU
from elea.ros.formats.qos import QoS
from elea.ros.formats.tokens import CPU_BACKEND, AnyToken, Kind, Token
from elea.ros.node import Node
from elea.session.liveliness import LivelinessToken
from elea.store.log.settings import LogSettings
from elea.store.recorder.recorder import Recorder
from elea.store.recorder.settings import RecordingSettings

_log: Final = logging.getLogger("elea.ros")


class RosRecording:
    """Records topics, by name patterns of key expressions, into a log.

    Args:
        topics: As `/robot1/*`; none means all.
        hidden: Declare no subscriptions: publishers of Lyrical may then send no images.
    """

    def __init__(
        self, node: Node, directory: Path, topics: Sequence[str] = (), *, hidden: bool = False
    ) -> None:
        self._node = node
        self._directory = directory
        self._hidden = hidden
        self._lock = threading.Lock()
        self._declared: dict[tuple[str, str, str], LivelinessToken] = {}
        self._wanted: set[tuple[str, str]] = set()
        self._patterns = [name.removeprefix("/") for name in topics] or ["**"]
        context = node.context
        front = f"{context.prefix}/" if context.prefix else ""
        keys: list[str] = []
        for pattern in self._patterns:
            key = f"{front}{context.domain}/{pattern}/*/*"
            for text in (key, f"{key}/{BUFFER_CPU}"):
                found = str(KeyExpr.autocanonize(text))
                if not any(includes(one, found) for one in keys):
                    keys.append(found)
        settings = RecordingSettings(
            key_exprs=(*keys, f"{front}@ros2_lv/{context.domain}/**"),
            name=directory.name,
            directory=directory,
            log=LogSettings(),
            liveliness=True,
            history=True,
        )
        self.recorder = Recorder(context.session, [settings])
        self._end_listening = node.graph.listen(self._heard)

    def stop(self) -> int:
        """End; definitions of what was recorded are kept with the log; how many rows it has."""
        self._end_listening()
        with self._lock:
            declared, self._declared = dict(self._declared), {}
            wanted = set(self._wanted)
        for token in declared.values():
            token.undeclare()
        for type, hash in sorted(wanted):
            try:
                self._node.types.find(type, hash)
            except UnknownTypeError as error:
                self._node.types.tell_once(error)
        self.recorder.stop()
        if self._directory.is_dir():
            self._node.types.keep(self._directory)
        return int(self.recorder.counts().rows)

    def _heard(self, token: AnyToken, came: bool) -> None:
        if not came or token.kind is not Kind.PUBLISHER or not isinstance(token, Token):
            return
        if token.zid == self._node.context.zid or not self._is_chosen(token.name):
            return
        with self._lock:
            self._wanted.add((token.type, token.hash))
            place = (token.name, token.type, token.hash)
            if self._hidden or place in self._declared:
                return
        made = self._token(token)
        key = self._node.context.token_key(made)
        declared = self._node.context.session.liveliness().declare_token(key)
        with self._lock:
            self._declared[place] = declared

    def _token(self, publisher: Token) -> Token:
        """A subscription that publishers see, with backends if they may need it (R2-251)."""
        backends = None
        try:
            kind = self._node.types.message(publisher.type, publisher.hash)
            if kind.has_bytes and not publisher.qos.is_transient_local:
                backends = dict(CPU_BACKEND)
        except UnknownTypeError as error:
            _log.debug("%s", error)
        made = self._node.endpoint_token(
            Kind.SUBSCRIPTION, publisher.name, publisher.type, publisher.hash, QoS(depth=10)
        )
        return replace(made, backends=backends)

    def _is_chosen(self, name: str) -> bool:
        return any(includes(pattern, name.removeprefix("/")) for pattern in self._patterns)
