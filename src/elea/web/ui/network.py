"""Network: what nodes tell of themselves, asked for while somebody looks and no longer.

All browsers share one look. It is taken anew every two seconds, or more rarely where it takes long,
so that it never costs more than a tenth of a processor.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Mapping
from typing import Final

from elea.errors import EleaError
from elea.json5 import Json
from elea.operate.admin_space import AdminSpace
from elea.operate.labels import Labels
from elea.operate.text import escape
from elea.operate.traffic import Look, look
from elea.query import QueryTarget
from elea.web.state import State
from elea.web.ui import alerts
from elea.web.ui.index import MARKS, RECORDED, Index
from elea.web.ui.told import Told, Topic, home

_LOG: Final = logging.getLogger("elea.web")
_PERIOD_S: Final = 2.0
_REST: Final = 10  # of the time that a look took
_TIMEOUT_S: Final = 5.0
_STATUS: Final = "/status/plugins/"
_EVENTS_COUNT: Final = 100
_REFUSED: Final = ("elea_refused_messages", "elea_links_refused")


class Network:
    """Nodes, sessions and declared keys, as last seen."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.space = AdminSpace(state.session, _TIMEOUT_S, with_own=True)
        self.labels = Labels(self.space)
        self.told = Told(state.session, state.limits.ui_idle_ns / 1e9)
        self.look: Look | None = None
        self.index = Index({})
        self.users: dict[str, dict[str, list[str]]] = {}  # ids by kind, of each key
        self._recorded: frozenset[str] = frozenset()
        self.left_out_count = 0  # declared keys beyond the limit
        self.services: dict[str, Json] = {}  # what services of this node tell
        self.refused: dict[str, int] = {}
        self._growing: set[str] = set()  # kinds of refusals that went on at the last look
        self.events: deque[tuple[float, str, str]] = deque(maxlen=_EVENTS_COUNT)
        self.revision = 0  # grows with every look
        self._wanted_until_s = 0.0
        self._task: asyncio.Task[None] | None = None

    def want(self, *topics: Topic) -> None:
        """Somebody looks: keep looking for some seconds, at topics besides the nodes."""
        self.told.want(topics)
        self._wanted_until_s = time.monotonic() + self._state.limits.ui_idle_ns / 1e9
        if self._task is None and not self._state.stopping:
            self._task = asyncio.create_task(self._run())

    @property
    def is_looking(self) -> bool:
        """Whether anything is asked of the nodes now and then."""
        return self._task is not None

    async def _run(self) -> None:
        try:
            while time.monotonic() < self._wanted_until_s and not self._state.stopping:
                begun_s = time.monotonic()
                try:
                    await self._state.call(self._refresh)
                    self.revision += 1
                except EleaError as error:  # the session ends, most likely
                    _LOG.info("the page could not look at the network: %s", error)
                except Exception:  # a bug of ours: what was seen last stays on the page
                    _LOG.exception("the page could not look at the network")
                took_s = time.monotonic() - begun_s
                await asyncio.sleep(max(_PERIOD_S, _REST * took_s))
        finally:
            self._task = None
            self._state.later(self.told.leave)

    # By one worker at a time.

    def _refresh(self) -> None:
        before, now = self.look, look(self.space.nodes(stats=True))
        if before is not None:
            now.compare(before)
        self.told.refresh()
        self._read_keys()
        self.labels.learn(now.nodes)
        self._read_services()
        self._read_refusals()
        if before is not None:
            self._note_changes(before, now)
        self.look = now

    def _read_keys(self) -> None:
        count_max = self._state.limits.ui_keys_count
        users: dict[str, dict[str, list[str]]] = {}
        left_out: set[int] = set()
        own = {str(self._state.session.zid())}
        for source in self.space.sources("**"):
            if source.key == alerts.KEYS and {*source.zids} <= own:
                continue  # the page's own subscriber
            if source.key not in users and len(users) >= count_max:
                if len(left_out) < count_max:
                    left_out.add(hash(source.key))
                continue
            zids = users.setdefault(source.key, {}).setdefault(source.kind, [])
            zids.extend(zid for zid in source.zids if zid not in zids)
        self.left_out_count = len(left_out)
        recorded = self.told.recorded
        if users != self.users or recorded is not self._recorded:
            marks = {key: "".join(MARKS[kind] for kind in sorted(users[key])) for key in users}
            for key in recorded:
                if key in marks or len(marks) < count_max:
                    marks[key] = marks.get(key, "") + RECORDED
            self.index, self.users, self._recorded = Index(marks), users, recorded

    def _read_services(self) -> None:
        prefix = f"@/{home(self._state.session)}/*{_STATUS}"
        found: dict[str, Json] = {}
        replies = self._state.session.get(f"{prefix}**", target=QueryTarget.ALL, timeout=_TIMEOUT_S)
        for reply in replies:
            if reply.ok is None:
                continue
            key = str(reply.ok.key_expr)
            try:
                found[key.partition(_STATUS)[2]] = json.loads(reply.ok.payload.to_bytes())
            except (ValueError, RecursionError):
                continue
        self.services = found

    def _read_refusals(self) -> None:
        collect = self._state.collect
        found: dict[str, int] = {}
        for family in [] if collect is None else collect(per_transport=False):
            if family.name in _REFUSED:
                for labels, value in family.samples:
                    if value:
                        name = _refusal(labels)
                        found[name] = found.get(name, 0) + int(value)
        growing = {name for name, count in found.items() if count > self.refused.get(name, 0)}
        if self.look is not None:
            for name in sorted(growing - self._growing):  # once, however long it goes on
                self._note("refused", f"refused: {escape(name)}")
        self._growing = growing
        self.refused = found

    def _note_changes(self, before: Look, now: Look) -> None:
        old, new = _sessions(before), _sessions(now)
        for at, zid in sorted(new.keys() - old.keys()):
            self._note("joined", f"{self._name(zid)} connected to {self._name(at)}")
        for at, zid in sorted(old.keys() - new.keys()):
            self._note("left", f"{old[at, zid]} left {self._name(at)}")
        dropped = dict(now.drop_reasons())
        for reason, count in before.drop_reasons():
            more = dropped.get(reason, 0) - count
            if more > 0:
                self._note("dropped", f"{more} messages dropped: {escape(reason)}")

    def _name(self, zid: str) -> str:
        return escape(self.labels.label(zid))

    def _note(self, mark: str, text: str) -> None:
        self.events.append((time.time(), mark, text))


def _refusal(labels: Mapping[str, str]) -> str:
    """What was refused, in words: `put coming in, access control`."""
    flow = {"ingress": "coming in", "egress": "going out"}.get(labels.get("flow", ""), "")
    what = " ".join(filter(None, (labels.get("action", "link").replace("_", " "), flow)))
    return f"{what}, {labels.get('reason', 'no reason').replace('_', ' ')}"


def _sessions(taken: Look) -> dict[tuple[str, str], str]:
    """Sessions by their two ends, with what the far end is called without its label."""
    return {
        (row.node.zid, row.session.zid): escape(
            row.identity or f"{row.session.role} {row.session.zid[:4]}"
        )
        for row in taken.rows
    }
