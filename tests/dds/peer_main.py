"""A Cyclone DDS participant in a process of its own, told what to do by JSON lines."""

import ctypes as ct
import json
import sys
import time
from dataclasses import asdict, is_dataclass
from typing import Any

from cyclonedds._clayer import ddspy_take, ddspy_write_ts
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlUnion
from cyclonedds.internal import DDS
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.sub import DataReader, Subscriber
from cyclonedds.topic import Topic
from cyclonedds.util import duration
from tests.dds import idl_types
from tests.dds.idl_types import TYPES, Mode, Place

from elea.dds.cyclone_c import Descriptor, Info

# An own view of the library: signatures that are set here are not those of the package.
lib = ct.CDLL(DDS._dll_handle._name, handle=DDS._dll_handle._handle)

CONFIG = """<CycloneDDS><Domain><General><Interfaces><NetworkInterface address="127.0.0.1"/>
</Interfaces></General><Discovery><ParticipantIndex>auto</ParticipantIndex>
<MaxAutoParticipantIndex>120</MaxAutoParticipantIndex><Peers><Peer address="127.0.0.1"/></Peers>
<LeaseDuration>{lease}</LeaseDuration></Discovery></Domain></CycloneDDS>"""


def qos_of(given: dict[str, Any]) -> tuple[Qos, Qos]:
    """The QoS of an endpoint, and of its publisher or subscriber."""
    blocking = duration(seconds=given.get("blocking", 2))
    depth = given.get("depth", 100)
    policies: list[Any] = [
        Policy.Reliability.Reliable(blocking)
        if given.get("reliable", True)
        else Policy.Reliability.BestEffort,
        {
            "volatile": Policy.Durability.Volatile,
            "transient_local": Policy.Durability.TransientLocal,
            "transient": Policy.Durability.Transient,
        }[given.get("durability", "volatile")],
        Policy.History.KeepAll if depth == 0 else Policy.History.KeepLast(depth),
    ]
    if given.get("durability", "volatile") != "volatile" and given.get("is_writer"):
        history = Policy.History.KeepAll if depth == 0 else Policy.History.KeepLast(depth)
        policies.append(Policy.DurabilityService(duration(seconds=60), history, -1, -1, -1))
    if "deadline" in given:
        policies.append(Policy.Deadline(duration(seconds=given["deadline"])))
    if "liveliness" in given:
        kind = {
            "automatic": Policy.Liveliness.Automatic,
            "participant": Policy.Liveliness.ManualByParticipant,
            "topic": Policy.Liveliness.ManualByTopic,
        }[given["liveliness"]]
        policies.append(kind(duration(seconds=given.get("lease", 1))))
    if given.get("exclusive"):
        policies.append(Policy.Ownership.Exclusive)
    if "lifespan" in given:
        policies.append(Policy.Lifespan(duration(seconds=given["lifespan"])))
    if "representation" in given:
        policies.append(
            Policy.DataRepresentation(
                use_cdrv0_representation=1 in given["representation"],
                use_xcdrv2_representation=2 in given["representation"],
            )
        )
    if "samples_max" in given:
        policies.append(Policy.ResourceLimits(given["samples_max"], -1, -1))
    if "dispose" in given:
        policies.append(Policy.WriterDataLifecycle(autodispose=given["dispose"]))
    if "user_data" in given:
        policies.append(Policy.Userdata(given["user_data"].encode()))
    group = Qos()
    if given.get("partitions"):
        group = Qos(Policy.Partition(tuple(given["partitions"])))
    return Qos(*policies), group


def made(name: str, value: dict[str, Any]) -> Any:
    """A value of a type from JSON."""
    found = dict(value)
    if "place" in found:
        found["place"] = Place(**found["place"])
    if "places" in found:
        found["places"] = [Place(**one) for one in found["places"]]
    if "mode" in found:
        found["mode"] = Mode[found["mode"]]
    if "reading" in found:
        [(member, inner)] = found["reading"].items()
        reading: Any = idl_types.Reading
        found["reading"] = reading(**{member: inner})
    if "node_entities_info_seq" in found:
        gid_type: Any = idl_types.Gid
        node_type: Any = idl_types.NodeEntities
        found["gid"] = gid_type(list(bytes.fromhex(found["gid"])))
        found["node_entities_info_seq"] = [
            node_type(
                one["namespace"],
                one["name"],
                *(
                    [gid_type(list(bytes.fromhex(gid))) for gid in one[side]]
                    for side in ("readers", "writers")
                ),
            )
            for one in found["node_entities_info_seq"]
        ]
    if "data" in found:
        found["data"] = list(bytes.fromhex(found["data"]))
    return TYPES[name](**found)


def plain(value: Any) -> Any:
    """A value as JSON."""
    if isinstance(value, IdlUnion):
        return {"discriminator": value.discriminator, "value": value.value}
    if isinstance(value, Mode):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        return {one: plain(getattr(value, one)) for one in asdict(value) if one != "sample_info"}
    if isinstance(value, (list, tuple, bytes)):
        return [plain(one) for one in value]
    return value


class CChatter(ct.Structure):
    _fields_ = (("number", ct.c_int32), ("text", ct.c_char_p))


lib.dds_create_qos.restype = ct.c_void_p


class Peer:
    def __init__(self, domain: int, lease: str, name: str) -> None:
        self.domain = Domain(domain, CONFIG.format(lease=lease))
        self.participant = DomainParticipant(domain)
        self.entities: dict[str, Any] = {}
        self.types: dict[str, str] = {}

    def writer(self, name: str, topic: str, type: str, **qos: Any) -> str:
        own, group = qos_of({**qos, "is_writer": True})
        publisher = Publisher(self.participant, qos=group)
        made_topic = Topic(self.participant, topic, TYPES[type])
        self.entities[name] = DataWriter(publisher, made_topic, qos=own)
        self.types[name] = type
        return self.guid(name)

    def reader(self, name: str, topic: str, type: str, **qos: Any) -> str:
        own, group = qos_of(qos)
        subscriber = Subscriber(self.participant, qos=group)
        made_topic = Topic(self.participant, topic, TYPES[type])
        self.entities[name] = DataReader(subscriber, made_topic, qos=own)
        self.types[name] = type
        return self.guid(name)

    def guid(self, name: str) -> str:
        return str(self.entities[name].guid.hex)

    def many(self, prefix: str, type: str, count: int, side: str) -> int:
        for number in range(count):
            make = self.writer if side == "writer" else self.reader
            make(f"{prefix}{side}{number}", f"{prefix}{number}", type)
        return count

    def write(self, name: str, values: list[dict[str, Any]], ns: int | None = None) -> int:
        for value in values:
            sample = made(self.types[name], value)
            if ns is None:
                self.entities[name].write(sample)
            else:
                self.entities[name].write(sample, timestamp=ns)
        return len(values)

    def burst(self, name: str, count: int, size: int, rate: float = 0) -> int:
        data = [0] * size
        kind = TYPES[self.types[name]]
        begun = time.monotonic()
        for number in range(count):
            self.entities[name].write(kind(number=number, data=data))
            if rate:
                time.sleep(max(0, begun + (number + 1) / rate - time.monotonic()))
        return count

    def dispose(self, name: str, value: dict[str, Any]) -> None:
        self.entities[name].dispose(made(self.types[name], value))

    def unregister(self, name: str, value: dict[str, Any]) -> None:
        self.entities[name].unregister_instance(made(self.types[name], value))

    def write_dispose(self, name: str, value: dict[str, Any]) -> None:
        self.entities[name].write_dispose(made(self.types[name], value))

    def take(self, name: str, count: int = 1_000) -> list[dict[str, Any]]:
        found = []
        for sample in self.entities[name].take(count):
            info = sample.sample_info
            found.append(
                {
                    "value": plain(sample) if info.valid_data else None,
                    "state": int(info.instance_state),
                    "ns": info.source_timestamp,
                    "valid": bool(info.valid_data),
                }
            )
        return found

    def sink(self, name: str, count: int, limit_s: float = 60) -> int:
        """Take samples as bytes until there are so many, or the time is over."""
        seen = 0
        end = time.monotonic() + limit_s
        reader = self.entities[name]._ref
        while seen < count and time.monotonic() < end:
            taken = ddspy_take(reader, 0, 256)
            if not taken:
                time.sleep(0.0005)
            seen += len(taken)
        return seen

    def raw_burst(self, name: str, count: int, size: int) -> int:
        """Write samples of type Blob as bytes, which is quick."""
        writer = self.entities[name]._ref
        head = b"\0\1\0\0" + bytes(4) + size.to_bytes(4, "little")
        payload = head + bytes(size + -size % 4)
        done = 0
        while done < count:
            if ddspy_write_ts(writer, payload, time.time_ns()) == 0:
                done += 1
        return done

    def raw_write(self, name: str, octets: str) -> int:
        """Write a sample as it is, header included."""
        return int(ddspy_write_ts(self.entities[name]._ref, bytes.fromhex(octets), time.time_ns()))

    def pings(self, name: str, count: int, period_s: float) -> int:
        """Write samples whose data is the time of writing."""
        kind = TYPES[self.types[name]]
        for number in range(count):
            data = list(time.time_ns().to_bytes(8, "little"))
            self.entities[name].write(kind(number=number, data=data))
            time.sleep(period_s)
        return count

    def latencies(self, name: str, count: int, limit_s: float = 60) -> list[float]:
        """Read samples of `pings`, and tell how old each was, in milliseconds."""
        found: list[float] = []
        end = time.monotonic() + limit_s
        while len(found) < count and time.monotonic() < end:
            for payload, info in ddspy_take(self.entities[name]._ref, 0, 256):
                if info.valid_data:
                    sent = int.from_bytes(payload[12:20], "little")
                    found.append((time.time_ns() - sent) / 1e6)
            time.sleep(0.0001)
        return found

    def matched(self, name: str) -> int:
        """Count by the C function: lists of the package fail if one more matches meanwhile."""
        entity = self.entities[name]
        ends = "subscriptions" if isinstance(entity, DataWriter) else "publications"
        count = getattr(lib, f"dds_get_matched_{ends}")(entity._ref, None, ct.c_size_t(0))
        assert count >= 0, count
        return int(count)

    def matched_guids(self, name: str) -> list[str]:
        """The GUIDs of the endpoints that match."""
        entity = self.entities[name]
        end = "subscription" if isinstance(entity, DataWriter) else "publication"
        handles = (ct.c_uint64 * 64)()
        count = getattr(lib, f"dds_get_matched_{end}s")(entity._ref, handles, ct.c_size_t(64))
        data = getattr(lib, f"dds_get_matched_{end}_data")
        data.restype = ct.c_void_p
        found = []
        for handle in handles[: max(0, count)]:
            address = data(entity._ref, ct.c_uint64(handle))
            if address:  # it may have gone meanwhile
                found.append(ct.string_at(address, 16).hex())
                lib.dds_builtintopic_free_endpoint(ct.c_void_p(address))
        return found

    def liveliness(self, name: str) -> int:
        return int(self.entities[name].get_liveliness_changed_status().alive_count)

    def missed(self, name: str) -> int:
        return int(self.entities[name].get_requested_deadline_missed_status().total_count)

    def acknowledged(self, name: str, limit_s: float = 60) -> None:
        """Wait until all readers have acknowledged all samples: `delete` waits 1 s, then drops."""
        code = lib.dds_wait_for_acks(self.entities[name]._ref, ct.c_int64(int(limit_s * 1e9)))
        assert code == 0, code

    def delete(self, name: str) -> None:
        entity = self.entities.pop(name)
        lib.dds_delete(entity._ref)

    # Endpoints that send no type information, as ROS 2 nodes with rmw_cyclonedds (D-932).

    def _bare_topic(self, topic: str) -> int:
        """A topic of type Chatter whose descriptor has lost its type information."""
        model = Topic(self.participant, f"{topic}_model", TYPES["Chatter"])
        self.entities[f"{topic} model"] = model
        info = ct.c_void_p()
        lib.dds_get_typeinfo(model._ref, ct.byref(info))
        pointer = ct.c_void_p()
        code = lib.dds_create_topic_descriptor(
            1, self.participant._ref, info, ct.c_int64(10**9), ct.byref(pointer)
        )
        assert code == 0, code
        found = ct.cast(pointer, ct.POINTER(Descriptor))[0]
        found.flags &= ~0x40
        found.info = found.mapping = None
        found.info_len = found.mapping_len = 0
        handle = lib.dds_create_topic(self.participant._ref, pointer, topic.encode(), None, None)
        assert handle > 0, handle
        return int(handle)

    def bare_writer(self, name: str, topic: str) -> None:
        qos = lib.dds_create_qos()
        lib.dds_qset_reliability(ct.c_void_p(qos), 1, ct.c_int64(60 * 10**9))
        # A writer that keeps the last one sends no other again, though it is reliable.
        lib.dds_qset_history(ct.c_void_p(qos), 1, 0)
        handle = lib.dds_create_writer(
            self.participant._ref, self._bare_topic(topic), ct.c_void_p(qos), None
        )
        assert handle > 0
        self.entities[name] = handle

    def bare_reader(self, name: str, topic: str) -> None:
        qos = lib.dds_create_qos()
        lib.dds_qset_reliability(ct.c_void_p(qos), 1, ct.c_int64(10**9))
        lib.dds_qset_history(ct.c_void_p(qos), 0, 100)
        handle = lib.dds_create_reader(
            self.participant._ref, self._bare_topic(topic), ct.c_void_p(qos), None
        )
        assert handle > 0
        self.entities[name] = handle

    def bare_ros_writer(self, name: str, topic: str, user_data: str) -> None:
        """A bare writer that announces the hash of its ROS type, as nodes since Iron do."""
        qos = ct.c_void_p(lib.dds_create_qos())
        data = user_data.encode()
        lib.dds_qset_userdata(qos, data, ct.c_size_t(len(data)))
        handle = lib.dds_create_writer(self.participant._ref, self._bare_topic(topic), qos, None)
        assert handle > 0
        self.entities[name] = handle

    def bare_matched(self, name: str) -> int:
        handle = self.entities[name]
        count = lib.dds_get_matched_subscriptions(handle, None, ct.c_size_t(0))
        if count < 0:
            count = lib.dds_get_matched_publications(handle, None, ct.c_size_t(0))
        return int(count)

    def bare_write(self, name: str, number: int, text: str) -> None:
        sample = CChatter(number, text.encode())
        assert lib.dds_write(self.entities[name], ct.byref(sample)) == 0

    def bare_take(self, name: str) -> list[list[Any]]:
        samples = (ct.c_void_p * 16)()
        infos = (Info * 16)()
        handle = self.entities[name]
        count = lib.dds_take(handle, samples, infos, ct.c_size_t(16), ct.c_uint32(16))
        found = []
        for index in range(max(0, count)):
            if infos[index].valid_data:
                one = ct.cast(samples[index] or 0, ct.POINTER(CChatter))[0]
                found.append([one.number, one.text.decode()])
        if count > 0:
            lib.dds_return_loan(handle, samples, count)
        return found


def tell(**answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    peer = Peer(int(sys.argv[1]), sys.argv[2], sys.argv[3])
    tell(result=peer.participant.guid.hex)
    for line in sys.stdin:
        call = json.loads(line)
        try:
            result = getattr(peer, call.pop("call"))(**call)
            tell(result=result)
        except Exception as error:
            tell(error=repr(error))


if __name__ == "__main__":
    main()
