"""Sessions of Elea and of Eclipse Zenoh, opened, asked and compared in one way."""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

import zenoh
from tests.ports import free_port as free_port

import elea

ELEA: Final = "elea"
ECLIPSE: Final = "eclipse"
MODULES: Final[dict[str, ModuleType]] = {ELEA: elea, ECLIPSE: zenoh}
WAIT_S: Final = 20  # for what must happen; on a busy machine too

# Nothing is found by itself, so that only what a test connects is connected.
_ALONE: Final[dict[str, object]] = {
    "scouting/multicast/enabled": False,
    "scouting/gossip/enabled": False,
    "transport/shared_memory/enabled": False,
}


def free_endpoint() -> str:
    """A TCP endpoint of loopback that nobody uses."""
    return f"tcp/127.0.0.1:{free_port()}"


def eventually(condition: Callable[[], object], wait_s: float = WAIT_S) -> bool:
    """Poll: what is waited for happens in threads of another implementation."""
    deadline_s = time.monotonic() + wait_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        threading.Event().wait(0.01)
    return True


def settings_of(
    mode: str,
    *,
    listen: str | None = None,
    connect: str | list[str] | None = None,
    more: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """A configuration that both implementations take."""
    return {
        "mode": mode,
        "listen/endpoints": [] if listen is None else [listen],
        "connect/endpoints": [connect] if isinstance(connect, str) else connect or [],
        **_ALONE,
        **(more or {}),
    }


def open_session(name: str, settings: Mapping[str, object]) -> Any:
    """A session; the caller closes it."""
    module = MODULES[name]
    config = module.Config()
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    return module.open(config)


@contextmanager
def session(
    name: str,
    mode: str,
    *,
    listen: str | None = None,
    connect: str | list[str] | None = None,
    more: Mapping[str, object] | None = None,
) -> Iterator[Any]:
    """A session of `elea` or of `eclipse`."""
    opened = open_session(name, settings_of(mode, listen=listen, connect=connect, more=more))
    try:
        yield opened
    finally:
        opened.close()


_observers: dict[str, Any] = {}  # by the id of the router they ask
_asks: dict[str, dict[tuple[str, str], Any]] = {}  # what observers declared, by kind and key


@contextmanager
def eclipse_router(
    endpoint: str | None = None, more: Mapping[str, object] | None = None
) -> Iterator[tuple[Any, str]]:
    """An Eclipse router that describes itself under `@/`, and where it listens."""
    endpoint = endpoint or free_endpoint()
    told = {"adminspace/enabled": True, "listen/endpoints": [endpoint], **(more or {})}
    # Eclipse can lock itself up when a router's own session asks it about itself: ask from outside.
    with (
        session(ECLIPSE, "router", more=told) as router,
        session(ECLIPSE, "client", connect=endpoint) as observer,
    ):
        _observers[zid_of(router)] = observer
        try:
            yield router, endpoint
        finally:
            del _observers[zid_of(router)]
            _asks.pop(zid_of(router), None)


def module_of(made: Any) -> ModuleType:
    """The implementation that a session, or a thing of it, belongs to."""
    return MODULES[ELEA if type(made).__module__.startswith("elea") else ECLIPSE]


def zid_of(made: Any) -> str:
    """The id of a session's node."""
    return str(made.info.zid())


def node_of(ours: Any) -> Any:
    """The node behind a session of Elea: its counters are not in zenoh-python's interface."""
    return ours._context.driver.node


def word(value: object) -> str:
    """The name of an enumeration's member, whatever the implementation."""
    return str(value).rpartition(".")[2]


def sessions_at(router: Any) -> dict[str, dict[str, Any]]:
    """The neighbours of an Eclipse router, by their id."""
    observer = _observers[zid_of(router)]
    [reply] = _replies(observer, f"@/{zid_of(router)}/router")
    found = json.loads(reply.ok.payload.to_bytes())["sessions"]
    return {one["peer"]: one for one in found if one["peer"] != zid_of(observer)}


def declared_at(router: Any, kind: str) -> dict[str, dict[str, list[str]]]:
    """Declared keys of a kind at an Eclipse router, with who declared them.

    An Eclipse router that describes its declarations while another one arrives locks itself up:
    `eventually(lambda: has_been_told(...))` first, so that nothing is on its way.
    """
    prefix = f"@/{zid_of(router)}/router/{kind}/"
    return {
        str(one.ok.key_expr).removeprefix(prefix): json.loads(one.ok.payload.to_bytes())
        for one in _replies(_observers[zid_of(router)], f"{prefix}**")
    }


def has_been_told(router: Any, kind: str, key: str) -> bool:
    """Whether an Eclipse router has told its client of a declaration that matches `key`."""
    observer = _observers[zid_of(router)]
    if kind == "token":
        return bool(list(replies_to(observer.liveliness().get, key, timeout=WAIT_S)))
    asks = _asks.setdefault(zid_of(router), {})
    if (kind, key) not in asks:
        declare = {"subscriber": observer.declare_publisher, "queryable": observer.declare_querier}
        asks[kind, key] = declare[kind](key)
    return bool(asks[kind, key].matching_status.matching)


class Replies:
    """What is answered to a question that was asked; to look at it waits for the end.

    Now and then a client of Eclipse does not notice the end of its query, not even by the timeout:
    a loop over the replies would wait for ever.
    """

    def __init__(self, get: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self._found: list[Any] = []
        self._ended = threading.Event()
        handlers = module_of(get.__self__).handlers
        get(*args, handlers.Callback(self._found.append, self._ended.set), **options)

    def __iter__(self) -> Iterator[Any]:
        self._ended.wait(WAIT_S)
        return iter(list(self._found))


def replies_to(get: Any, *args: Any, **options: Any) -> Replies:
    """Ask by the `get` of a session, a querier or `liveliness()`, of either implementation."""
    return Replies(get, args, options)


def _replies(observer: Any, selector: str, **options: Any) -> list[Any]:
    """What a client is answered."""
    return list(replies_to(observer.get, selector, **{"timeout": WAIT_S, **options}))


class Taken:
    """A callback that keeps what it is given."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def __call__(self, item: Any) -> None:
        self.items.append(item)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def payloads(self) -> list[bytes]:
        """The payloads of the samples."""
        return [bytes(one.payload) for one in self.items]

    @property
    def changes(self) -> list[tuple[str, str]]:
        """Key and kind of the samples."""
        return [(str(one.key_expr), word(one.kind)) for one in self.items]

    def reach(self, count: int, wait_s: float = WAIT_S) -> bool:
        """Wait until there are so many."""
        return eventually(lambda: len(self.items) >= count, wait_s)


@contextmanager
def pair(
    listener: str,
    mode: str = "peer",
    *,
    endpoint: str | None = None,
    dialled: str | None = None,
    more: Mapping[str, Mapping[str, object]] | None = None,
) -> Iterator[tuple[Any, Any]]:
    """A session of Elea and one of Eclipse Zenoh, connected: (ours, theirs).

    Args:
        listener: whose node listens. An Eclipse one is a router if the other is a client.
        mode: the role of the node that dials.
        endpoint: where the listener is; somewhere free if not given.
        dialled: what is dialled, if that is not where the listener is.
        more: settings by implementation.
    """
    endpoint = endpoint or free_endpoint()
    dialler = ECLIPSE if listener == ELEA else ELEA
    role = "router" if (listener, mode) == (ECLIPSE, "client") else "peer"
    settings = more or {}
    with (
        session(listener, role, listen=endpoint, more=settings.get(listener)) as one,
        session(dialler, mode, connect=dialled or endpoint, more=settings.get(dialler)) as other,
    ):
        yield (one, other) if listener == ELEA else (other, one)


def say(source: Any, key: str, got: Taken) -> bool:
    """Put once; whether it has arrived soon after."""
    source.put(key, b"1")
    return got.reach(1, 0.1)


def exchange(one: Any, other: Any, key: str) -> None:
    """A sample passes, in both directions."""
    for source, target in ((one, other), (other, one)):
        got = Taken()
        subscriber = target.declare_subscriber(key, got)
        assert eventually(functools.partial(say, source, key, got))
        subscriber.undeclare()


def port_of(endpoint: str) -> int:
    """The port of a TCP endpoint."""
    return int(endpoint.rpartition(":")[2])


def matched(entity: Any, *, by_somebody: bool = True) -> bool:
    """Wait until a publisher or querier knows that there is, or is not, somebody for it."""
    return eventually(lambda: bool(entity.matching_status.matching) is by_somebody)


def watching(watcher: Any, holder: Any, key: str, *, history: bool = False) -> Taken:
    """What a liveliness subscriber on `key/*` sees, once it is known that it sees the holder's.

    Without history it sees what comes after its interest has arrived where tokens are known.
    """
    seen = Taken()
    watcher.liveliness().declare_subscriber(f"{key}/*", seen, history=history)

    def flash() -> bool:
        token = holder.liveliness().declare_token(f"{key}/flash")
        found = eventually(lambda: (f"{key}/flash", "PUT") in seen.changes, 0.2)
        token.undeclare()
        return found

    assert eventually(flash)
    assert eventually(lambda: seen.changes[-1] == (f"{key}/flash", "DELETE"))
    seen.items[:] = [one for one in seen.items if str(one.key_expr) != f"{key}/flash"]
    return seen


def alive(asker: Any, key: str, expected: list[str]) -> bool:
    """Ask who is alive until that is as expected.

    Asked once is enough for Elea; an Eclipse client may end its query before the answers to it.
    """
    return eventually(
        lambda: (
            sorted(
                str(one.ok.key_expr)
                for one in replies_to(asker.liveliness().get, key, timeout=WAIT_S)
            )
            == expected
        )
    )
