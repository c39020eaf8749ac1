"""Receipts: recorders tell, unasked, which samples of this session they have on disk.

    session                                          recorder of a log
       GET @elea/log/*/put/key?...;receipts=true;nonce=N  ->
                                                       from now on samples of this publisher are
                                                       stored at once, and each is told:
       PUT key, from (zid, eid, sn)               ->
                                                  <-   PUT @elea/log/NAME/stored/ZID

A question is a query through two sessions and all routers between; a receipt is a sample, and one
tells of all that were stored together. Receipts are not relied on: whoever gets none in a moment
asks. A key is put without a question only after a receipt for it came, so that where none get
through (an older recorder, an access rule) nobody ever waits for one.

A receipt proves two things: it is of a recorder that was asked, as it is made with the nonce of the
question; and it is of that very sample, as it is made of key, timestamp, payload and attachment.
Others may send what they like: a receipt without proof is ignored and counted.
"""

from __future__ import annotations

import json
import secrets
from collections import deque
from collections.abc import Iterator
from hashlib import blake2b
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from elea.encoding import Encoding
from elea.errors import EleaError, NotStoredError
from elea.lazy_sample import Sample
from elea.limits import DEFAULT_LIMITS
from elea.qos import Locality
from elea.session.context import Context
from elea.session.convert import qos_octet, wire_encoding
from elea.session.outlet import CallbackOutlet
from elea.wire.data.put import Put
from elea.wire.fields import WireExpr
from elea.wire.network.push import Push

if TYPE_CHECKING:
    from elea.sample import Reply
    from elea.session.publication import Publication

_JSON: Final = wire_encoding(Encoding.APPLICATION_JSON)
_QOS: Final = qos_octet(None, None, None)
# What JSON of a stranger raises: nested too deeply, and numbers without end, too.
UNREADABLE: Final = (
    *(ValueError, KeyError, IndexError, TypeError, AttributeError),
    *(RecursionError, OverflowError, EleaError),
)
_DECODER: Final = json.JSONDecoder()  # `json.loads` looks for other encodings first
_DIGEST_LEN: Final = 16
_PROOF_LEN: Final = 12
_NONCE_LEN: Final = 16
_NAME_LEN_MAX: Final = 128  # of a log; receipts that nobody awaits yet are kept
PATIENCE_NS: Final = 250_000_000  # a receipt that is not there by then is asked for


class Receipt(NamedTuple):
    """What one recorder says of one sample."""

    eid: int
    sn: int
    log: str
    name: str
    shard: int
    seq: int | None  # None: it was refused, who asks is told why
    proof: str


class Awaiting(Protocol):
    """A put that is under way."""

    @property
    def key(self) -> str: ...
    @property
    def is_over(self) -> bool: ...
    @property
    def digest(self) -> bytes: ...

    def receive(self, receipt: Receipt) -> None:
        """A recorder says what became of it."""

    def go_on(self) -> None:
        """No receipt came: ask."""


class Receipts:
    """The receipts of one session."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._is_declared = False
        self.nonce = secrets.token_bytes(_NONCE_LEN)  # known to the recorders that were asked
        self.forged_count = 0  # receipts without proof
        self._awaiting: dict[tuple[int, int], Awaiting] = {}  # by entity and number
        self._early: dict[tuple[int, int], Receipt] = {}  # that came before somebody awaits them
        self._unasked: deque[tuple[int, Awaiting]] = deque()  # when to ask; ascending
        self._has_timer = False
        self._keys: dict[str, None] = {}  # for which receipts come; the oldest first
        self._asking = CallbackOutlet(self._ask, None, indirect=False)

    def come_for(self, key: str) -> bool:
        """Whether samples of a key need no question."""
        return key in self._keys

    def declare(self) -> None:
        """Begin to receive. Under the node's lock."""
        if not self._is_declared:
            self._is_declared = True
            outlet = CallbackOutlet(self._heard, None, indirect=False)
            key = f"@elea/log/*/stored/{self._context.zid}"
            self._context.core.subscribe(key, outlet, Locality.ANY)

    def expect(self, eid: int, sn: int, awaiting: Awaiting, *, is_asked: bool) -> None:
        """A sample is about to be sent, or was, and then `look_back`. Under the node's lock."""
        self._awaiting[eid, sn] = awaiting
        if is_asked:
            return
        face = self._context.core.face
        due_ns = face.now_ns() + PATIENCE_NS
        self._unasked.append((due_ns, awaiting))
        if not self._has_timer:
            self._has_timer = True
            face.call_at(due_ns, self._look)

    def look_back(self, eid: int, sn: int, awaiting: Awaiting) -> None:
        """Receive what came before it was expected."""
        receipt = self._early.pop((eid, sn), None)
        if receipt is not None and self._is_proven(receipt, awaiting):
            awaiting.receive(receipt)

    def forget(self, eid: int, sn: int) -> None:
        """Nobody waits for this any more."""
        self._awaiting.pop((eid, sn), None)

    def _heard(self, value: object) -> None:
        assert isinstance(value, Sample)
        for receipt in read_receipts(value.payload.to_bytes()):
            place = receipt.eid, receipt.sn
            awaiting = self._awaiting.get(place)
            if awaiting is None:
                # Kept before looking once more, as it is expected before looking back: one of the
                # two threads sees it, or both, and who has one needs no other.
                if len(self._early) >= DEFAULT_LIMITS.acks_count:
                    self._early.pop(next(iter(self._early)), None)
                self._early[place] = receipt
                awaiting = self._awaiting.get(place)
                if awaiting is None:
                    continue
                self._early.pop(place, None)
            if not self._is_proven(receipt, awaiting):
                continue
            self._awaiting.pop(place, None)
            key = awaiting.key
            if key not in self._keys:
                if len(self._keys) >= DEFAULT_LIMITS.receipt_keys_count:
                    self._keys.pop(next(iter(self._keys)), None)
                self._keys[key] = None
            awaiting.receive(receipt)

    def _is_proven(self, receipt: Receipt, awaiting: Awaiting) -> bool:
        """Whether a recorder that was asked says it, and of this very sample."""
        place = receipt.log, receipt.shard, receipt.seq
        is_proven = compare_digest(proof_of(self.nonce, awaiting.digest, *place), receipt.proof)
        self.forged_count += not is_proven
        return is_proven

    def _look(self) -> None:
        """By the clock, under the node's lock: who has waited long enough asks."""
        face, unasked = self._context.core.face, self._unasked
        now_ns = face.now_ns()
        while unasked and (unasked[0][1].is_over or unasked[0][0] <= now_ns):
            _, awaiting = unasked.popleft()
            if not awaiting.is_over:
                self._keys.pop(awaiting.key, None)
                face.emit(self._asking, awaiting)
        self._has_timer = bool(unasked)
        if unasked:
            face.call_at(unasked[0][0], self._look)

    def _ask(self, value: object) -> None:
        awaiting: Awaiting = value  # type: ignore[assignment]  # put there by `_look`
        awaiting.go_on()


def read_receipts(octets: bytes) -> Iterator[Receipt]:
    """What a recorder says; nothing, if it is no recorder that says it."""
    try:
        said, _ = _DECODER.raw_decode(octets.decode())
        log, name = str(said["log"]), str(said["name"])
        if max(len(log), len(name)) > _NAME_LEN_MAX:
            return
        for eid, sn, shard, seq, proof in said["stored"]:
            place = None if seq is None else int(seq)
            if isinstance(proof, str) and proof.isascii() and len(proof) == 2 * _PROOF_LEN:
                yield Receipt(int(eid), int(sn), log, name, int(shard), place, proof)
    except UNREADABLE:
        return


def body_digest(kind: int, payload: bytes, attachment: bytes | None) -> bytes:
    """The digest of what a sample says: kind (0 put, 1 deletion), payload, attachment."""
    head = b"%d,%d," % (kind, len(payload))
    return blake2b(b"".join((head, payload, attachment or b"")), digest_size=_DIGEST_LEN).digest()


def sample_digest(body: bytes, key: str, bits: int | None, clock: str | None) -> bytes:
    """The digest of a sample: what it says, its key, and its timestamp."""
    text = f"{bits},{clock},{key}".encode()
    return blake2b(body + text, digest_size=_DIGEST_LEN).digest()


def proof_of(nonce: bytes, digest: bytes, log: str, shard: int, seq: int | None) -> str:
    """What a receipt has to say: made by who knows the nonce, of this sample and place."""
    text = f"{log},{shard},{seq}".encode()
    return blake2b(digest + text, digest_size=_PROOF_LEN, key=nonce).hexdigest()


def send_receipts(session: Publication, name: str, zid: str, octets: bytes) -> None:
    """By a recorder: tell a publisher. Who cannot take it now asks: nobody waits for one.

    Raises:
        ClosedError: the session is closed.
    """
    core = session._context.core
    key = f"@elea/log/{name}/stored/{zid}"
    push = Push(WireExpr(0, core.face.prefix + key), Put(octets, None, _JSON), _QOS, None, 0, None)
    core.outbox.publish(key, push, True, True, True)


def read_refusal(key: str, reply: Reply) -> NotStoredError:
    """Why a recorder does not store a sample."""
    error = reply.err
    assert error is not None
    octets = error.payload.to_bytes()
    replier = reply.replier_id
    who = "a recorder" if replier is None else f"the recorder at {replier.zid}"
    try:
        said = json.loads(octets)
        name = str(said.get("name") or who)
        return NotStoredError(key, name, str(said["error"]), str(said.get("detail", "")))
    except UNREADABLE:
        text = octets[:200].decode(errors="replace")
        return NotStoredError(key, who, "unreadable", text)
