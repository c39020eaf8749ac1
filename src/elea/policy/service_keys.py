"""Service keys: what a message makes a service do, told by its key and parameters alone.

Services are asked by queries, so a query may write, and its key may name another key. This table is
the only place that knows which do. Access rules are held against what a message does, wherever it
goes: the node at which a client connects decides, and the service may be several routers away.

    @elea/log/NAME/info         tells what a log is
    @elea/log/NAME/density      tells how many rows it has of each span of time
    @elea/log/NAME/keys         tells which keys it has rows of
    @elea/log/NAME/put/KEY      publishes on KEY and records it, or deletes it
    @elea/log/NAME/puts/KEY     records samples on KEY, which may be deletions
    @elea/log/NAME/read/SHARD   gives rows of any key; of some with the parameter `keyexpr`
    @elea/log/NAME/commit/WHO   moves the offsets of a consumer
    @elea/replay/ID/status      tells how a replay is
    @elea/replay/ID/VERB        controls it, which may publish on any key; a put does so, too
    @elea/pipeline/NAME/...     tells what a pipeline is and how it does
    @sql/NAME                   gives rows of any key
    KEY/@adv/...                gives samples of KEY that an advanced publisher keeps
    KEY/@dds_pub_cache/ZID      gives samples of KEY that a bridge to DDS keeps
    @/ZID/ROLE/config/...       a put or delete changes the configuration, its rules among it

A chunk that begins with `@` is matched by no wildcard. Whatever reaches a service therefore has the
service's first chunk, and is found by it. What stands before it is the namespace of a session.

A queryable on `@elea/...` or `@sql/...` answers in the place of a service: it is told what others
put, and believed what it says is stored. It needs a rule that names the service.

What a cache answers for KEY is taken for samples of KEY, and what `KEY/@adv/pub/...` says for the
word of its publisher. Whoever declares or says it has to be allowed to put on KEY. An answer may
have a key that nobody asked for: whoever may neither put on that key nor answer for it gives none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from elea.errors import KeyExprError, LimitError
from elea.keyexpr.canon import canonize
from elea.keyexpr.match import includes, intersects
from elea.parameters import Parameters
from elea.policy.actions import Action
from elea.records import dataclass

ELEA: Final = "@elea"
SQL: Final = "@sql"
ADVANCED: Final = "@adv"
DDS_CACHE: Final = "@dds_pub_cache"
ADMIN: Final = "@"
READ: Final = "read"
COMMIT: Final = "commit"
REPLAY: Final = "replay"
EVERYTHING: Final = "**"

PUT: Final = "put"
PUTS: Final = "puts"
_LOG: Final = "log"
_CONFIG: Final = "*/*/config/**"
_HARMLESS: Final = (  # queries that only read
    *("log/*/info", "log/*/density", "log/*/keys", "log/*/read/*"),
    *("replay/*/status", "pipeline/**"),
)
_VERBS: Final = "replay/*/*"
_STATUS: Final = "status"
_CACHES: Final = (ADVANCED, DDS_CACHE)  # chunks after a key whose samples are kept
_HEAD_COUNT: Final = 3  # chunks between `@elea` and the key of a put
_WRITES: Final = (Action.PUT, Action.DELETE)
_PUT: Final = (Action.PUT,)
_READS: Final = (Action.DECLARE_SUBSCRIBER, Action.QUERY)
_ANSWERS: Final = (Action.DECLARE_QUERYABLE, Action.PUT)
_PUBLISHER: Final = "pub/**"
_ALL: Final = (Action.PUT, Action.DELETE, Action.QUERY, Action.DECLARE_SUBSCRIBER)


@dataclass(frozen=True, slots=True)
class Demand:
    """What a neighbour has to be allowed besides the message itself.

    Args:
        actions: One of them has to be allowed on `key`; none: only a rule that names `door` opens.
        key: A key expression.
        door: A chunk. An allow rule that includes the service's key and has this chunk opens it,
            whatever is allowed on `key`.
    """

    actions: tuple[Action, ...]
    key: str
    door: str | None = None


_CONTROL: Final = [Demand((one,), EVERYTHING, REPLAY) for one in _WRITES]


def is_service_key(action: Action, key: str) -> bool:
    """Whether a message of this kind on this key may need more than permission for its key."""
    if action is Action.QUERY:
        return any(one in key for one in (ELEA, SQL, *_CACHES))
    if action is Action.DECLARE_QUERYABLE:
        return any(one in key for one in (ELEA, SQL, *_CACHES))
    if action is Action.LIVELINESS_TOKEN:
        return ADVANCED in key
    if action is Action.REPLY:
        return True
    return action in _WRITES and ("@/" in key or ELEA in key or ADVANCED in key)


def demands(
    action: Action, key: str, parameters: str = "", has_payload: bool = False
) -> list[Demand]:
    """What a message needs besides permission for its own key.

    Args:
        action: What it does.
        key: On which key, in canonical form.
        parameters: Of a query.
        has_payload: Whether a query has one.

    Example:
        >>> demands(Action.QUERY, "@elea/log/all/put/door/1", "kind=delete")
        [Demand(actions=(<Action.DELETE: 'delete'>,), key='door/1', door=None)]
        >>> demands(Action.QUERY, "door/1")
        []
    """
    found: list[Demand] = []
    if action is Action.QUERY:
        for before, rest in _after(key, ELEA):
            found += _of_elea(before, rest, Parameters(parameters), has_payload=has_payload)
        if any(True for _ in _after(key, SQL)):
            found.append(Demand((Action.QUERY,), EVERYTHING, SQL))
        for cache in _CACHES:
            found += [Demand(_READS, before) for before, _ in _after(key, cache) if before]
    elif action is Action.DECLARE_QUERYABLE:
        for door in (ELEA, SQL):
            found += [Demand((), rest, door) for _, rest in _after(key, door, bare=True)]
        for cache in _CACHES:
            found += [Demand(_PUT, before) for before, _ in _after(key, cache) if before]
    elif action is Action.LIVELINESS_TOKEN:
        found += _of_publisher(key)
    elif action is Action.REPLY:
        found.append(Demand(_ANSWERS, key))
    elif action in _WRITES:
        found += _of_publisher(key)
        for _, rest in _after(key, ADMIN):
            if intersects(rest, _CONFIG):
                found += [Demand((one,), EVERYTHING, ADMIN) for one in _ALL]
        if any(_controls(rest) for _, rest in _after(key, ELEA)):
            found += _CONTROL
    return found


def only_reads(key: str) -> bool:
    """Whether a query on this key changes nothing, as far as services of Elea answer it.

    Example:
        >>> [only_reads(key) for key in ("a/**", "@elea/log/x/info", "@elea/log/x/put/a")]
        [True, True, False]
    """
    return all(
        any(includes(one, rest) for one in _HARMLESS) for _, rest in _after(key, ELEA, bare=True)
    )


def consumer_of(key: str) -> str | None:
    """The consumer whose offsets a query on this key moves, with its log; None: it moves none."""
    for _, rest in _after(key, ELEA):
        if "*" not in rest and _reaches(rest.split("/"), COMMIT):
            return key
    return None


def _of_elea(
    before: str, rest: str, parameters: Parameters, *, has_payload: bool
) -> Iterator[Demand]:
    chunks = rest.split("/")
    for verb in (PUT, PUTS):
        if not _reaches(chunks, verb):
            continue
        embedded = "/".join(chunks[_HEAD_COUNT:])
        if EVERYTHING in chunks[:_HEAD_COUNT]:
            yield Demand((), rest, verb)  # open where the key begins: name the service
        elif embedded and verb == PUT:
            yield from _of_put(_joined(before, embedded), parameters, has_payload=has_payload)
        elif embedded:
            yield from _of_puts(_joined(before, embedded), parameters)
    if _reaches(chunks, READ):
        wanted = [one for name, text in parameters if name == "keyexpr" for one in text.split("|")]
        for one in wanted or [EVERYTHING]:
            yield Demand((Action.QUERY,), _joined(before, one), READ)
    if _reaches(chunks, COMMIT):
        yield Demand((), rest, COMMIT)
    if _controls(rest):
        yield from _CONTROL


def _reaches(chunks: list[str], verb: str) -> bool:
    """Whether a key expression may match `log/NAME/verb/...`, whatever comes then."""
    for number, wanted in enumerate((_LOG, "*", verb)):
        if number == len(chunks):
            return False
        if chunks[number] == EVERYTHING:
            return True
        if not intersects(chunks[number], wanted):
            return False
    return True


def _controls(rest: str) -> bool:
    """Whether a message on this key controls a replay. One to all verbs is asked how it is."""
    verb = rest.rpartition("/")[2]
    return "*" not in verb and verb != _STATUS and intersects(rest, _VERBS)


def _of_put(key: str, parameters: Parameters, *, has_payload: bool) -> Iterator[Demand]:
    kinds = {value for name, value in parameters if name == "kind"}
    deletes = "delete" in kinds
    if deletes:
        yield Demand((Action.DELETE,), key)
    if kinds - {"delete"} or (has_payload and not deletes):
        yield Demand((Action.PUT,), key)
    if not kinds and not has_payload:  # asks where a sample is that was put or deleted
        yield Demand(_WRITES, key)


def _of_puts(key: str, parameters: Parameters) -> Iterator[Demand]:
    """Of a batch, whose samples are of the kind that it says; of both kinds if it says none."""
    kinds = {value for name, value in parameters if name == "kind"}
    if kinds != {"delete"}:
        yield Demand((Action.PUT,), key)
    if kinds != {"put"}:
        yield Demand((Action.DELETE,), key)


def _of_publisher(key: str) -> Iterator[Demand]:
    """Of what is said in the name of an advanced publisher."""
    for before, rest in _after(key, ADVANCED):
        if before and intersects(rest, _PUBLISHER):
            yield Demand(_PUT, before)


def _joined(before: str, key: str) -> str:
    """A key below a namespace; every key, if the two make no key expression."""
    try:
        return canonize(f"{before}/{key}" if before else key)
    except (KeyExprError, LimitError):
        return EVERYTHING


def _after(key: str, chunk: str, *, bare: bool = False) -> Iterator[tuple[str, str]]:
    """What stands before and after each occurrence of a chunk.

    Args:
        bare: Whether an occurrence at the end counts, with `**` after it.
    """
    if chunk not in key:
        return
    chunks = key.split("/")
    for number, one in enumerate(chunks):
        if one == chunk and (bare or number + 1 < len(chunks)):
            rest = "/".join(chunks[number + 1 :]) or EVERYTHING
            yield "/".join(chunks[:number]), rest
