"""Cyclone DDS behind `elea.dds.port.Dds`: the only module that imports the package `cyclonedds`.

It uses names that the package does not promise (dds.md 3); `open_domain` refuses other versions.
Samples are taken and written as serialised bytes; ctypes calls release the interpreter lock, calls
of the extension module do not, so writers never wait (`max_blocking_time` 0, F-34).
"""

from __future__ import annotations

import ctypes as ct
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Final

from elea.dds import cyclone_c as layouts
from elea.dds import cyclone_qos
from elea.dds.cyclone_types import ONE_BYTE, TypeMaker
from elea.dds.dropped_datagrams import dropped_datagrams, own_sockets
from elea.dds.port import (
    ALIVE,
    FAILED,
    NO_ROOM,
    REFUSED,
    WRITTEN,
    DdsError,
    Discovered,
    Endpoint,
    Gone,
    Mirror,
    Participant,
    Ready,
    Taken,
    Tier,
    TopicType,
    Unmatched,
)
from elea.dds.qos import Qos
from elea.dds.representation import Extensibility
from elea.dds.settings import DdsSettings
from elea.dds.xtypes import TypeSet
from elea.decode.layout import Structure
from elea.errors import ConfigError, EleaError, MissingDependencyError

PACKAGE: Final = "cyclonedds"
MAJOR: Final = "11"

_TOPIC_PARTICIPANT: Final = 0x7FFF0001
_TOPIC_WRITERS: Final = 0x7FFF0003
_TOPIC_READERS: Final = 0x7FFF0004
_ANY_STATE: Final = 0x7F
_BAD_PARAMETER: Final = -3
_TIMEOUT: Final = -10
_HAS_KEY: Final = 1 << 12
_BOTH_VERSIONS: Final = 1 | 4
_HASH_LEN: Final = 14
_TAKE_COUNT: Final = 64
_MATCHED_COUNT: Final = 1_024  # room at first
_LOG_LEN_MAX: Final = 65_536  # of the library's own messages, between two looks
_WAKE: Final = 0  # numbers in the wait set; those of readers are their handles
_DISCOVERY: Final = -1

# Names of policies by the numbers in incompatible-QoS statuses.
_POLICIES: Final = {
    2: "durability",
    3: "presentation",
    4: "deadline",
    5: "latency budget",
    6: "ownership",
    8: "liveliness",
    10: "partition",
    11: "reliability",
    12: "destination order",
    23: "data representation",
    24: "type consistency",
}


class _Library:
    """The functions of the package that the bridge uses, private ones included.

    Raises:
        MissingDependencyError: The package is not installed.
        EleaError: It is of another major version, or lacks a name.
    """

    def __init__(self) -> None:
        try:
            self.version = metadata.version(PACKAGE)
        except metadata.PackageNotFoundError as error:
            raise MissingDependencyError("the DDS bridge", "dds") from error
        if self.version.partition(".")[0] != MAJOR:
            raise EleaError(
                f"the DDS bridge needs cyclonedds {MAJOR}, found {self.version}; run"
                " pip install 'elea[dds]'"
            )
        try:
            from cyclonedds import _clayer, idl, internal
            from cyclonedds.idl import annotations, types

            # The copy that the package loaded (F-01), by a view of its own: signatures that are
            # declared on it leave those of the package as they are.
            shared: ct.CDLL = internal.DDS._dll_handle
            self.c = ct.CDLL(shared._name, handle=shared._handle)
            self.take = _clayer.ddspy_take
            self.write = _clayer.ddspy_write_ts
            self.write_dispose = _clayer.ddspy_writedispose_ts
            self.dispose = _clayer.ddspy_dispose_ts
            self.unregister = _clayer.ddspy_unregister_instance_ts
            self.calc_key = _clayer.ddspy_calc_key
            self.topic_create = _clayer.ddspy_topic_create
            self.types = TypeMaker(idl, annotations, types)
            self.opaque = {
                keyed: self.types.octets(ONE_BYTE, "Opaque", ("value",) if keyed else ())
                for keyed in (False, True)
            }
            layouts.declare(self.c)
        except (ImportError, AttributeError) as error:
            raise EleaError(
                f"cyclonedds {self.version} cannot be used: {error}; run pip install 'elea[dds]'"
            ) from error

    def check(self, code: int, what: str) -> int:
        """Return a handle or count; raises DdsError with the library's words if it is negative."""
        if code < 0:
            raise DdsError(f"{what}: {self.words(code)}")
        return code

    def words(self, code: int) -> str:
        """Return what a return code means."""
        return cyclone_qos.text_at(self.c.dds_strretcode(code)) or f"code {code}"


def configuration(settings: DdsSettings, log: str) -> str:
    """Return the configuration of Cyclone DDS (D-812): fragments of XML, later ones win."""
    discovery = settings.discovery
    parts = [
        f"<Tracing><Verbosity>warning</Verbosity><OutputFile>{log}</OutputFile></Tracing>",
    ]
    said = discovery.config or os.environ.get("CYCLONEDDS_URI", "")
    if said:
        return f"<CycloneDDS><Domain>{parts[0]}</Domain></CycloneDDS>,{said}"
    interfaces = discovery.interfaces or (("127.0.0.1",) if settings.localhost_only else ())
    if interfaces:
        listed = "".join(
            f'<NetworkInterface {"address" if one[0].isdigit() or ":" in one else "name"}="{one}"/>'
            for one in interfaces
        )
        parts.append(
            f"<General><Interfaces>{listed}</Interfaces>"
            f"<MulticastTimeToLive>{discovery.ttl}</MulticastTimeToLive></General>"
        )
    else:
        parts.append(
            f"<General><MulticastTimeToLive>{discovery.ttl}</MulticastTimeToLive></General>"
        )
    peers = (*(("127.0.0.1",) if settings.localhost_only else ()), *discovery.peers)
    listed = "".join(f'<Peer address="{one}"/>' for one in peers)
    index = discovery.participant_index
    parts.append(
        f"<Discovery><ParticipantIndex>{index}</ParticipantIndex>"
        + ("<MaxAutoParticipantIndex>120</MaxAutoParticipantIndex>" if index == "auto" else "")
        + (f"<Peers>{listed}</Peers>" if peers else "")
        + "</Discovery>"
    )
    return f"<CycloneDDS><Domain>{''.join(parts)}</Domain></CycloneDDS>"


class CycloneDomain:
    """A participant of a domain, by Cyclone DDS.

    Args:
        settings: Which domain, and how others are found.
        user_data: What the participant announces.
        name: The entity name that it announces.

    Raises:
        MissingDependencyError, EleaError: The package cannot be used.
        ConfigError: The domain cannot be opened; the reason is the library's.
    """

    def __init__(self, settings: DdsSettings, user_data: bytes = b"", name: str = "elea") -> None:
        self._library = library = _Library()
        self._c = c = library.c
        self._pid = os.getpid()
        self._directory = Path(tempfile.mkdtemp(prefix="elea-dds-"))
        self._log = self._directory / "cyclone.log"
        self._log_offset = 0
        self._domain = -1
        others = own_sockets()
        try:
            config = configuration(settings, str(self._log))
            self._domain = c.dds_create_domain(settings.domain, config.encode())
            if self._domain < 0:
                raise self._refusal(settings, self._domain)
            qos = c.dds_create_qos()
            c.dds_qset_userdata(qos, user_data, len(user_data))
            c.dds_qset_entity_name(qos, name.encode())
            self._participant = c.dds_create_participant(settings.domain, qos, None)
            c.dds_delete_qos(qos)
            if self._participant < 0:
                raise self._refusal(settings, self._participant)
        except BaseException:
            self._leave()
            raise
        self._sockets = own_sockets() - others
        self.guid = self._guid(self._participant)
        self._open_wait_set()
        self._qos = cyclone_qos.QosReader(c)
        self._type_infos: dict[bytes, tuple[int, bytes]] = {}  # copies and hashes, by endpoint
        self._conditions: dict[int, int] = {}  # of readers
        self._paused: set[int] = set()
        self._closed = False

    @property
    def version(self) -> str:
        """The library and its version."""
        return f"{PACKAGE} {self._library.version}"

    def _refusal(self, settings: DdsSettings, code: int) -> ConfigError:
        told = "; ".join(self.messages()[-3:])
        words = self._library.words(code)
        return ConfigError(
            "plugins/dds", f"domain {settings.domain} cannot be opened: {words} {told}".rstrip()
        )

    def _open_wait_set(self) -> None:
        c, check = self._c, self._library.check
        self._wait_set = check(c.dds_create_waitset(self._participant), "wait set")
        self._guard = check(c.dds_create_guardcondition(self._participant), "guard condition")
        check(c.dds_waitset_attach(self._wait_set, self._guard, _WAKE), "attach")
        self._builtin: list[tuple[int, int]] = []  # topic and reader
        for topic in (_TOPIC_PARTICIPANT, _TOPIC_WRITERS, _TOPIC_READERS):
            reader = check(
                c.dds_create_reader(self._participant, topic, None, None), "discovery reader"
            )
            condition = check(c.dds_create_readcondition(reader, _ANY_STATE), "condition")
            check(c.dds_waitset_attach(self._wait_set, condition, _DISCOVERY), "attach")
            self._builtin.append((topic, reader))
        self._numbers = (ct.c_ssize_t * 64)()
        self._attached_count = 4

    def _guid(self, entity: int) -> bytes:
        found = (ct.c_uint8 * 16)()
        self._library.check(self._c.dds_get_guid(entity, found), "GUID")
        return bytes(found)

    # Discovery.

    def discovered(self, count_max: int) -> list[Discovered]:
        """Return what appeared, changed and went since the last call."""
        found: list[Discovered] = []
        for topic, reader in self._builtin:
            count = max(1, min(_TAKE_COUNT, count_max - len(found)))
            found += self._take_builtin(topic, reader, count)
        return found

    def _take_builtin(self, topic: int, reader: int, count_max: int) -> list[Discovered]:
        samples = (ct.c_void_p * count_max)()
        infos = (layouts.Info * count_max)()
        count = self._c.dds_take(reader, samples, infos, count_max, count_max)
        if count <= 0:
            return []
        found: list[Discovered] = []
        try:
            for index in range(count):
                found += self._discovered(topic, samples[index] or 0, infos[index])
        finally:
            self._c.dds_return_loan(reader, samples, count)
        return found

    def _discovered(self, topic: int, address: int, info: layouts.Info) -> list[Discovered]:
        """Return what a sample tells: of one that came and went meanwhile, both."""
        is_there = info.instance_state == ALIVE
        if topic == _TOPIC_PARTICIPANT:
            participant = ct.cast(address, ct.POINTER(layouts.ParticipantSample))[0]
            guid = bytes(participant.key)
            if not is_there or not info.valid_data:
                return [Gone(guid, "participant")]
            qos = participant.qos
            name, said = cyclone_qos.entity_name(self._c, qos), cyclone_qos.properties(self._c, qos)
            return [Participant(guid, name, cyclone_qos.from_c(self._c, qos).user_data, said)]
        sample = ct.cast(address, ct.POINTER(layouts.EndpointSample))[0]
        guid = bytes(sample.key)
        is_writer = topic == _TOPIC_WRITERS
        found: list[Discovered] = []
        if info.valid_data and guid[:12] != self.guid[:12]:
            name, type_ = cyclone_qos.text_at(sample.topic), cyclone_qos.text_at(sample.type)
            qos, participant_guid = self._qos.read(sample.qos), bytes(sample.participant)
            handle, hash_ = info.instance_handle, self._type_hash(guid, address)
            found.append(
                Endpoint(guid, participant_guid, is_writer, name, type_, qos, handle, hash_)
            )
        if not is_there or not info.valid_data:
            self._forget_type(guid)
            found.append(Gone(guid, "writer" if is_writer else "reader"))
        return found

    def _type_hash(self, guid: bytes, address: int) -> bytes:
        """The hash of an endpoint's type; its type information is kept for `resolve`."""
        pointer = ct.c_void_p()
        code = self._c.dds_builtintopic_get_endpoint_type_info(address, ct.byref(pointer))
        if code < 0 or not pointer.value:
            return b""
        found = b""
        for name in ("complete", "minimal"):
            type_id = getattr(self._c, f"ddsi_typeinfo_{name}_typeid")(pointer)
            if type_id and self._c.ddsi_typeid_is_hash(type_id):
                octets = (ct.c_uint8 * _HASH_LEN)()
                self._c.ddsi_typeid_get_equivalence_hash(type_id, octets)
                found = bytes(octets)
                break
        self._forget_type(guid)
        if found:
            self._type_infos[guid] = self._c.ddsi_typeinfo_dup(pointer), found
        return found

    def _forget_type(self, guid: bytes) -> None:
        known = self._type_infos.pop(guid, None)
        if known is not None:
            self._c.ddsi_typeinfo_free(known[0])

    def resolve(self, guid: bytes, timeout_ns: int) -> TopicType | None:
        """Fetch the type of an endpoint; None if it did not come in time."""
        info, type_hash = self._type_infos.get(guid, (None, b""))
        if info is None:
            return None
        pointer = ct.c_void_p()
        code = self._c.dds_create_topic_descriptor(
            0, self._participant, info, timeout_ns, ct.byref(pointer)
        )
        if code < 0 or not pointer.value:
            return None
        found = ct.cast(pointer, ct.POINTER(layouts.Descriptor))[0]
        octets = ct.string_at(found.info, found.info_len)
        mapping = ct.string_at(found.mapping, found.mapping_len)
        name = cyclone_qos.text_at(found.type_name)
        keys_count = found.keys_count
        self._c.dds_delete_topic_descriptor(pointer)
        try:
            top = TypeSet.read(type_hash, mapping).top
        except EleaError:
            top = None  # it passes all the same; its payloads are not checked
        extensibility = None if top is None else top.extensibility
        return TopicType(
            name, Tier.EXACT, keys_count > 0, type_hash, octets, mapping, extensibility
        )

    def compile_type(self, name: str, layout: Structure, keys: Sequence[str]) -> TopicType:
        """Make a type of DDS from a layout; raises InvalidValueError."""
        info, mapping = self._library.types.octets(layout, name, keys)
        extensibility = (
            Extensibility.MUTABLE
            if layout.ids
            else Extensibility.APPENDABLE
            if layout.appendable
            else Extensibility.FINAL
        )
        digest = hashlib.blake2s(mapping, digest_size=_HASH_LEN).digest()
        return TopicType(name, Tier.EXACT, bool(keys), digest, info, mapping, extensibility)

    # Mirrors.

    def make_reader(self, topic: str, type_: TopicType, qos: Qos) -> Mirror:
        """Create a mirror reader; raises DdsError."""
        made = self._make(topic, type_, qos, is_writer=False)
        condition = self._c.dds_create_readcondition(made.handle, _ANY_STATE)
        code = self._c.dds_waitset_attach(self._wait_set, condition, made.handle)
        if condition < 0 or code < 0:
            self.delete(made)
            raise DdsError(f"read condition: {self._library.words(min(condition, code))}")
        self._conditions[made.handle] = condition
        self._attached_count += 1
        if self._attached_count > len(self._numbers):
            self._numbers = (ct.c_ssize_t * (2 * self._attached_count))()
        return made

    def make_writer(self, topic: str, type_: TopicType, qos: Qos) -> Mirror:
        """Create a mirror writer; raises DdsError."""
        return self._make(topic, type_, qos, is_writer=True)

    def _make(self, topic: str, type_: TopicType, qos: Qos, *, is_writer: bool) -> Mirror:
        c, check = self._c, self._library.check
        topic_handle = self._topic(topic, type_)
        settings = cyclone_qos.to_c(c, qos, is_writer=is_writer)
        try:
            create = c.dds_create_writer if is_writer else c.dds_create_reader
            handle = create(self._participant, topic_handle, settings, None)
        finally:
            c.dds_delete_qos(settings)
        if handle < 0:
            c.dds_delete(topic_handle)
        check(handle, "mirror writer" if is_writer else "mirror reader")
        return Mirror(handle, topic_handle, self._guid(handle))

    def _topic(self, topic: str, type_: TopicType) -> int:
        if type_.tier is Tier.UNRESOLVED:
            raise DdsError("its type cannot be fetched from the peer")
        octets: Sequence[bytes] = (type_.info, type_.mapping)
        if type_.tier is Tier.OPAQUE:
            octets = self._library.opaque[type_.has_key]
        adopted = SimpleNamespace(
            __idl__=SimpleNamespace(
                idl_transformed_typename=type_.name,
                data_type_props=_HAS_KEY if type_.has_key else 0,
                supported_versions=_BOTH_VERSIONS,
                _xt_bytedata=tuple(octets),
            )
        )
        try:
            code = self._library.topic_create(self._participant, topic, adopted, None, None)
        except (ValueError, TypeError, RuntimeError) as error:
            raise DdsError(f"topic: {error}") from error
        return self._library.check(code, "topic")

    def delete(self, mirror: Mirror) -> None:
        """Delete a mirror and its topic."""
        condition = self._conditions.pop(mirror.handle, None)
        if condition is not None:
            self._paused.discard(mirror.handle)
            self._c.dds_delete(condition)
            self._attached_count -= 1
        self._c.dds_delete(mirror.handle)
        self._c.dds_delete(mirror.topic)

    def pause(self, reader: int, *, paused: bool) -> None:
        """Leave a mirror reader out of `wait`, or take it in again."""
        condition = self._conditions.get(reader)
        if condition is None or paused == (reader in self._paused):
            return
        if paused:
            self._paused.add(reader)
            self._c.dds_waitset_detach(self._wait_set, condition)
        else:
            self._paused.discard(reader)
            self._c.dds_waitset_attach(self._wait_set, condition, reader)

    # Samples.

    def take(self, reader: int, count_max: int) -> list[Taken]:
        """Take samples of a mirror reader, oldest first."""
        found = self._library.take(reader, 0, count_max)
        if isinstance(found, int):
            return []
        return found  # type: ignore[no-any-return]  # pairs, as the extension module makes them

    def has_samples(self, reader: int) -> bool:
        """Whether a mirror reader has samples to take."""
        condition = self._conditions.get(reader)
        return condition is not None and self._c.dds_triggered(condition) > 0

    def write(self, writer: int, payload: bytes, source_ns: int) -> int:
        """Write a sample; never waits."""
        code = self._library.write(writer, payload, source_ns)
        return WRITTEN if code == 0 else _result(code)

    def write_dispose(self, writer: int, payload: bytes, source_ns: int) -> int:
        """Write a sample and dispose of its instance."""
        return _result(self._library.write_dispose(writer, payload, source_ns))

    def dispose(self, writer: int, key: bytes, source_ns: int) -> int:
        """Dispose of the instance of a serialised key."""
        return _result(self._library.dispose(writer, key, source_ns))

    def unregister(self, writer: int, key: bytes, source_ns: int) -> int:
        """Unregister the instance of a serialised key."""
        return _result(self._library.unregister(writer, key, source_ns))

    def key_of(self, mirror: Mirror, payload: bytes) -> bytes | None:
        """Return the serialised key of a sample with its header."""
        try:
            key = self._library.calc_key(mirror.topic, payload)
        except (ValueError, TypeError, RuntimeError):
            return None
        return payload[:4] + key if isinstance(key, bytes) else None

    def instance_of(self, mirror: Mirror) -> int:
        """Return the instance handle of a mirror."""
        found = ct.c_uint64()
        self._library.check(
            self._c.dds_get_instance_handle(mirror.handle, ct.byref(found)), "instance handle"
        )
        return found.value

    def flush(self, writer: int) -> None:
        """Send what batching holds back."""
        self._c.dds_write_flush(writer)

    def is_acknowledged(self, writer: int, timeout_ns: int) -> bool:
        """Whether all readers of a writer have all samples, waited for so long."""
        code: int = self._c.dds_wait_for_acks(writer, timeout_ns)
        return code == 0

    def assert_liveliness(self, writer: int) -> None:
        """Say that a writer with manual liveliness lives."""
        self._c.dds_assert_liveliness(writer)

    # Status.

    def unmatched(self, mirror: Mirror, *, is_writer: bool) -> Unmatched:
        """Return the matches of a mirror and the last incompatible policy."""
        side = "subscriptions" if is_writer else "publications"
        get_matched = getattr(self._c, f"dds_get_matched_{side}")
        handles = (ct.c_uint64 * _MATCHED_COUNT)()
        while (count := get_matched(mirror.handle, handles, len(handles))) > len(handles):
            handles = (ct.c_uint64 * (2 * count))()
        status = layouts.Incompatible()
        kind = "offered" if is_writer else "requested"
        getattr(self._c, f"dds_get_{kind}_incompatible_qos_status")(mirror.handle, ct.byref(status))
        policy = _POLICIES.get(status.policy, f"policy {status.policy}") if status.total else ""
        return Unmatched(tuple(handles[: max(0, count)]), policy)

    def counts(self, mirror: Mirror, *, is_writer: bool) -> dict[str, int]:
        """Return the library's counters of a mirror."""
        name = "offered_deadline_missed" if is_writer else "sample_lost"
        status = layouts.Counted()
        getattr(self._c, f"dds_get_{name}_status")(mirror.handle, ct.byref(status))
        return {name: status.total}

    def rejected(self, reader: int) -> int:
        """Return how many samples found no room in a mirror reader since the last call."""
        status = layouts.Rejected()
        self._c.dds_get_sample_rejected_status(reader, ct.byref(status))
        return int(status.change)

    def dropped_datagrams(self) -> int:
        """Return how many datagrams the host dropped; any thread may ask."""
        return dropped_datagrams(self._sockets)

    # Waiting.

    def wait(self, timeout_ns: int) -> Ready:
        """Wait for discovery, samples, `wake` or the timeout."""
        numbers = self._numbers
        count = self._c.dds_waitset_wait(self._wait_set, numbers, len(numbers), timeout_ns)
        if count <= 0:
            return _NOTHING
        found = numbers[: min(count, len(numbers))]
        if _WAKE in found:
            self._c.dds_take_guardcondition(self._guard, ct.byref(ct.c_bool()))
        return Ready(_DISCOVERY in found, [one for one in found if one > 0])

    def wake(self) -> None:
        """End a wait; any thread may call it."""
        if not self._closed:
            self._c.dds_set_guardcondition(self._guard, True)

    def messages(self) -> list[str]:
        """Return what the library logged since the last call."""
        try:
            with self._log.open("rb") as file:
                file.seek(self._log_offset)
                data = file.read(_LOG_LEN_MAX)
        except OSError:
            return []
        end = data.rfind(b"\n") + 1
        self._log_offset += end
        if end:
            with suppress(OSError):  # the library writes on at its own offset
                os.truncate(self._log, 0)
        return data[:end].decode("utf-8", "replace").replace("\0", "").splitlines()

    def close(self) -> None:
        """Leave the domain."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() != self._pid:
            return  # a child process has none of the library's threads
        for pointer, _ in self._type_infos.values():
            self._c.ddsi_typeinfo_free(pointer)
        self._type_infos.clear()
        self._qos.close()
        self._c.dds_delete(self._participant)
        self._leave()

    def _leave(self) -> None:
        if self._domain > 0:
            self._c.dds_delete(self._domain)
        shutil.rmtree(self._directory, ignore_errors=True)


_NOTHING: Final = Ready(False, ())


def _result(code: int) -> int:
    if code == 0:
        return WRITTEN
    if code == _TIMEOUT:
        return NO_ROOM
    return REFUSED if code == _BAD_PARAMETER else FAILED
