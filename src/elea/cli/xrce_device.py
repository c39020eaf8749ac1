"""`elea xrce pub`, `sub`, `pull` and `scout`: a device on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from elea.choices import XRCE_GROUP
from elea.cli.connection import note
from elea.cli.output import add_output_options, counted, escape
from elea.cli.payloads import count, read_payload, seconds
from elea.cli.progress import Span, summarise
from elea.errors import EleaError, InvalidValueError, LinkError

if TYPE_CHECKING:
    from elea.devices.device import Device
    from elea.devices.scouting import Gateway
    from elea.sample import Sample
    from elea.xrce.client import Received
    from elea.xrce.declaration_records import Property

DEFAULT: Final = "udp/127.0.0.1:7447"
TIMEOUT_S: Final = 10.0  # for the session, and for each answer
_FRAME_LEN_MIN: Final = 16
_FRAME_LEN_MAX: Final = 65_535
_NAME: Final = "such as /lab/t, xrce://lab/t or, for the last value to be kept, /lab/t#transient"

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
_Run: TypeAlias = Callable[[argparse.Namespace], int]


def configure(verbs: Verbs) -> None:
    """Add the verbs of a device."""

    pub = _add(verbs, "pub", "write a value as a device, once or again and again", _pub)
    pub.add_argument("name", metavar="NAME", help=f"the resource, {_NAME}")
    source = pub.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "payload", nargs="?", metavar="PAYLOAD", help="the payload as text; - reads standard input"
    )
    source.add_argument("--file", metavar="FILE", help="read the payload from a file")
    pub.add_argument("--encoding", metavar="NAME", help="how it is to be read, such as text/plain")
    pub.add_argument("--count", type=count, default=1, metavar="N", help="times (default: 1)")
    pub.add_argument(
        "--interval",
        type=seconds,
        default=1.0,
        metavar="S",
        help="seconds between (default: 1)",
    )
    pub.add_argument(
        "--best-effort", action="store_true", help="do not send again what is lost on the way"
    )
    pub.add_argument(
        "--matched", action="store_true", help="declare a publisher, and wait until somebody reads"
    )
    sub = _add(verbs, "sub", "print what is written to a resource, as a device receives it", _sub)
    sub.add_argument(
        "name",
        metavar="NAME",
        help="a resource, a pattern such as '/lab/**', or a selection such as '/lab/*?{temp > 20}'",
    )
    sub.add_argument("--count", type=count, metavar="N", help="end after N samples")
    sub.add_argument(
        "--timeout",
        type=seconds,
        metavar="S",
        help="end after S seconds; exit code 1 if --count was not reached",
    )
    sub.add_argument(
        "--window",
        type=_window,
        metavar="PERIOD:DURATION",
        help="receive only so many milliseconds in each period, as a device that sleeps",
    )
    pull = _add(verbs, "pull", "print what is at rest of a resource, newest value of each", _pull)
    pull.add_argument("name", metavar="NAME", help="a resource, a pattern or a selection")
    pull.add_argument("--max", type=count, metavar="N", help="at most N samples")
    for verb in (pub, sub, pull):
        add_output_options(verb)
        _add_device_options(verb)
    scout = _add(verbs, "scout", "print the gateways that answer a multicast question", _scout)
    scout.epilog = "Exit code 1 if nobody answers, or fewer than --count."
    where = scout.add_mutually_exclusive_group()
    where.add_argument(
        "-e", "--connect", type=_endpoint, metavar="ENDPOINT", help="ask there instead of a group"
    )
    where.add_argument(
        "--group", default=XRCE_GROUP, metavar="IP:PORT", help=f"(default: {XRCE_GROUP})"
    )
    scout.add_argument(
        "--interface", default="auto", metavar="NAMES", help="names or addresses (default: auto)"
    )
    scout.add_argument("--count", type=count, metavar="N", help="end after N gateways")
    scout.add_argument(
        "--timeout", type=seconds, default=3.0, metavar="S", help="how long to look (default: 3)"
    )
    add_output_options(scout)


def _add(verbs: Verbs, name: str, summary: str, run: _Run) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=summary, description=summary, allow_abbrev=False)
    parser.set_defaults(xrce_run=run)
    return parser


def _add_device_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("device", "Who it is, and where its gateway is.")
    group.add_argument(
        "-e",
        "--connect",
        type=_endpoint,
        default=DEFAULT,
        metavar="ENDPOINT",
        help=f"the gateway, udp/HOST:PORT or tcp/HOST:PORT (default: {DEFAULT})",
    )
    group.add_argument(
        "--pid",
        type=_pid,
        metavar="HEX",
        help="1 to 16 octets (default: 8 random ones); with the pid of a device that is connected,"
        " its session ends",
    )
    group.add_argument(
        "--key-file",
        metavar="FILE",
        help="the key of that pid in hexadecimal, for a gateway that asks for it",
    )
    group.add_argument(
        "--lease",
        type=seconds,
        default=10.0,
        metavar="S",
        help="how long it may be silent; 0 is for ever (default: 10)",
    )
    group.add_argument(
        "--mtu",
        type=_frame_len,
        default=1_472,
        metavar="N",
        help="the longest frame, in octets; longer payloads go in fragments (default: 1472)",
    )


def _open(args: argparse.Namespace) -> Device:
    from elea.devices.access import read_key
    from elea.devices.device import Device, device_settings

    try:
        if args.key_file is not None and args.pid is None:
            raise EleaError("--key-file without --pid; a key belongs to one pid, say which")
        key = None if args.key_file is None else read_key(args.key_file)
        settings = device_settings(args.pid, args.lease, args.mtu, key)
        device = Device(args.connect, settings, timeout_s=TIMEOUT_S)
    except TimeoutError as error:
        raise LinkError(f"{error}; `elea router --xrce {args.connect}` would serve it") from None
    note(f"session with {device.gateway_pid.hex()} at {args.connect}")
    return device


def _pub(args: argparse.Namespace) -> int:
    from elea.cli.samples import Printer
    from elea.devices.device import encoding_property
    from elea.encoding import Encoding

    payload = read_payload(args)
    assert payload is not None
    printer, span = Printer.of(args), Span(args.count, None)
    properties: tuple[Property, ...] = ()
    if args.encoding is not None:
        properties = (encoding_property(Encoding(args.encoding)),)
    with _open(args) as device, _Guarded(args.name):
        declare = device.publisher if args.matched else device.resource
        rid = declare(args.name, properties)
        if args.matched:
            device.wait_matched(rid)
        for _ in span.paced(args.interval, device.poll):
            device.write(rid, payload, reliable=not args.best_effort)
        device.flush()
    printer.done("pub", args.name, count=span.count)
    return 0


def _sub(args: argparse.Namespace) -> int:
    from elea.cli.samples import Printer

    printer, span = Printer.of(args), Span(args.count, args.timeout)
    with _open(args) as device, _Guarded(args.name):
        window = None if args.window is None else (0, *args.window)
        device.subscriber(args.name, window_ms=window)
        try:
            while not span.is_over:
                sample = device.receive(span.left_s)
                if sample is None:
                    break
                span.count += 1
                printer.sample(_sample(sample))
        finally:
            summarise("sample", span, dropped_count=device.dropped_count)
    return span.code


def _pull(args: argparse.Namespace) -> int:
    from elea.cli.samples import Printer

    printer = Printer.of(args)
    with _open(args) as device, _Guarded(args.name):
        id_ = device.selected(args.name)
        found = device.pull(id_, args.max)
    for sample in found:
        printer.sample(_sample(sample))
    note(counted(len(found), "sample"))
    return 0 if found else 1


def _scout(args: argparse.Namespace) -> int:
    from elea.cli.samples import Printer
    from elea.devices.scouting import scout_at, scout_group
    from elea.xrce.session.scouting import Role

    printer, span = Printer.of(args), Span(args.count, args.timeout)
    roles = Role.BROKER | Role.DURABILITY
    if args.connect is not None:
        answers = scout_at(args.connect, args.timeout, roles)
    else:
        answers = scout_group(args.group, args.interface, args.timeout, roles)
    for one in answers:
        span.count += 1
        printer.record(
            {"source": one.source, "roles": [*one.role_names], "locators": [*one.locators]},
            _line(one),
        )
        if span.is_full:
            break
    note(f"{counted(span.count, 'gateway')}, asked {args.connect or args.group}")
    return span.code if span.count else 1


def _line(gateway: Gateway) -> str:
    locators = " ".join(map(escape, gateway.locators))
    return f"{gateway.source} {'|'.join(gateway.role_names)} {locators}".rstrip()


class _Guarded:
    """Says what was refused in the words of the command line."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        """Nothing is needed."""

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        from elea.xrce.status import RefusedError

        if isinstance(error, RefusedError):
            text = f"{self._name!a} was refused by the gateway: {error.status.name.lower()}"
            raise EleaError(f"{text}; names are {_NAME}") from None
        if isinstance(error, TimeoutError):
            raise EleaError(str(error)) from None


def _sample(received: Received) -> Sample:
    from elea.sample import Sample
    from elea.xrce.names import Resource, to_key

    return Sample(key_expr=to_key(Resource(received.path)), payload=received.payload)


def _endpoint(text: str) -> str:
    from elea.devices.lines import endpoint_of

    try:
        endpoint_of(text)
    except InvalidValueError as error:
        raise argparse.ArgumentTypeError(error.reason) from None
    return text


def _pid(text: str) -> bytes:
    from elea.devices.access import pid_of
    from elea.xrce.session.settings import PID_LEN_MAX

    pid = pid_of(text)
    if pid is None:
        raise argparse.ArgumentTypeError(f"saw {text!a}; 1 to {PID_LEN_MAX} octets as hex digits")
    return pid


def _window(text: str) -> tuple[int, int]:
    period, _, duration = text.partition(":")
    if not (period.isdigit() and duration.isdigit() and 0 < int(duration) < int(period)):
        raise argparse.ArgumentTypeError(
            f"saw {text!a}; milliseconds such as 1000:100, the duration below the period"
        )
    return int(period), int(duration)


def _frame_len(text: str) -> int:
    if not text.isdigit() or not _FRAME_LEN_MIN <= int(text) <= _FRAME_LEN_MAX:
        raise argparse.ArgumentTypeError(
            f"saw {text!a}; legal are {_FRAME_LEN_MIN} to {_FRAME_LEN_MAX}"
        )
    return int(text)
