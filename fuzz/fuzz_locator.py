"""Fuzz locators and endpoints: any text gives a value that reads back, or a LocatorError."""

from __future__ import annotations

import contextlib

from elea.errors import LocatorError
from elea.locator import Endpoint, Locator

SEEDS = [
    b"tcp/127.0.0.1:7447",
    b"tcp/[::1]:7447?prio=1-5;rel=1",
    b"udp/224.0.0.224:7446?rel=0#iface=eth0;ttl=1",
    b"tls/host:7447#listen_private_key_base64=QUJD;verify_name_on_connect=false",
    b"unixsock-stream//tmp/zenoh.sock",
    b"tcp/a:1?b=1;a=2;;c=d=e|f#z;y",
    "serial//dev/ttyé0#baudrate=115200".encode(),
    b"tcp/a?" + b";".join(b"k%d=v" % n for n in range(40)),
]


# A parameter of two octets, "a;", becomes a tuple, a text and two places in lists: about 40 times
# its length, for at most 4 KiB.
MEMORY_ALLOWANCE = 512 * 1024


def one_input(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(LocatorError):
        locator = Locator.parse(text)
        assert Locator(str(locator)) == locator
        locator.host_port()
    with contextlib.suppress(LocatorError):
        endpoint = Endpoint.parse(text)
        assert Endpoint.parse(endpoint.reveal()) == endpoint
        endpoint.host_port()
